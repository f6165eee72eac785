//! Places of files: which stripes are filled, what is taken, and what is free again.

use std::{collections::BTreeSet, ops::Range};

use stripewise_format::rafs::{journal::Change, key::Key, space::GroupKind};

use super::{Store, StoreError, run};
use crate::{
    mutants::{Mutant, lives},
    shape::{BlockNo, StripeNo},
    space::{FILLS, Measure, Opened},
};

/// More blocks than a checkpoint needs for the nodes on the way to a key.
const WAY_MAX: u64 = 64;

impl Store {
    /// Chooses a stripe for file blocks, and keeps it until it is [closed](Self::close). None if there is no room.
    pub fn open_stripe(&mut self, kind: GroupKind, near: StripeNo) -> Option<Opened> {
        self.space.open(kind, near)
    }

    /// As [`Store::open_stripe`], for parts of files. What was filled last is filled on while rows of it are free.
    pub fn fill_on(&mut self, last: Option<StripeNo>, near: StripeNo) -> Option<Opened> {
        let again = last.and_then(|stripe| self.space.reopen(GroupKind::Small, stripe));
        again.or_else(|| self.space.open(GroupKind::Small, near))
    }

    /// The slots of an open stripe that are filled next: those of its free rows, or all free slots if it has no free row, or if rows do not
    /// count.
    #[must_use]
    pub fn free_slots(&self, stripe: StripeNo) -> Vec<u32> {
        self.space.free_slots(stripe)
    }

    /// The stripes of this kind of which half or more is free, but not all, the emptiest ones first, and how many blocks of each are
    /// taken.
    #[must_use]
    pub fn half_empty(&self, kind: GroupKind) -> Vec<(StripeNo, u64)> {
        self.space.half_empty(kind)
    }

    /// The nodes on the way to a key get other places at the next checkpoint, if one of them lies in these stripes. Returns how many nodes
    /// these are.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] if the checkpoint would have too little room; [`StoreError`].
    pub async fn leave_stripes(&mut self, key: Key, stripes: &BTreeSet<StripeNo>) -> Result<u64, StoreError> {
        self.check()?;
        if !self.has_room_for(WAY_MAX) {
            return Err(StoreError::NoSpace);
        }
        let geometry = self.geometry();
        let is_left = |place: BlockNo| stripes.contains(&geometry.locate(place).0);
        Ok(self.tree.leave_places(key, is_left).await? as u64)
    }

    /// The stripe where nodes were placed last.
    #[must_use]
    pub fn filled_by_nodes(&self) -> StripeNo {
        self.filling
    }

    /// How many stripes are free, and how many there are.
    #[must_use]
    pub fn free_stripes(&self) -> (u64, u64) {
        self.space.free_stripes()
    }

    /// Changes which of two stripes has more room.
    pub fn set_measure(&mut self, measure: Measure) {
        self.space.set_measure(measure);
    }

    /// How many stripes of all groups are how full: free ones, then those of which up to a tenth is in use, two tenths, and so on, and at
    /// last those that are full.
    #[must_use]
    pub fn fill(&self) -> [u64; FILLS] {
        self.space.fill()
    }

    /// These stripes are filled only if no other one has room, until the next call.
    pub fn avoid(&mut self, stripes: &BTreeSet<StripeNo>) {
        self.space.avoid(stripes);
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
        self.check()?;
        if self.spare_blocks() < blocks.end.0.saturating_sub(blocks.start.0) {
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
        self.check()?;
        self.space.free(blocks.clone())?;
        self.running.note(Change::Free(run(&blocks)));
        if lives(Mutant::FreedAtOnce) {
            self.release(blocks)?;
        } else {
            self.running.freed.push(blocks);
        }
        Ok(())
    }

    /// What frees these blocks is durable: they are free, and stripes of which all is free may be discarded.
    pub(super) fn release(&mut self, blocks: Range<BlockNo>) -> Result<(), StoreError> {
        let free = self.space.release(blocks)?;
        self.discards.add(free);
        Ok(())
    }
}
