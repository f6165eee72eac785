//! The store: the tree, the space and the journal as one, changed by transactions that power failures do not split.
//!
//! Changes go into the tree in memory, and into the running transaction. A **commit** makes that durable by a record of the
//! journal. A **checkpoint** writes the tree to new places and an anchor that leads there; then all is durable, and the journal's
//! rows are free again. After a crash, [`Store::open`] takes the newest anchor's tree and repeats what was committed since.

mod checkpoint;
mod error;
mod ground;
mod make;
mod open;
mod running;
mod write;

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use stripewise_device::SharedBuf;
use stripewise_format::rafs::{
    anchor::Anchor,
    journal::{Change, Run},
    key::Key,
    space::GroupKind,
    superblock::Superblock,
};

use self::running::Running;
pub use self::{
    error::StoreError,
    ground::{Ground, GroundError},
    make::{MakeError, MakeOptions, make},
    open::{OpenError, Replay},
};
use crate::{
    journal::{CommitError, Journal},
    shape::{BlockNo, Geometry, StripeNo},
    space::{Counts, Opened, Space},
    tree::Tree,
    volume::Volume,
};

/// Blocks that are kept for checkpoints beside those of the nodes that are dirty: the groups' items dirty some more.
const KEPT_BLOCKS: u64 = 64;

/// A store that is open for changes.
pub struct Store {
    volume: Arc<dyn Volume>,
    superblock: Superblock,
    tree: Tree,
    space: Space,
    journal: Journal,
    running: Running,
    /// The newest durable anchor, and at which of the two places it is.
    anchor: (usize, Anchor),
    /// The highest generation that nodes on the volume may have.
    generation: u64,
    /// Places of nodes that a checkpoint which failed gave up, and that the durable tree has still. The space holds them.
    given_up: BTreeSet<BlockNo>,
    /// File blocks were written and not flushed.
    is_unflushed: bool,
    /// What is on the volume is not known: an anchor could not be written.
    has_failed: bool,
}

impl Store {
    /// What the file system is.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The tree, to be read.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// How many blocks are taken and held.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.space.counts()
    }

    /// Blocks that files may still take. Some more are kept for the tree.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        let Counts { taken, held } = self.space.counts();
        let all = self.superblock.groups() * u64::from(self.superblock.group_stripes) * self.stripe_blocks();
        all.saturating_sub(taken + held + self.kept_blocks())
    }

    /// Puts an item.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing has changed.
    pub async fn put(&mut self, key: Key, value: Arc<[u8]>) -> Result<(), StoreError> {
        self.tree.insert(key, value.clone()).await?;
        self.running.put(key, Some(value));
        Ok(())
    }

    /// Removes an item. Returns whether there was one.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing has changed.
    pub async fn remove(&mut self, key: Key) -> Result<bool, StoreError> {
        let had = self.tree.remove(key).await?.is_some();
        if had {
            self.running.put(key, None);
        }
        Ok(had)
    }

    /// Chooses a stripe for file blocks, and keeps it until it is [closed](Self::close). None if there is no room.
    pub fn open_stripe(&mut self, kind: GroupKind, near: StripeNo) -> Option<Opened> {
        self.space.open(kind, near)
    }

    /// The free slots of a stripe that is open, whole rows first.
    #[must_use]
    pub fn free_slots(&self, stripe: StripeNo) -> Vec<u32> {
        self.space.free_slots(stripe)
    }

    /// A stripe is no longer filled.
    pub fn close_stripe(&mut self, stripe: StripeNo) {
        self.space.close(stripe);
    }

    /// Takes blocks of a file, in the running transaction.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] if checkpoints need what would be left; [`StoreError::Space`].
    pub fn take(&mut self, kind: GroupKind, blocks: Range<BlockNo>) -> Result<(), StoreError> {
        if self.free_blocks() < blocks.end.0 - blocks.start.0 {
            return Err(StoreError::NoSpace);
        }
        self.space.take(kind, blocks.clone())?;
        self.running.note(Change::Take(kind, run(&blocks)));
        Ok(())
    }

    /// Frees blocks of a file, in the running transaction. They can be taken again once it is durable.
    ///
    /// # Errors
    /// [`StoreError::Space`].
    pub fn free(&mut self, blocks: Range<BlockNo>) -> Result<(), StoreError> {
        self.space.free(blocks.clone())?;
        self.running.note(Change::Free(run(&blocks)));
        self.running.freed.push(blocks);
        Ok(())
    }

    /// Makes durable all changes so far, and what was written to file blocks. `data` are blocks of files that come along: so many of
    /// each file from a block on, and their bytes.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing of it may be durable, and all of it is tried again with the next commit.
    pub async fn commit(&mut self, data: &[(Change, Vec<SharedBuf>)]) -> Result<(), StoreError> {
        self.check()?;
        if self.running.is_empty() && data.is_empty() {
            return self.flush().await;
        }
        if self.running.has_new_places() {
            // What the record refers to must not come after it.
            self.flush().await?;
        }
        let transaction = self.running.transaction(data);
        match self.journal.commit(&transaction).await {
            Ok(()) => {
                self.is_unflushed = false;
                self.end_running()
            }
            Err(CommitError::Full | CommitError::TooLarge) if data.is_empty() => self.checkpoint().await,
            Err(CommitError::Full) => {
                self.checkpoint().await?;
                let transaction = self.running.transaction(data);
                Ok(self.journal.commit(&transaction).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The running transaction is durable.
    fn end_running(&mut self) -> Result<(), StoreError> {
        for blocks in std::mem::take(&mut self.running).freed {
            self.space.release(blocks)?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        if self.is_unflushed {
            self.volume.flush().await?;
            self.is_unflushed = false;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.has_failed { Err(StoreError::Failed) } else { Ok(()) }
    }

    fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    fn stripe_blocks(&self) -> u64 {
        self.superblock.stripe_blocks().into()
    }

    /// Blocks that the next checkpoint may need.
    fn kept_blocks(&self) -> u64 {
        2 * self.tree.dirty_nodes() as u64 + KEPT_BLOCKS
    }
}

fn run(blocks: &Range<BlockNo>) -> Run {
    Run { place: blocks.start.0, blocks: (blocks.end.0 - blocks.start.0) as u32 }
}

#[cfg(test)]
mod tests;
