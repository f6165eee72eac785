//! The store: the tree, the space and the journal as one, changed by transactions that power failures do not split.
//!
//! Changes go into the tree in memory, and into the running transaction. A **commit** makes that durable by a record of the
//! journal. A **checkpoint** writes the tree to new places and an anchor that leads there; then all is durable, and the journal's
//! rows are free again. After a crash, [`Store::open`] takes the newest anchor's tree and repeats what was committed since.

mod checkpoint;
mod discards;
mod error;
mod ground;
mod make;
mod open;
mod places;
mod replayed;
mod running;
mod stripes;
mod write;

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, Weak},
};

use stripewise_device::SharedBuf;
use stripewise_format::rafs::{
    anchor::{Anchor, INODES_END},
    journal::{Change, Run},
    key::{Key, KeyKind},
    superblock::Superblock,
};

pub(crate) use self::{
    checkpoint::Hold,
    ground::{bad_copies, check_shape, check_writable, read_anchor, read_copy, write_row},
    open::{GENERATIONS_APART, layout, order_of},
    replayed::ReplayedData,
    stripes::Class,
    write::plan_writes,
};
use self::{discards::Discards, running::Running};
pub use self::{
    error::StoreError,
    ground::{Ground, GroundError, read_superblock},
    make::{MakeError, MakeOptions, make, plan},
    open::{OpenError, Purpose, Replay},
    stripes::{StripeCounts, Written},
    write::StripeWrite,
};
use crate::{
    healing::Healing,
    journal::{CommitError, Journal},
    mutants::{Mutant, lives},
    shape::{BlockNo, Geometry, Order, StripeNo},
    space::{Counts, Space},
    tree::Tree,
    volume::Volume,
};

/// Blocks that are kept for checkpoints beside those of the nodes that are dirty: the groups' items dirty some more.
const KEPT_BLOCKS: u64 = 64;

/// A store that is open for changes.
pub struct Store {
    volume: Arc<dyn Volume>,
    healing: Arc<Healing>,
    superblock: Superblock,
    tree: Tree,
    space: Space,
    journal: Journal,
    running: Running,
    /// The newest durable anchor, and at which of the two places it is.
    anchor: (usize, Anchor),
    /// The highest generation that nodes on the volume may have.
    generation: u64,
    /// Inodes in the tree, and the number that the next one gets. No number is given twice.
    inodes: u64,
    next_inode: u64,
    /// Places of nodes that a checkpoint which failed gave up, and that the durable tree has still. The space holds them.
    given_up: BTreeSet<BlockNo>,
    /// Alive as long as somebody looks at the tree of an anchor.
    held: Weak<Hold>,
    /// Places of nodes that later anchors' trees do not have, and that are not free yet because somebody looks at an older tree, which has them.
    kept: Vec<BlockNo>,
    /// The stripe where nodes were placed last.
    filling: StripeNo,
    /// File blocks were written and not flushed.
    is_unflushed: bool,
    /// A record may become durable before blocks that it refers to.
    may_trail: bool,
    /// The next record waits for a flush all the same.
    comes_first: bool,
    /// Blocks of files came along with commits since the last checkpoint.
    has_data: bool,
    discards: Discards,
    /// But for the journal, which counts its own.
    written: StripeCounts,
    /// What is on the volume is not known: an anchor could not be written. Or writes are under way; if their future is dropped, this
    /// stays so.
    has_failed: bool,
}

/// Blocks of a file that come along with a commit.
#[derive(Debug, Clone)]
pub struct FileBlocks {
    /// The file.
    pub inode: u64,
    /// The first of them in the file.
    pub first: u64,
    /// Their bytes, a block each.
    pub blocks: Vec<SharedBuf>,
}

impl Store {
    /// What the file system is.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// What heals blocks.
    pub(crate) fn healing(&self) -> &Arc<Healing> {
        &self.healing
    }

    /// How the slots of all stripe groups are numbered.
    #[must_use]
    pub fn order(&self) -> Order {
        order_of(&self.superblock)
    }

    /// How many rows the journal still takes, and how many it has.
    #[must_use]
    pub fn journal_room(&self) -> (u64, u64) {
        self.journal.room()
    }

    /// Whether something was changed since the last commit.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.is_unflushed || !self.running.is_empty()
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

    /// Whether a block of a stripe group is taken.
    #[must_use]
    pub fn is_taken(&self, block: BlockNo) -> bool {
        self.space.is_taken(block)
    }

    /// Blocks that files may still take, without those of stripes that are being filled. Some more are kept for the tree.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.spare_blocks().saturating_sub(self.free_of_open())
    }

    /// Free blocks of stripes that are being filled.
    #[must_use]
    pub fn free_of_open(&self) -> u64 {
        self.space.free_of_open()
    }

    /// Blocks that files may still take.
    fn spare_blocks(&self) -> u64 {
        let Counts { taken, held } = self.space.counts();
        let all = self.superblock.groups() * u64::from(self.superblock.group_stripes) * self.stripe_blocks();
        all.saturating_sub(taken + held + self.kept_blocks())
    }

    /// Whether files may still take so many blocks.
    #[must_use]
    pub fn has_room_for(&self, blocks: u64) -> bool {
        self.spare_blocks() >= blocks
    }

    /// Puts an item.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing has changed.
    pub async fn put(&mut self, key: Key, value: Arc<[u8]>) -> Result<(), StoreError> {
        self.check()?;
        self.insert(key, value.clone()).await?;
        self.running.put(key, Some(value));
        Ok(())
    }

    /// Removes an item. Returns whether there was one.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing has changed.
    pub async fn remove(&mut self, key: Key) -> Result<bool, StoreError> {
        self.check()?;
        let had = self.delete(key).await?;
        if had {
            self.running.put(key, None);
        }
        Ok(had)
    }

    /// Gives the tree an item, and counts it if it is an inode.
    async fn insert(&mut self, key: Key, value: Arc<[u8]>) -> Result<(), StoreError> {
        let is_new = self.tree.insert(key, value).await?.is_none();
        if key.kind == KeyKind::Inode {
            self.inodes += u64::from(is_new);
            self.next_inode = self.next_inode.max(key.object.saturating_add(1));
        }
        Ok(())
    }

    /// Takes an item from the tree. Returns whether it was there.
    async fn delete(&mut self, key: Key) -> Result<bool, StoreError> {
        let had = self.tree.remove(key).await?.is_some();
        if key.kind == KeyKind::Inode {
            self.inodes = self.inodes.saturating_sub(had.into());
        }
        Ok(had)
    }

    /// A number for a new inode, which no other one has or had; none if all were given away.
    pub fn new_inode(&mut self) -> Option<u64> {
        let number = self.next_inode;
        self.next_inode = number.checked_add(1).filter(|next| *next <= INODES_END)?;
        Some(number)
    }

    /// Inodes in the tree.
    #[must_use]
    pub fn inodes(&self) -> u64 {
        self.inodes
    }

    /// Blocks of a file that came along with earlier commits no longer count once the running transaction is durable.
    pub fn forget_data(&mut self, inode: u64, blocks: Range<u64>) {
        self.running.note(Change::Forget { inode, first: blocks.start, blocks: blocks.end - blocks.start });
    }

    /// Makes durable all changes so far, and what was written to file blocks. Blocks of files may come along: they are in the journal
    /// only, and [`Store::open`] hands them out after a crash, until a [checkpoint](Self::checkpoint).
    ///
    /// # Errors
    /// [`StoreError`]; then nothing of it may be durable, and all of it is tried again with the next commit. [`CommitError::Full`]: blocks
    /// that came along earlier must be written out, and a checkpoint be made, before the journal takes more.
    pub async fn commit(&mut self, data: &[FileBlocks]) -> Result<(), StoreError> {
        self.begin()?;
        let committed = self.commit_begun(data).await;
        self.end(committed)
    }

    async fn commit_begun(&mut self, data: &[FileBlocks]) -> Result<(), StoreError> {
        let is_empty = self.running.is_empty() && data.is_empty();
        // What the record refers to must not come after it.
        let trails = self.may_trail && !self.comes_first && !is_empty;
        if !trails && !lives(Mutant::DataNotFlushed) {
            self.flush().await?;
        }
        if is_empty {
            return Ok(());
        }
        let transaction = self.running.transaction(data);
        match self.journal.commit(&transaction).await {
            // The record was flushed, and all that was written before.
            Ok(()) => {
                self.is_unflushed &= !trails;
                self.comes_first = false;
                self.end_running()?;
            }
            // With blocks of files, the lengths that they make durable would come before them.
            Err(CommitError::Full | CommitError::TooLarge) if !self.has_data && data.is_empty() => {
                return self.checkpoint_begun(false).await;
            }
            Err(error) => return Err(error.into()),
        }
        self.has_data |= !data.is_empty();
        Ok(())
    }

    /// The running transaction is durable.
    fn end_running(&mut self) -> Result<(), StoreError> {
        for blocks in std::mem::take(&mut self.running).freed {
            self.release(blocks)?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        if self.is_unflushed {
            self.volume.flush().await?;
            (self.is_unflushed, self.comes_first) = (false, false);
        }
        Ok(())
    }

    /// Lets records become durable before blocks that they refer to, where a crash then leaves what a reader notices, and nothing is lost
    /// that was durable.
    pub fn let_data_trail(&mut self, may_trail: bool) {
        self.may_trail = may_trail;
    }

    /// What was written comes before the next record all the same: it is in the place of other blocks, or has no CRC.
    pub fn let_data_come_first(&mut self) {
        self.comes_first |= !lives(Mutant::ReplacedTrails);
    }

    /// Whether it takes changes.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    pub fn check(&self) -> Result<(), StoreError> {
        if self.has_failed { Err(StoreError::Failed) } else { Ok(()) }
    }

    /// It takes no more changes.
    pub fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// Writes begin. A device goes on with them if their future is dropped, so nothing else may be written then.
    fn begin(&mut self) -> Result<(), StoreError> {
        self.check()?;
        self.has_failed = true;
        Ok(())
    }

    /// They have ended, with this result.
    fn end(&mut self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        self.has_failed = result == Err(StoreError::Failed);
        result
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
mod full;
#[cfg(test)]
mod tests;
