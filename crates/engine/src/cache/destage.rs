//! What leaves the cache: cells that are lent to a destage, and cells that a write past the cache replaces; and how the
//! cache learns what became of such a write.

use std::sync::{Arc, atomic::Ordering};

use stripewise_device::{Timestamp, sync::seam::spin};

use super::{Cache, Turn, slot::NEVER};
use crate::{
    compute::CachedCells,
    mutants::{Mutant, lives},
    shape::{geometry::StripeIndex, rows::RowSet},
};

/// A unit that could be destaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) stripe: StripeIndex,
    /// The rows that are dirty.
    pub(crate) rows: RowSet,
    /// Dirty cells.
    pub(crate) blocks: usize,
    /// When it was written last.
    pub(crate) written: Timestamp,
    /// No dirty cell was written before.
    pub(crate) dirty_since: Timestamp,
}

/// What ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Cells are destaged. `epoch` is that of the moment when they were lent.
    Destage { epoch: u64 },
    /// A whole stripe is written or zeroed past the cache.
    Pass,
}

/// Tells the cache how a write ended, when it is dropped: while the rows are still locked. A write that did not
/// [succeed](Ending::succeed) has failed.
pub(crate) struct Ending {
    cache: Arc<Cache>,
    stripe: StripeIndex,
    /// The dirty cells when it began. They are kept, so that no address of a block is used again.
    cells: Arc<CachedCells>,
    of: Of,
    has_succeeded: bool,
}

impl Ending {
    /// All was written.
    pub(crate) fn succeed(&mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        match self.of {
            Of::Destage { epoch } => {
                if self.has_succeeded || lives(Mutant::CleanOnError) {
                    self.cache.destaged(self.stripe, &self.cells, epoch);
                }
            }
            Of::Pass => self.cache.passed(self.stripe, &self.cells, self.has_succeeded),
        }
        // Its blocks first, so that a writer that waits for memory finds them free.
        self.cells = Arc::default();
        self.cache.tell_waiting();
    }
}

impl Cache {
    /// The dirty rows of a stripe.
    pub(crate) fn dirty_rows(&self, stripe: StripeIndex) -> RowSet {
        self.all_units(stripe).fold(RowSet::EMPTY, |all, unit| {
            let bucket = self.bucket(unit);
            let slot = bucket.slots.iter().find(|slot| slot.unit == unit);
            slot.map_or(all, |slot| all | slot.cells.dirty_rows())
        })
    }

    /// Lends what is cached of some rows of a stripe that are dirty, to be destaged. The caller holds the rows.
    pub(crate) fn lend(
        self: &Arc<Self>,
        stripe: StripeIndex,
        rows: RowSet,
    ) -> Option<(Arc<CachedCells>, Box<Ending>)> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let mut lent = CachedCells::default();
        for unit in self.all_units(stripe) {
            let bucket = self.bucket(unit);
            if let Some(slot) = bucket.slots.iter().find(|slot| slot.unit == unit) {
                lent.absorb(slot.cells.lend(rows & slot.cells.dirty_rows()));
            }
        }
        (!lent.is_empty()).then(|| {
            let cells = Arc::new(lent);
            (cells.clone(), Box::new(self.ending(stripe, cells, Of::Destage { epoch })))
        })
    }

    fn ending(self: &Arc<Self>, stripe: StripeIndex, cells: Arc<CachedCells>, of: Of) -> Ending {
        Ending { cache: self.clone(), stripe, cells, of, has_succeeded: false }
    }

    /// What was lent is on the members.
    fn destaged(&self, stripe: StripeIndex, lent: &CachedCells, epoch: u64) {
        // A stream of writes leaves no stripes behind that others would have to make room for, and its next blocks find
        // memory that is in the processor's caches.
        let turn = if self.is_full(lent) { Turn::First } else { Turn::Last };
        let (mut dropped, mut went) = (Vec::new(), 0);
        for unit in self.all_units(stripe) {
            let at = self.place_of(unit);
            let mut bucket = spin(&self.buckets[at]);
            let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) else { continue };
            let dirty = slot.cells.dirty_rows();
            went += slot.make_clean(lent, &mut dropped);
            if slot.cells.dirty_rows().is_empty() {
                slot.oldest = NEVER;
            } else if (dirty - lent.dirty_rows()).is_empty() {
                // What is dirty now was written since it was lent.
                slot.oldest = slot.oldest.max(epoch);
            }
            if slot.has_clean() {
                self.list(&mut bucket, at, turn);
            }
            if !dropped.is_empty() {
                self.forget_empty(&mut bucket);
            }
        }
        self.dirty.add(1, went as u64);
    }

    /// A write of a whole stripe begins to pass the cache by. What is dirty stays until the end, and what is clean
    /// is dropped.
    pub(crate) fn begin_pass(self: &Arc<Self>, stripe: StripeIndex) -> Box<Ending> {
        let (mut dropped, mut lent) = (Vec::new(), CachedCells::default());
        for unit in self.all_units(stripe) {
            let mut bucket = self.bucket(unit);
            bucket.passing.push(stripe.0);
            let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) else { continue };
            if !lives(Mutant::PassedStaysClean) {
                slot.drop_clean(&mut dropped);
            }
            lent.absorb(slot.cells.lend(slot.cells.dirty_rows()));
            self.forget_empty(&mut bucket);
        }
        Box::new(self.ending(stripe, Arc::new(lent), Of::Pass))
    }

    /// A write of a whole stripe has passed the cache by.
    fn passed(&self, stripe: StripeIndex, before: &CachedCells, has_succeeded: bool) {
        let (mut dropped, mut went) = (Vec::new(), 0);
        for unit in self.all_units(stripe) {
            let mut bucket = self.bucket(unit);
            if let Some(at) = bucket.passing.iter().position(|passing| *passing == stripe.0) {
                bucket.passing.swap_remove(at);
            }
            let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) else { continue };
            if !lives(Mutant::PassedStaysClean) {
                slot.drop_clean(&mut dropped);
            }
            if has_succeeded && !lives(Mutant::PassedStaysDirty) {
                went += slot.drop_same(before, &mut dropped);
            }
            if slot.cells.dirty_rows().is_empty() {
                slot.oldest = NEVER;
            }
            self.forget_empty(&mut bucket);
        }
        self.dirty.add(1, went as u64);
    }

    /// What members hold of a stripe is changed beside the cache.
    pub(crate) fn forget_clean(&self, stripe: StripeIndex) {
        let mut dropped = Vec::new();
        for unit in self.all_units(stripe) {
            let mut bucket = self.bucket(unit);
            if let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) {
                slot.drop_clean(&mut dropped);
                self.forget_empty(&mut bucket);
            }
        }
    }

    /// Begins an epoch. Returns the last one, whose writes and earlier ones a flush must make durable.
    pub(crate) fn end_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst)
    }

    /// The units with cells of this epoch or an earlier one, by place.
    pub(crate) fn dirty_until(&self, epoch: u64) -> Vec<Candidate> {
        let mut found = Vec::new();
        for bucket in &self.buckets {
            let bucket = spin(bucket);
            let old = bucket.slots.iter().filter(|slot| slot.oldest != NEVER && slot.oldest <= epoch);
            found.extend(old.map(|slot| Candidate {
                stripe: StripeIndex(slot.unit / self.units_per_stripe()),
                rows: slot.cells.dirty_rows(),
                blocks: slot.cells.dirty_blocks(),
                written: slot.written,
                dirty_since: slot.dirty_since,
            }));
        }
        found.sort_unstable_by_key(|candidate| (candidate.stripe.0, candidate.rows.first()));
        found
    }

    /// All units with dirty cells, by place.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        self.dirty_until(NEVER - 1)
    }
}
