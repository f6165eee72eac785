//! Putting what clients write into the cache.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use stripewise_device::{IoBuf, Timestamp};

use super::{Bucket, Cache, Place, evict::Reach, modes::Mode, slot::Slot};
use crate::{
    compute::{
        CachedCells, Data,
        cells::{Part, blocks_of, mask_of},
    },
    mutants::{Mutant, lives},
    shape::{
        geometry::{StripeIndex, StripeSpan},
        rows::BLOCK_BYTES,
    },
};

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

/// How blocks are put.
struct How {
    way: Way,
    now: Timestamp,
    /// Where their memory may come from.
    reach: Reach,
}

/// A block that is about to be put.
struct New {
    part: Part,
    /// It was copied before the lock was taken.
    buf: Option<IoBuf>,
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
        self.put_from(span, data, way, now, None)
    }

    /// As [`Cache::put`], for a writer that has waited for room.
    pub(crate) fn put_from(
        &self,
        span: &StripeSpan,
        data: &Data,
        way: Way,
        now: Timestamp,
        place: Option<&Place>,
    ) -> Result<bool, NotPut> {
        if self.is_over.load(Ordering::Relaxed) && !self.rewrites(span) && !self.has_room_for(span, place) {
            return Err(NotPut::Full);
        }
        loop {
            match self.try_put(span, data, &How { way, now, reach: Reach::Own }) {
                // Perhaps there was room for the blocks, and none for what is kept about them.
                Err(NotPut::Full) if self.evict() > 0 => {}
                Err(NotPut::Full) => break,
                put => return put,
            }
        }
        let put = self.try_put(span, data, &How { way, now, reach: Reach::All });
        if let (Err(NotPut::Full), Some(place)) = (put, place) {
            place.note_lack();
        }
        put
    }

    /// Blocks of a write's part in a stripe.
    pub(crate) fn blocks_of(&self, span: &StripeSpan) -> u64 {
        blocks_of(span, self.chunk_bytes).count() as u64
    }

    fn try_put(&self, span: &StripeSpan, data: &Data, how: &How) -> Result<bool, NotPut> {
        let parts = blocks_of(span, self.chunk_bytes);
        let mut new: SmallVec<[New; 2]> = parts.map(|part| New { part, buf: None }).collect();
        if new.len() > 1 && !self.takes_whole_units.load(Ordering::Relaxed) {
            for New { part, buf } in &mut new {
                let buf = buf.insert(self.frame().ok_or(NotPut::Full)?);
                data.copy_to(part.from, &mut buf[part.bytes.clone()]);
            }
        }
        if self.unit_rows > 1 {
            return self.put_unit(span.stripe, self.unit_of(span.stripe, 0), &mut new, data, how);
        }
        new.sort_unstable_by_key(|block| block.part.row);
        for of_row in new.chunk_by_mut(|one, other| one.part.row == other.part.row) {
            let unit = self.unit_of(span.stripe, of_row[0].part.row);
            self.put_unit(span.stripe, unit, of_row, data, how)?;
        }
        Ok(false)
    }

    /// Puts blocks of one unit.
    fn put_unit(
        &self,
        stripe: StripeIndex,
        unit: u64,
        new: &mut [New],
        data: &Data,
        how: &How,
    ) -> Result<bool, NotPut> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let mut bucket = self.bucket(unit);
        match self.takes(how.way == Way::Through) {
            Mode::Open => {}
            Mode::Through => return Err(NotPut::Through),
            Mode::Closed => return Err(NotPut::Closed),
        }
        let Bucket { slots, passing, .. } = &mut *bucket;
        let is_whole = |block: &New| block.part.bytes.len() == BLOCK_BYTES;
        if !passing.is_empty() && passing.contains(&stripe.0) && !new.iter().all(is_whole) {
            return Err(NotPut::Passed);
        }
        let at = match slots.iter().position(|slot| slot.unit == unit) {
            Some(at) => at,
            None => {
                slots.push(self.new_slot(unit, how.reach).ok_or(NotPut::Full)?);
                slots.len() - 1
            }
        };
        let slot = &mut slots[at];
        let mut came = 0;
        let mut put = |block: &mut New| {
            came += u64::from(self.put_block(slot, stripe, block, data, how.reach)?);
            Some(())
        };
        let has_room = new.iter_mut().all(|block| put(block).is_some());
        if has_room || came > 0 {
            slot.note_write(epoch, how.now);
            self.mark_dirty(unit);
        }
        // Once: what is rewritten while the stripe is destaged may be rewritten again.
        let is_full = came > 0 && self.is_full(&slot.cells);
        if !has_room {
            self.forget_empty(&mut bucket);
        }
        drop(bucket);
        if came > 0 {
            let sum = self.dirty.add_here(0, came);
            if sum % LOOKS_AFTER < came {
                self.note_fill();
            }
        }
        if has_room { Ok(is_full) } else { Err(NotPut::Full) }
    }

    /// Puts a block: into the block that its cell has, if nobody else has that. Returns whether the cell was not dirty
    /// before; none if there is no room.
    #[inline]
    fn put_block(
        &self,
        slot: &mut Slot,
        stripe: StripeIndex,
        new: &mut New,
        data: &Data,
        reach: Reach,
    ) -> Option<bool> {
        let New { part: Part { column, row, bytes, from }, buf } = new;
        let (number, mask) = (self.number_of(stripe, *column, *row), mask_of(bytes.clone()));
        let copy = |into: &mut [u8]| data.copy_to(*from, &mut into[bytes.clone()]);
        if buf.is_none()
            && let Some(column) = slot.cells.get_mut(*column)
            && let Some(own) = column.block_mut(*row, mask).and_then(|block| self.frames.own(number, block))
        {
            copy(own);
            let is_dirtied = column.note_written(*row, mask);
            self.show(number, column, *row);
            return Some(is_dirtied);
        }
        if !self.charge_growth(slot, *column, *row, mask) {
            return None;
        }
        let buf = match buf.take() {
            Some(copied) => copied,
            None => {
                let mut free = slot.spare_frames.pop().or_else(|| self.free_frame(reach))?;
                copy(&mut free);
                free
            }
        };
        let column = slot.cells.entry(*column);
        // Before its old block may be free.
        self.frames.hide(number);
        self.filter.note(self.place_of(slot.unit), number);
        let is_dirtied = column.write(*row, mask, buf);
        self.show(number, column, *row);
        Some(is_dirtied)
    }

    /// Looks again whether too much is dirty, since a thread may have noted it late, and whether it is the writer's turn, or there
    /// is room for all. Where nothing is put any more, that is what the writer is to learn.
    #[cold]
    fn has_room_for(&self, span: &StripeSpan, place: Option<&Place>) -> bool {
        if self.is_closed() {
            return true;
        }
        let room = self.note_fill();
        !self.is_over.load(Ordering::Relaxed) || self.is_turn_of(place, self.blocks_of(span), room)
    }

    /// Notes that there is something dirty in a unit's bucket. The caller holds it.
    #[inline]
    fn mark_dirty(&self, unit: u64) {
        let mark = &self.has_dirty[self.place_of(unit)];
        if !mark.load(Ordering::Relaxed) && !lives(Mutant::DirtyUnmarked) {
            mark.store(true, Ordering::Relaxed);
        }
    }

    /// A slot without blocks, with what memory it gets at once; none if there is no room.
    #[inline]
    fn new_slot(&self, unit: u64, reach: Reach) -> Option<Slot> {
        let mut slot = Slot::new(unit);
        if self.takes_whole_units.load(Ordering::Relaxed) {
            slot.spare_frames =
                (0..self.unit_blocks()).map(|_| self.free_frame(reach)).collect::<Option<_>>()?;
        }
        Some(slot)
    }

    /// Charges what a slot may grow by if sectors of a cell are written. False if there is no room.
    #[inline]
    pub(super) fn charge_growth(&self, slot: &mut Slot, column: usize, row: usize, mask: u8) -> bool {
        let growth = slot.cells.growth(column, row, mask);
        if growth == 0 {
            return true;
        }
        let missing = (slot.bytes() + growth).saturating_sub(slot.charged);
        let is_charged = self.frames.charge(missing);
        slot.charged += if is_charged { missing } else { 0 };
        is_charged
    }

    /// Whether all of a stripe is new.
    pub(super) fn is_full(&self, cells: &CachedCells) -> bool {
        let whole = 0..self.data_columns * self.chunk_bytes;
        self.unit_rows > 1 && cells.as_range(self.data_columns, self.chunk_bytes) == Some(whole)
    }
}
