//! Passing a full cache by: a write of which nothing is cached may go to members at once.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use stripewise_device::Block;

use super::{Bucket, Cache, PASSED, slot::Slot};
use crate::{
    compute::cells::{Part, blocks_of},
    mutants::{Mutant, lives},
    shape::{geometry::StripeSpan, rows::RowSet},
};

impl Cache {
    /// Whether writes pass by, as far as they may.
    #[inline]
    pub(crate) fn passes(&self) -> bool {
        self.passes.load(Ordering::Relaxed)
    }

    /// Lets writes pass by, or no more.
    pub(crate) fn let_writes_pass(&self, passes: bool) {
        if self.passes.swap(passes, Ordering::Relaxed) != passes {
            self.tell_waiting();
        }
    }

    /// Whether a write of these bytes may pass by: none of their blocks is dirty, or members would get the older bytes
    /// last. Drops those that are clean. The caller holds the rows until members have the write, so that no destage
    /// makes another block of them clean. What becomes dirty meanwhile is newer.
    #[inline]
    pub(crate) fn let_pass(&self, span: &StripeSpan) -> bool {
        let mut parts: SmallVec<[Part; 2]> = blocks_of(span, self.chunk_bytes).collect();
        parts.sort_unstable_by_key(|part| part.row);
        let units = parts.chunk_by(|one, other| one.row / self.unit_rows == other.row / self.unit_rows);
        // All are looked at before one is dropped: a write that stays leaves the cache as it is.
        let may_pass = units.clone().all(|parts| !self.has_dirty(span, parts));
        if may_pass {
            units.for_each(|parts| self.drop_clean_of(span, parts));
            self.counts.add(PASSED, 1);
        }
        may_pass
    }

    /// Whether all blocks of a write are dirty: it can be put without more of them.
    #[cold]
    pub(super) fn rewrites(&self, span: &StripeSpan) -> bool {
        blocks_of(span, self.chunk_bytes).all(|part| {
            let unit = self.unit_of(span.stripe, part.row);
            let bucket = self.bucket(unit);
            slot_of(&bucket, unit).is_some_and(|slot| is_dirty(slot, &part))
        })
    }

    /// Whether one of these blocks of a unit is dirty.
    fn has_dirty(&self, span: &StripeSpan, parts: &[Part]) -> bool {
        let unit = self.unit_of(span.stripe, parts[0].row);
        let bucket = self.bucket(unit);
        let slot = slot_of(&bucket, unit);
        slot.is_some_and(|slot| parts.iter().any(|part| is_dirty(slot, part)))
            && !lives(Mutant::DirtyPassedBy)
    }

    /// Drops the clean ones of these blocks of a unit.
    fn drop_clean_of(&self, span: &StripeSpan, parts: &[Part]) {
        let unit = self.unit_of(span.stripe, parts[0].row);
        let mut bucket = self.bucket(unit);
        let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) else { return };
        if lives(Mutant::PassedByStaysClean) {
            return;
        }
        let mut dropped: SmallVec<[Block; 2]> = SmallVec::new();
        for part in parts {
            let column = slot.cells.get_mut(part.column);
            let clean = column.filter(|column| column.clean().contains(part.row));
            dropped.extend(clean.and_then(|column| column.take(part.row)));
        }
        if !dropped.is_empty() {
            self.forget_empty(&mut bucket);
        }
    }
}

fn slot_of(bucket: &Bucket, unit: u64) -> Option<&Slot> {
    bucket.slots.iter().find(|slot| slot.unit == unit)
}

fn is_dirty(slot: &Slot, part: &Part) -> bool {
    let dirty = slot.cells.get(part.column).map_or(RowSet::EMPTY, |column| column.dirty());
    dirty.contains(part.row)
}
