//! Putting what clients write into the cache.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use stripewise_device::{IoBuf, Timestamp};

use super::{Bucket, Cache, EVICTED_AT_ONCE, modes::Mode, slot::Slot};
use crate::{
    compute::{
        CachedCells, Data,
        cells::{Part, blocks_of, mask_of},
    },
    shape::{
        geometry::{StripeIndex, StripeSpan},
        rows::BLOCK_BYTES,
    },
};

/// What a slot may grow by with each block that it gets: its places in lists, and those of a new column.
const GROWTH_PER_BLOCK: usize = 512;

/// Why a write could not be put into the cache. Nothing, or a part of it, was put: it may be put again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotPut {
    /// All memory is in use.
    Full,
    /// A write of the whole stripe is under way, and what this write would leave of a block is not known before.
    Passed,
    /// The cache is being emptied: the write must be put [through](Way::Through).
    Through,
    /// The cache is being replaced: the write waits, and goes to its successor.
    Closed,
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// When it is put.
    Back,
    /// When it is destaged.
    Through,
}

/// A thread looks how much is dirty after so many blocks that it put.
const LOOKS_AFTER: u64 = 64;

/// A block that is about to be put.
struct New {
    part: Part,
    buf: Option<IoBuf>,
}

impl New {
    /// Copies its part of a write.
    #[inline]
    fn copy_from(&mut self, data: &Data) {
        let buf = self.buf.as_mut().expect("it was not put yet");
        data.copy_to(self.part.from, &mut buf[self.part.bytes.clone()]);
    }
}

impl Cache {
    /// Puts a write's part in one stripe into the cache. Returns whether all of the stripe is dirty now, and was not
    /// before.
    #[inline]
    pub(crate) fn put(
        &self,
        span: &StripeSpan,
        data: &Data,
        way: Way,
        now: Timestamp,
    ) -> Result<bool, NotPut> {
        if self.is_over.load(Ordering::Relaxed) && !self.rewrites(span) {
            return Err(NotPut::Full);
        }
        loop {
            match self.try_put(span, data, way, now) {
                // Perhaps there was room for the blocks, and none for what is kept about them.
                Err(NotPut::Full) if self.evict(EVICTED_AT_ONCE) > 0 => {}
                put => return put,
            }
        }
    }

    fn try_put(&self, span: &StripeSpan, data: &Data, way: Way, now: Timestamp) -> Result<bool, NotPut> {
        let mut new: SmallVec<[New; 2]> = SmallVec::new();
        for part in blocks_of(span, self.chunk_bytes) {
            new.push(New { part, buf: Some(self.frame().ok_or(NotPut::Full)?) });
        }
        let later = (new.len() == 1).then_some(data);
        if later.is_none() {
            // Not before all are in their places: what moves them behind a copy would wait until that is done.
            new.iter_mut().for_each(|block| block.copy_from(data));
        }
        if self.unit_rows > 1 {
            return self.put_unit(span.stripe, self.unit_of(span.stripe, 0), &mut new, later, way, now);
        }
        new.sort_unstable_by_key(|block| block.part.row);
        for of_row in new.chunk_by_mut(|one, other| one.part.row == other.part.row) {
            let unit = self.unit_of(span.stripe, of_row[0].part.row);
            self.put_unit(span.stripe, unit, of_row, later, way, now)?;
        }
        Ok(false)
    }

    /// Puts blocks of one unit. What was left for later is copied here: a copy and the search for its cell, which both
    /// wait for memory, run at the same time. A lock between them would make one wait for the other.
    fn put_unit(
        &self,
        stripe: StripeIndex,
        unit: u64,
        new: &mut [New],
        later: Option<&Data>,
        way: Way,
        now: Timestamp,
    ) -> Result<bool, NotPut> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let mut bucket = self.bucket(unit);
        match self.takes(way == Way::Through) {
            Mode::Open => {}
            Mode::Through => return Err(NotPut::Through),
            Mode::Closed => return Err(NotPut::Closed),
        }
        let Bucket { slots, passing, .. } = &mut *bucket;
        let is_whole = |block: &New| block.part.bytes.len() == BLOCK_BYTES;
        if !passing.is_empty() && passing.contains(&stripe.0) && !new.iter().all(is_whole) {
            return Err(NotPut::Passed);
        }
        let known = slots.iter().position(|slot| slot.unit == unit);
        let grows = known.is_none_or(|at| !slots[at].holds_all(new.iter().map(|block| &block.part)));
        let growth = size_of::<Slot>() + new.len() * GROWTH_PER_BLOCK;
        if grows && !self.frames.charge(growth) {
            return Err(NotPut::Full);
        }
        let at = known.unwrap_or_else(|| {
            slots.push(Slot::new(unit));
            slots.len() - 1
        });
        let slot = &mut slots[at];
        if let Some(data) = later {
            new.iter_mut().for_each(|block| block.copy_from(data));
        }
        let mut came = 0;
        for New { part, buf } in new {
            let buf = buf.take().expect("it is put once");
            came +=
                u64::from(slot.cells.entry(part.column).write(part.row, mask_of(part.bytes.clone()), buf));
        }
        slot.note_write(epoch, now);
        if grows {
            let (bytes, charged) = (slot.bytes(), slot.charged + growth);
            slot.charged = bytes.min(charged);
            self.frames.discharge(charged - slot.charged);
        }
        // Once: what is rewritten while the stripe is destaged may be rewritten again.
        let is_full = came > 0 && self.is_full(&slot.cells);
        drop(bucket);
        if came > 0 {
            let sum = self.dirty.add_here(0, came);
            if sum % LOOKS_AFTER < came {
                self.note_fill();
            }
        }
        Ok(is_full)
    }

    /// Whether all of a stripe is new.
    pub(super) fn is_full(&self, cells: &CachedCells) -> bool {
        let whole = 0..self.data_columns * self.chunk_bytes;
        self.unit_rows > 1 && cells.as_range(self.data_columns, self.chunk_bytes) == Some(whole)
    }
}
