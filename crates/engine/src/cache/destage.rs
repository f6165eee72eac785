//! What leaves the cache: cells that are lent to a destage, and cells that a write past the cache replaces; and how the
//! cache learns what became of such a write.

use std::sync::{Arc, atomic::Ordering};

use smallvec::{SmallVec, smallvec};
use stripewise_device::{Timestamp, frames::FRAME_COST};

use super::{
    Cache, DestageCost, DestageReason, Dropped,
    evict::Turn,
    replacing::Replaced,
    slot::{NEVER, Slot},
};
use crate::{
    compute::{CachedCells, Run},
    destage::{Candidate, place},
    mutants::{Mutant, lives},
    plan::StripeState,
    shape::{geometry::StripeIndex, rows::RowSet},
};

/// What ends.
#[derive(Debug)]
pub(super) enum Of {
    /// Cells are destaged. What is dirty and not lent was written since then.
    Destage { lent: Moment, reason: DestageReason },
    /// Cells are written or zeroed past the cache.
    Pass(Replaced),
}

/// When cells were lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    epoch: u64,
    now: Timestamp,
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
    /// Keeps what the write has read beside these cells, unless it is destaged because the cache goes.
    pub(crate) fn keep_read<'a>(&self, read: impl Iterator<Item = &'a Run>) {
        if !matches!(self.of, Of::Destage { reason: DestageReason::Stop, .. }) {
            self.cache.keep_read(self.stripe, read);
        }
    }

    /// All was written.
    pub(crate) fn succeed(&mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        match &self.of {
            Of::Destage { lent, reason } => {
                self.cache.leaving.add(1, self.cells.dirty_blocks() as u64);
                if self.has_succeeded || lives(Mutant::CleanOnError) {
                    self.cache.destaged(self.stripe, &self.cells, *lent, *reason);
                }
            }
            Of::Pass(over) => self.cache.passed(self.stripe, over, &self.cells, self.has_succeeded),
        }
        // Its blocks first, so that a writer that waits for memory finds them free.
        self.cells = Arc::default();
        self.cache.tell_of_room();
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

    /// Whether all of a stripe is dirty. With rows for units it is not known.
    pub(crate) fn is_all_dirty(&self, stripe: StripeIndex) -> bool {
        let unit = self.all_units(stripe).start;
        let bucket = self.bucket(unit);
        bucket.slots.iter().any(|slot| slot.unit == unit && self.is_full(&slot.cells))
    }

    /// The dirty rows of each data column of a stripe.
    pub(crate) fn dirty_columns(&self, stripe: StripeIndex) -> SmallVec<[RowSet; 8]> {
        let mut all = smallvec![RowSet::EMPTY; self.data_columns];
        for unit in self.all_units(stripe) {
            let bucket = self.bucket(unit);
            let slot = bucket.slots.iter().find(|slot| slot.unit == unit);
            for (number, column) in slot.into_iter().flat_map(|slot| slot.cells.columns()) {
                all[number] |= column.dirty();
            }
        }
        all
    }

    /// Enters what is cached of some rows into the state of their stripe.
    pub(crate) fn enter_into(&self, stripe: StripeIndex, rows: RowSet, state: &mut StripeState) {
        for unit in self.units_with(stripe, rows) {
            let bucket = self.bucket(unit);
            let slot = bucket.slots.iter().find(|slot| slot.unit == unit);
            slot.into_iter().for_each(|slot| slot.cells.enter_into(rows, state));
        }
    }

    /// Lends what is cached of some rows of a stripe that are dirty, to be destaged. The caller holds them, and perhaps
    /// gaps between them: what has become dirty there since goes with them, and what is clean is lent, too.
    pub(crate) fn lend(
        self: &Arc<Self>,
        stripe: StripeIndex,
        (rows, held): (RowSet, RowSet),
        reason: DestageReason,
        now: Timestamp,
    ) -> Option<(Arc<CachedCells>, Box<Ending>)> {
        let moment = Moment { epoch: self.epoch.load(Ordering::SeqCst), now };
        let mut lent = CachedCells::default();
        let lendable = if self.fills_gaps { held } else { rows };
        for unit in self.units_with(stripe, lendable) {
            let bucket = self.bucket(unit);
            if let Some(slot) = bucket.slots.iter().find(|slot| slot.unit == unit) {
                let dirty = || lendable & slot.cells.dirty_rows();
                lent.absorb(slot.cells.lend(if self.fills_gaps { lendable } else { dirty() }));
            }
        }
        if lives(Mutant::ForeignGapFilled) {
            lent.forge_clean(held - rows);
        }
        (!lent.dirty_rows().is_empty()).then(|| {
            self.leaving.add(0, lent.dirty_blocks() as u64);
            let cells = Arc::new(lent);
            (cells.clone(), Box::new(self.ending(stripe, cells, Of::Destage { lent: moment, reason })))
        })
    }

    pub(super) fn ending(self: &Arc<Self>, stripe: StripeIndex, cells: Arc<CachedCells>, of: Of) -> Ending {
        Ending { cache: self.clone(), stripe, cells, of, has_succeeded: false }
    }

    /// What was lent is on the members.
    fn destaged(&self, stripe: StripeIndex, lent: &CachedCells, when: Moment, reason: DestageReason) {
        // A stream of writes leaves no stripes behind that others would have to make room for, and its next blocks find
        // memory that is in the processor's caches.
        let turn = if self.is_full(lent) { Turn::First } else { Turn::Last };
        let (mut dropped, mut went) = (Dropped::of(self), 0);
        let keeps = self.keeps_clean();
        for unit in self.units_with(stripe, lent.dirty_rows()) {
            let at = self.place_of(unit);
            let mut bucket = self.buckets[at].lock();
            let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) else { continue };
            let dirty = slot.cells.dirty_rows();
            went += slot.make_clean(lent, keeps, &mut dropped);
            if slot.cells.dirty_rows().is_empty() {
                slot.oldest = NEVER;
            } else if (dirty - lent.dirty_rows()).is_empty() {
                // What is dirty now was written since it was lent.
                slot.oldest = slot.oldest.max(when.epoch);
                slot.dirty_since = slot.dirty_since.max(when.now);
            }
            if slot.has_clean() {
                self.list(&mut bucket, at, turn);
            }
            if dropped.len() > 0 {
                self.forget_empty(&mut bucket);
            }
        }
        self.dirty.add(1, went as u64);
        self.counts.add_each([(2 * reason as usize, went as u64), (2 * reason as usize + 1, 1)]);
        if self.is_over.load(Ordering::Relaxed) {
            self.note_fill();
        }
    }

    /// What members hold of a stripe is changed beside the cache.
    pub(crate) fn forget_clean(&self, stripe: StripeIndex) {
        let mut dropped = Dropped::of(self);
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
        self.collect(|slot| slot.oldest <= epoch, |_| 0.0)
    }

    /// Those of them that a flush must destage: what is dirty there is nowhere else.
    pub(crate) fn to_flush_until(&self, epoch: u64) -> Vec<Candidate> {
        let is_volatile = |slot: &Slot| !self.log.holds(self.stripe_of(slot.unit), &slot.cells);
        self.collect(|slot| slot.oldest <= epoch && is_volatile(slot), |_| 0.0)
    }

    /// Stripes with dirty cells.
    pub(crate) fn dirty_stripes(&self) -> impl Iterator<Item = StripeIndex> + use<> {
        self.dirty_until(NEVER - 1).into_iter().map(|candidate| candidate.stripe)
    }

    /// All units with dirty cells, by place, and how long their destage takes.
    pub(crate) fn candidates(&self, cost: &DestageCost) -> Vec<Candidate> {
        self.collect(|_| true, |cells| cost.of(cells))
    }

    /// Dirty units of a sort, by place.
    fn collect(
        &self,
        is_wanted: impl Fn(&Slot) -> bool,
        cost: impl Fn(&CachedCells) -> f32,
    ) -> Vec<Candidate> {
        let (mut found, mut blocks, mut beside) = (Vec::new(), 0, 0);
        for (bucket, mark) in self.buckets.iter().zip(&self.has_dirty) {
            if !mark.load(Ordering::Relaxed) {
                continue;
            }
            let bucket = bucket.lock();
            mark.store(bucket.slots.iter().any(|slot| slot.oldest != NEVER), Ordering::Relaxed);
            for slot in &bucket.slots {
                blocks += slot.cells.blocks();
                beside += slot.bytes() + slot.spare_frames.len() * FRAME_COST;
                if slot.oldest != NEVER && is_wanted(slot) {
                    found.push(Candidate {
                        stripe: self.stripe_of(slot.unit),
                        rows: slot.cells.dirty_rows(),
                        blocks: slot.cells.dirty_blocks(),
                        written: slot.written,
                        dirty_since: slot.dirty_since,
                        is_recent: slot.is_recent,
                        cost_ns: cost(&slot.cells),
                    });
                }
            }
        }
        if let Some(beside) = beside.checked_div(blocks) {
            self.beside_block.store(beside.min(self.unit_blocks() * FRAME_COST), Ordering::Relaxed);
        }
        found.sort_unstable_by_key(place);
        found
    }

    /// A policy has spared these: unless they are written again, they are no longer recent.
    pub(crate) fn spare(&self, passed: &[Candidate]) {
        for candidate in passed {
            let unit = self.unit_of(candidate.stripe, candidate.rows.first().unwrap_or(0));
            let mut bucket = self.bucket(unit);
            if let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) {
                slot.is_recent = false;
            }
        }
    }

    /// These go next to make room.
    pub(crate) fn offer(&self, chosen: Vec<Candidate>) {
        self.victims.lock().extend(chosen);
    }

    /// What was chosen to make room is chosen anew.
    pub(crate) fn forget_victims(&self) {
        self.victims.lock().clear();
    }

    /// The next that goes to make room.
    pub(crate) fn next_victim(&self) -> Option<Candidate> {
        self.victims.lock().pop_front()
    }

    /// What a writer that lacks memory destages; nothing if there will be room without it, or what goes next is not known.
    pub(crate) fn next_for_writer(&self) -> Option<Candidate> {
        if self.room_is_coming() { None } else { self.next_victim() }
    }
}

#[cfg(test)]
mod tests {
    use stripewise_device::{IoBuf, WriteBufs};

    use super::*;
    use crate::{
        cache::{CacheKind, CacheSettings, Way},
        compute::Data,
        shape::{
            geometry::{Geometry, Level, StripeSpan},
            rows::BLOCK_BYTES,
        },
    };

    const ROWS: usize = 16;
    const STRIPE_BLOCKS: usize = 2 * ROWS;

    /// A cache with so many stripes of which all is dirty.
    fn cache_of(stripes: u64) -> Arc<Cache> {
        let geometry = Geometry::new(Level::Raid5, 3, (ROWS * BLOCK_BYTES) as u32, 64 << 20, 512).unwrap();
        let settings = CacheSettings::new(CacheKind::Stripe, 4 << 20);
        let cache = Cache::new(&settings, 4 << 20, &geometry).unwrap().unwrap();
        for stripe in 0..stripes {
            let len = STRIPE_BLOCKS * BLOCK_BYTES;
            let data = Data::of(WriteBufs::from_iter([IoBuf::zeroed(len).freeze()]), 0);
            let span = StripeSpan { stripe: StripeIndex(stripe), start: 0, len, request_offset: 0 };
            cache.put(&span, &data, Way::Back, Timestamp::default()).unwrap();
        }
        cache
    }

    fn lend(cache: &Arc<Cache>, stripe: u64) -> Box<Ending> {
        let rows = RowSet::range(0..ROWS);
        let now = Timestamp::default();
        cache.lend(StripeIndex(stripe), (rows, rows), DestageReason::Mark, now).unwrap().1
    }

    #[test]
    fn what_is_lent_is_leaving_until_its_destage_ends_well_or_not() {
        let cache = cache_of(2);
        let (mut first, second) = (lend(&cache, 0), lend(&cache, 1));
        assert_eq!(cache.leaving_blocks(), 2 * STRIPE_BLOCKS as u64);
        first.succeed();
        drop(first);
        assert_eq!(
            (cache.leaving_blocks(), cache.dirty_blocks()),
            (STRIPE_BLOCKS as u64, STRIPE_BLOCKS as u64)
        );
        drop(second);
        assert_eq!((cache.leaving_blocks(), cache.dirty_blocks()), (0, STRIPE_BLOCKS as u64));
    }

    /// Of 25 stripes, which are more than the low mark allows, room comes once enough of them are leaving.
    #[test]
    fn a_writer_waits_for_destages_that_make_enough_room() {
        let cache = cache_of(25);
        let fill = cache.fill();
        assert!(fill.dirty >= fill.low, "{fill:?}");
        let mut leaving = Vec::new();
        while fill.dirty - cache.leaving_blocks() >= fill.low || cache.leaving_blocks() < 256 {
            assert!(!cache.room_is_coming());
            leaving.push(lend(&cache, leaving.len() as u64));
        }
        assert!(cache.room_is_coming());
        leaving.clear();
        assert!(!cache.room_is_coming());
    }
}
