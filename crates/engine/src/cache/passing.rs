//! Passing a full cache by: a write of which nothing is cached may go to members at once.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::{Bucket, Cache, Dropped, PASSED, slot::Slot};
use crate::{
    compute::cells::{Column, Part, blocks_of},
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
        let may_pass = self.has_none_dirty(span);
        self.counts.add(PASSED, u64::from(may_pass));
        may_pass
    }

    #[inline]
    fn has_none_dirty(&self, span: &StripeSpan) -> bool {
        let mut parts: SmallVec<[Part; 2]> = blocks_of(span, self.chunk_bytes).collect();
        if let [only] = &parts[..] {
            let number = self.number_of(span.stripe, only.column, only.row);
            let bucket = self.place_of(self.unit_of(span.stripe, only.row));
            return !self.filter.may_hold(bucket, number) || self.drop_unless_dirty(span, &parts);
        }
        parts.sort_unstable_by_key(|part| part.row);
        let mut units = parts.chunk_by(|one, other| one.row / self.unit_rows == other.row / self.unit_rows);
        units.all(|parts| self.drop_unless_dirty(span, parts))
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

    /// Drops those of these blocks of a unit that are clean, unless one of them is dirty. Returns whether none is.
    fn drop_unless_dirty(&self, span: &StripeSpan, parts: &[Part]) -> bool {
        let unit = self.unit_of(span.stripe, parts[0].row);
        let mut bucket = self.bucket(unit);
        if let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) {
            if parts.iter().any(|part| is_dirty(slot, part)) {
                return lives(Mutant::DirtyPassedBy);
            }
            let mut dropped = Dropped::of(self);
            for part in parts.iter().filter(|_| !lives(Mutant::PassedByStaysClean)) {
                let column = slot.cells.get_mut(part.column);
                if let Some(column) = column.filter(|column| column.clean().contains(part.row)) {
                    dropped.take(unit, part.column, (column, part.row));
                }
            }
            if dropped.len() > 0 {
                self.forget_empty(&mut bucket);
            }
        }
        // It let this write come here.
        self.renew_filter(unit, &bucket);
        true
    }

    /// Takes the cells that went out of the filter.
    fn renew_filter(&self, unit: u64, bucket: &Bucket) {
        let cells = bucket.slots.iter().flat_map(|slot| {
            let (stripe, cells) = (self.stripe_of(slot.unit), &slot.cells);
            let rows = |(number, column): (usize, &Column)| {
                column.held().runs().flatten().map(move |row| self.number_of(stripe, number, row))
            };
            cells.columns().flat_map(rows).collect::<SmallVec<[u64; 8]>>()
        });
        self.filter.renew(self.place_of(unit), cells);
    }
}

fn slot_of(bucket: &Bucket, unit: u64) -> Option<&Slot> {
    bucket.slots.iter().find(|slot| slot.unit == unit)
}

fn is_dirty(slot: &Slot, part: &Part) -> bool {
    let dirty = slot.cells.get(part.column).map_or(RowSet::EMPTY, |column| column.dirty());
    dirty.contains(part.row)
}
