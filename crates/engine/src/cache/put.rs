//! Putting what clients write into the cache.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use stripewise_device::{Block, IoBuf, Timestamp};

use super::{Bucket, Cache, EVICTED_AT_ONCE, modes::Mode, slot::Slot};
use crate::{
    compute::{
        CachedCells, Data,
        cells::{ALL_SECTORS, CellState, Part, blocks_of, mask_of, sectors},
    },
    mutants::{Mutant, lives},
    shape::geometry::{StripeIndex, StripeSpan},
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
    column: usize,
    row: usize,
    mask: u8,
    buf: IoBuf,
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
        if self.is_over.load(Ordering::Relaxed) {
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
        let mut new = self.copies_of(span, data).ok_or(NotPut::Full)?;
        if self.unit_rows > 1 {
            return self.put_unit(span.stripe, self.unit_of(span.stripe, 0), new, way, now);
        }
        new.sort_unstable_by_key(|block| block.row);
        while let Some(first) = new.first() {
            let (row, unit) = (first.row, self.unit_of(span.stripe, first.row));
            let end = new.iter().position(|block| block.row != row).unwrap_or(new.len());
            self.put_unit(span.stripe, unit, new.drain(..end).collect(), way, now)?;
        }
        Ok(false)
    }

    /// Copies a write's part in one stripe into blocks of the cache. None if there is no memory for all.
    fn copies_of(&self, span: &StripeSpan, data: &Data) -> Option<SmallVec<[New; 2]>> {
        let mut new = SmallVec::new();
        for Part { column, row, bytes, from } in blocks_of(span, self.chunk_bytes) {
            let mut buf = self.frame()?;
            data.copy_to(from, &mut buf[bytes.clone()]);
            new.push(New { column, row, mask: mask_of(bytes), buf });
        }
        Some(new)
    }

    fn put_unit(
        &self,
        stripe: StripeIndex,
        unit: u64,
        new: SmallVec<[New; 2]>,
        way: Way,
        now: Timestamp,
    ) -> Result<bool, NotPut> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let mut replaced: SmallVec<[Block; 2]> = SmallVec::new();
        let mut bucket = self.bucket(unit);
        match self.takes(way == Way::Through) {
            Mode::Open => {}
            Mode::Through => return Err(NotPut::Through),
            Mode::Closed => return Err(NotPut::Closed),
        }
        let Bucket { slots, passing } = &mut *bucket;
        if !passing.is_empty()
            && passing.contains(&stripe.0)
            && new.iter().any(|block| block.mask != ALL_SECTORS)
        {
            return Err(NotPut::Passed);
        }
        let known = slots.iter().position(|slot| slot.unit == unit);
        let is_held = |slot: &Slot, block: &New| {
            slot.cells.get(block.column).is_some_and(|column| column.get(block.row).is_some())
        };
        let grows = known.is_none_or(|at| !new.iter().all(|block| is_held(&slots[at], block)));
        let growth = size_of::<Slot>() + new.len() * GROWTH_PER_BLOCK;
        if grows && !self.frames.charge(growth) {
            return Err(NotPut::Full);
        }
        let at = known.unwrap_or_else(|| {
            slots.push(Slot::new(unit));
            slots.len() - 1
        });
        let slot = &mut slots[at];
        let mut came = 0;
        for block in new {
            let (mut buf, mut mask) = (block.buf, block.mask);
            let column = slot.cells.entry(block.column);
            if let Some((state, old)) = column.get(block.row) {
                came += u64::from(state == CellState::Clean);
                let held = if let CellState::Dirty(held) = state { held } else { ALL_SECTORS };
                if !lives(Mutant::SectorsLost) {
                    sectors(held & !mask).for_each(|part| buf[part.clone()].copy_from_slice(&old[part]));
                }
                mask |= held;
            } else {
                came += 1;
            }
            if lives(Mutant::SectorMaskLost) {
                mask = ALL_SECTORS;
            }
            replaced.extend(column.put(block.row, CellState::Dirty(mask), Block::of(buf)));
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
    fn is_full(&self, cells: &CachedCells) -> bool {
        let whole = 0..self.data_columns * self.chunk_bytes;
        self.unit_rows > 1 && cells.as_range(self.data_columns, self.chunk_bytes) == Some(whole)
    }
}
