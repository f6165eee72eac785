//! Passing the cache by, while it is full or clients flush all the time: a write of which nothing is dirty may go to
//! members at once.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::{Bucket, Cache, Dropped, PASSED, PASSED_BYTES, filter::Filter, slot::Slot};
use crate::{
    compute::cells::{Column, Part, blocks_of},
    destage::{Bound, Verdict, Weighed},
    mutants::{Mutant, lives},
    shape::{
        geometry::{StripeIndex, StripeSpan},
        rows::RowSet,
    },
};

impl Cache {
    /// Whether writes of a stripe pass by, as far as they may.
    #[inline]
    pub(crate) fn passes(&self, stripe: StripeIndex) -> bool {
        Bound::of_bits(self.passing.load(Ordering::Relaxed)).holds(stripe)
    }

    /// Lets writes pass by as a policy says.
    pub(crate) fn let_writes_pass(&self, verdict: &Verdict) {
        let bits = verdict.bound.bits();
        // Every write reads it: it is written when it changes only.
        if self.passing.load(Ordering::Relaxed) != bits {
            self.passing.store(bits, Ordering::Relaxed);
            self.tell_waiting();
        }
        *self.weighed.lock() = verdict.weighed;
    }

    /// How the ways compare.
    pub(crate) fn weighed(&self) -> Weighed {
        *self.weighed.lock()
    }

    /// Whether so many writes, which have these bytes together, may pass by: none of their blocks is dirty, or members would
    /// get the older bytes last. Drops those that are clean. The caller holds the rows until members have the writes, so that
    /// no destage makes another block of them clean. What becomes dirty meanwhile is newer.
    #[inline]
    pub(crate) fn let_pass(&self, span: &StripeSpan, writes: u64) -> bool {
        let may_pass = self.has_none_dirty(span);
        if may_pass {
            self.counts.add_each([(PASSED, writes), (PASSED_BYTES, span.len as u64)]);
        }
        may_pass
    }

    #[inline]
    fn has_none_dirty(&self, span: &StripeSpan) -> bool {
        match only_block_of(span, self.chunk_bytes) {
            Some(only) => !self.may_hold(span.stripe, &only) || self.drop_unless_dirty(span, &[only]),
            None => self.has_none_dirty_of_many(span),
        }
    }

    fn has_none_dirty_of_many(&self, span: &StripeSpan) -> bool {
        let mut parts: SmallVec<[Part; 2]> = blocks_of(span, self.chunk_bytes).collect();
        parts.sort_unstable_by_key(|part| part.row);
        let mut units = parts.chunk_by(|one, other| one.row / self.unit_rows == other.row / self.unit_rows);
        units.all(|parts| self.drop_unless_dirty(span, parts))
    }

    /// Whether the only block of a write is dirty. Of others it is not looked at.
    pub(crate) fn has_dirty_block(&self, span: &StripeSpan) -> bool {
        let only = only_block_of(span, self.chunk_bytes);
        only.is_some_and(|only| self.may_hold(span.stripe, &only) && self.rewrites(span))
    }

    /// Whether a block may be held, as the filter tells.
    #[inline]
    fn may_hold(&self, stripe: StripeIndex, part: &Part) -> bool {
        let bucket = self.place_of(self.unit_of(stripe, part.row));
        self.filter.may_hold(bucket, self.number_of(stripe, part.column, part.row))
    }

    /// Whether all blocks of a write are dirty: it can be put without more of them.
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
        self.renew_filter(unit, &bucket);
        true
    }

    /// A cell is not held, which the filter may not tell: leaves in it only the cells that the bucket holds. With many of
    /// them it would tell no more than before.
    pub(super) fn renew_filter(&self, unit: u64, bucket: &Bucket) {
        if bucket.slots.iter().map(|slot| slot.cells.blocks()).sum::<usize>() > Filter::CELLS_MAX {
            return;
        }
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

/// The block of a write that has only one.
#[inline]
fn only_block_of(span: &StripeSpan, chunk_bytes: usize) -> Option<Part> {
    let mut parts = blocks_of(span, chunk_bytes);
    parts.next().filter(|_| parts.next().is_none())
}

fn slot_of(bucket: &Bucket, unit: u64) -> Option<&Slot> {
    bucket.slots.iter().find(|slot| slot.unit == unit)
}

fn is_dirty(slot: &Slot, part: &Part) -> bool {
    let dirty = slot.cells.get(part.column).map_or(RowSet::EMPTY, |column| column.dirty());
    dirty.contains(part.row)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use stripewise_device::{IoBuf, Timestamp, WriteBufs};

    use super::*;
    use crate::{
        cache::{CacheKind, CacheSettings, DestageReason, Hit, Way},
        compute::Data,
        shape::{
            geometry::{Geometry, Level, StripeIndex},
            rows::BLOCK_BYTES,
        },
    };

    const BLOCKS: usize = 2 * 4;

    /// Blocks of one of a few stripes: where the first is, and how many there are.
    type Place = (u64, usize, usize);

    #[derive(Debug, Clone)]
    enum Op {
        Put(Place),
        Destage(u64, usize),
        Pass(Place),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let place = || (0u64..40, 0..BLOCKS, 1usize..3);
        prop::collection::vec(
            prop_oneof![
                place().prop_map(Op::Put),
                (0u64..40, 0usize..4).prop_map(|(stripe, row)| Op::Destage(stripe, row)),
                place().prop_map(Op::Pass)
            ],
            0..200,
        )
    }

    fn span((stripe, first, count): Place) -> StripeSpan {
        let len = count.min(BLOCKS - first) * BLOCK_BYTES;
        StripeSpan { stripe: StripeIndex(stripe), start: first * BLOCK_BYTES, len, request_offset: 0 }
    }

    fn blocks(place: Place) -> impl Iterator<Item = (u64, usize)> {
        let (stripe, first, count) = place;
        (first..(first + count).min(BLOCKS)).map(move |block| (stripe, block))
    }

    proptest! {
        /// A write passes by if and only if none of its blocks is dirty. Then nothing of it is left in the cache.
        #[test]
        fn what_is_dirty_is_not_passed_by(ops in ops(), by_rows in any::<bool>()) {
            let geometry = Geometry::new(Level::Raid5, 3, 4 * BLOCK_BYTES as u32, 4 << 20, 512).unwrap();
            let settings = CacheSettings::new(if by_rows { CacheKind::Pbg } else { CacheKind::Stripe }, 4 << 20);
            let cache = Cache::new(&settings, 4 << 20, &geometry).unwrap().unwrap();
            cache.keep_clean();
            let mut dirty = BTreeSet::new();
            let is_held = |stripe: u64, block: usize| {
                let (column, first) = (block / 4, block % 4 * BLOCK_BYTES);
                let mut into = [0; BLOCK_BYTES];
                cache.read(StripeIndex(stripe), column, first..first + BLOCK_BYTES, &mut into) == Hit::All
            };
            for op in ops {
                match op {
                    Op::Put(place) => {
                        let data = Data::of(WriteBufs::from_iter([IoBuf::zeroed(span(place).len).freeze()]), 0);
                        cache.put(&span(place), &data, Way::Back, Timestamp::default()).unwrap();
                        dirty.extend(blocks(place));
                    }
                    Op::Destage(stripe, row) => {
                        let rows = RowSet::range(row..row + 1);
                        let lent = cache.lend(StripeIndex(stripe), (rows, rows), DestageReason::Mark, Timestamp::default());
                        lent.into_iter().for_each(|(_, mut ending)| ending.succeed());
                        dirty.retain(|block| ![(stripe, row), (stripe, row + 4)].contains(block));
                    }
                    Op::Pass(place) => {
                        let may_pass = blocks(place).all(|block| !dirty.contains(&block));
                        prop_assert_eq!(cache.let_pass(&span(place), 1), may_pass);
                        if may_pass {
                            prop_assert!(blocks(place).all(|(stripe, block)| !is_held(stripe, block)));
                        }
                    }
                }
                prop_assert!(dirty.iter().all(|(stripe, block)| is_held(*stripe, *block)));
            }
        }
    }
}
