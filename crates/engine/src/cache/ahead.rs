//! Reading ahead: sequential readers find the next stripe in the cache.
//!
//! A reader that begins one chunk after the other is seen at their first blocks, in a small table. Its next stripe is read
//! from all members at once, with its rows locked, into frames that nothing dirty needs. What it has read is dropped when
//! the stripe after the next one comes, so that a stream takes the memory of about three stripes. Whether readers are
//! served faster so is measured in turns.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use stripewise_device::{Block, IoBuf, ReadBufs, Timestamp, frames::FRAME_COST};

use super::{AHEAD, Cache, Dropped, evict::Turn, slot::Slot};
use crate::{
    compute::cells::{ALL_SECTORS, CellState},
    destage::{Flushes, Turns},
    members::stats::Served,
    mutants::{Mutant, lives},
    shape::geometry::StripeIndex,
};

/// Readers that are followed at a time, about: they may share a place.
const STREAMS: usize = 64;
/// What is read ahead at a time takes at most one part in so many of the blocks.
const FETCHED_PARTS: usize = 8;

/// What is known of sequential readers.
pub(super) struct Ahead {
    is_wanted: AtomicBool,
    /// By hash of a chunk's number: the number of the chunk that a reader begins next.
    next: [AtomicU64; STREAMS],
    turns: Mutex<Turns>,
    /// Blocks that are being read.
    fetched: AtomicUsize,
}

impl Ahead {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted: AtomicBool::new(is_wanted),
            next: [const { AtomicU64::new(0) }; STREAMS],
            turns: Mutex::new(Turns::new(true)),
            fetched: AtomicUsize::new(0),
        }
    }

    /// Whether a reader that begins a chunk has begun the one before.
    fn follows(&self, chunk: u64) -> bool {
        let place = |chunk: u64| &self.next[super::hash(chunk) % STREAMS];
        let follows = chunk > 0 && place(chunk).load(Ordering::Relaxed) == chunk;
        place(chunk + 1).store(chunk + 1, Ordering::Relaxed);
        follows
    }
}

/// A stripe that is being read ahead.
pub(crate) struct Fetch<'a> {
    ahead: &'a Ahead,
    blocks: usize,
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        self.ahead.fetched.fetch_sub(self.blocks, Ordering::Relaxed);
    }
}

impl Cache {
    /// Chooses whether stripes are read ahead.
    pub(super) fn read_ahead(&self, is_wanted: bool) {
        self.ahead.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Looks at a read that begins a chunk. Returns the stripe to read ahead, if the reader is sequential, nothing of the
    /// stripe is cached, and this is measured to be faster.
    pub(crate) fn next_stripe(
        &self,
        stripe: StripeIndex,
        column: usize,
        read: impl FnOnce() -> Served,
        now: Timestamp,
    ) -> Option<StripeIndex> {
        let chunk = stripe.0 * self.data_columns as u64 + column as u64;
        if !self.ahead.is_wanted.load(Ordering::Relaxed) || !self.keeps_clean() || !self.ahead.follows(chunk)
        {
            return None;
        }
        let is_on = self.ahead.turns.try_lock()?.next(read(), Flushes::Any, now);
        let next = StripeIndex(stripe.0 + 1);
        (is_on && self.all_units(next).all(|unit| self.is_unknown(unit))).then_some(next)
    }

    fn is_unknown(&self, unit: u64) -> bool {
        self.bucket(unit).slots.iter().all(|slot| slot.unit != unit)
    }

    /// Notes that so many rows of a stripe are being read ahead, until the result is dropped; none if too much is.
    pub(crate) fn begin_fetch(&self, rows: usize) -> Option<Fetch<'_>> {
        let blocks = rows * self.data_columns;
        let before = self.ahead.fetched.fetch_add(blocks, Ordering::Relaxed);
        let fetch = Fetch { ahead: &self.ahead, blocks };
        (before + blocks <= self.frames.bound() / FRAME_COST / FETCHED_PARTS).then_some(fetch)
    }

    /// Frames for some rows of every data column, one for each block; none if what is dirty leaves too few.
    pub(crate) fn frames_for(&self, rows: &Range<usize>) -> Option<Vec<ReadBufs>> {
        let of_column = |_| rows.clone().map(|_| self.frame()).collect::<Option<ReadBufs>>();
        (0..self.data_columns).map(of_column).collect()
    }

    /// Takes in what members hold of some rows of a stripe, column after column. The caller has held the rows since before
    /// the members were read, so nothing that is not in the cache is newer. Units of which anything is cached stay as
    /// they are. What was read ahead of the stripe before the last one is dropped.
    pub(crate) fn take_in(&self, stripe: StripeIndex, rows: &Range<usize>, columns: Vec<ReadBufs>) {
        let mut columns: Vec<_> = columns.into_iter().map(IntoIterator::into_iter).collect();
        for unit in self.units(stripe, rows.clone()) {
            let first = (unit - self.all_units(stripe).start) as usize * self.unit_rows;
            let here = rows.start.max(first)..rows.end.min(first + self.unit_rows);
            let blocks =
                columns.iter_mut().map(|column| column.by_ref().take(here.len()).collect()).collect();
            self.take_in_unit(stripe, unit, here, blocks);
        }
        if let Some(passed) = stripe.0.checked_sub(2) {
            self.drop_ahead(StripeIndex(passed));
        }
    }

    fn take_in_unit(&self, stripe: StripeIndex, unit: u64, rows: Range<usize>, columns: Vec<Vec<IoBuf>>) {
        let at = self.place_of(unit);
        let mut bucket = self.buckets[at].lock();
        let is_known = |slot: &Slot| slot.unit == unit && !lives(Mutant::AheadOverNewer);
        if !self.keeps_clean() || bucket.slots.iter().any(is_known) {
            return;
        }
        bucket.slots.retain(|slot| slot.unit != unit);
        let (mut slot, mut count) = (Slot { is_ahead: true, ..Slot::new(unit) }, 0);
        for (number, blocks) in columns.into_iter().enumerate() {
            for (row, buf) in rows.clone().zip(blocks) {
                if !self.charge_growth(&mut slot, number, row, ALL_SECTORS) {
                    break;
                }
                let (column, shown) = (slot.cells.entry(number), self.number_of(stripe, number, row));
                column.put(row, CellState::Clean, Block::of(buf));
                self.filter.note(at, shown);
                self.show(shown, column, row);
                count += 1;
            }
        }
        self.counts.add(AHEAD, count);
        bucket.slots.push(slot);
        self.forget_empty(&mut bucket);
        self.list(&mut bucket, at, Turn::Last);
    }

    /// Drops what was read ahead of a stripe, and not written since.
    fn drop_ahead(&self, stripe: StripeIndex) {
        let mut dropped = Dropped::of(self);
        for unit in self.all_units(stripe) {
            let mut bucket = self.bucket(unit);
            if let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit && slot.is_ahead) {
                slot.drop_clean(&mut dropped);
                self.forget_empty(&mut bucket);
            }
        }
    }
}
