//! The stripe cache (msc-ct III-A): what clients wrote, and members do not hold yet.
//!
//! A write is acknowledged when its blocks are here. Later they are destaged: lent to a write of their stripe,
//! which has its rows locked, and clean once members have them. A block here never changes. A write puts a new
//! block in the place of the old one, so a block that is lent stays as it is, and whether a cell was rewritten
//! meanwhile is seen by whether its block is still the same.
//!
//! The cache takes no locks of rows. CachedCells are found by a hash of their unit, a stripe or a row, in buckets with a
//! lock each, which is held for as long as a few blocks are copied.

mod ending;
mod settings;
mod slot;

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
};

use parking_lot::Mutex;
use smallvec::SmallVec;
use stripewise_device::{
    Block, IoBuf, Timestamp,
    frames::{FRAME_COST, Frames},
    sync::{
        Counters, WaitList,
        seam::{Mutex as SeamMutex, MutexGuard, spin},
        wake_all,
    },
};

pub(crate) use self::ending::Ending;
pub use self::settings::{CacheKind, CacheReport, CacheSettings};
use self::{
    ending::Of,
    slot::{NEVER, Slot},
};
use crate::{
    compute::{
        CachedCells, Data,
        cells::{ALL_SECTORS, CellState, mask_of, sectors},
    },
    mutants::{Mutant, lives},
    shape::{
        geometry::{Geometry, StripeIndex, StripeSpan},
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// Blocks for each bucket: with whole stripes in the cache, most buckets are empty; with single blocks of as many
/// stripes, each has some slots.
const BLOCKS_PER_BUCKET: usize = 4;
/// Clean blocks that a writer without memory drops at a time.
const EVICTED_AT_ONCE: usize = 32;
/// What a slot may grow by with each block that it gets: its places in lists, and those of a new column.
const GROWTH_PER_BLOCK: usize = 512;

/// CachedCells of an array that members do not hold yet, and others that were written lately.
pub(crate) struct Cache {
    size_bytes: u64,
    buckets: Box<[SeamMutex<Bucket>]>,
    frames: Frames,
    data_columns: usize,
    chunk_bytes: usize,
    /// Rows of a unit.
    unit_rows: usize,
    /// Grows with each flush: later writes are of a later epoch.
    epoch: AtomicU64,
    /// The bucket that eviction looks at next.
    hand: AtomicUsize,
    /// Dirty cells: how many there came, and how many went.
    dirty: Counters<2>,
    waiting: Mutex<Waiting>,
    /// A writer waits for memory.
    wants_room: AtomicBool,
}

/// Tasks that wait for the cache to change: for memory, for the end of a write that passes by, or for work.
#[derive(Default)]
struct Waiting {
    changes: u64,
    tasks: WaitList,
}

/// Slots with the same hash.
#[derive(Default)]
struct Bucket {
    slots: Vec<Slot>,
    /// Stripes that writes pass by under way, as often as there are such writes.
    passing: Vec<u64>,
}

/// Why a write could not be put into the cache. Nothing, or a part of it, was put: it may be put again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotPut {
    /// All memory is in use.
    Full,
    /// A write of the whole stripe is under way, and what this write would leave of a block is not known before.
    Passed,
}

/// What was found of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// Nothing.
    Nothing,
    /// All of it was copied.
    All,
    /// Some was copied. These bytes of the chunk are missing.
    Without(SmallVec<[Range<usize>; 4]>),
}

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

/// A block that is about to be put.
struct New {
    column: usize,
    row: usize,
    mask: u8,
    buf: IoBuf,
}

impl Cache {
    /// A cache for an array of this shape; none for [`CacheKind::None`], or if there is not that much address
    /// space.
    pub(crate) fn new(settings: &CacheSettings, geometry: &Geometry) -> Option<Arc<Self>> {
        let unit_rows = match settings.kind {
            CacheKind::None => return None,
            CacheKind::Pbg => 1,
            CacheKind::Stripe => geometry.chunk_bytes() / BLOCK_BYTES,
        };
        let size = settings.size_bytes as usize;
        let count = (size / FRAME_COST / BLOCKS_PER_BUCKET).max(1).next_power_of_two();
        let buckets: Box<[SeamMutex<Bucket>]> = (0..count).map(|_| SeamMutex::default()).collect();
        let tables = size_of_val(&*buckets);
        Some(Arc::new(Self {
            size_bytes: settings.size_bytes,
            frames: Frames::new(size.saturating_sub(tables))?,
            buckets,
            data_columns: geometry.data_columns(),
            chunk_bytes: geometry.chunk_bytes(),
            unit_rows: unit_rows.max(1),
            epoch: AtomicU64::new(1),
            hand: AtomicUsize::new(0),
            dirty: Counters::default(),
            waiting: Mutex::default(),
            wants_room: AtomicBool::new(false),
        }))
    }

    fn units_per_stripe(&self) -> u64 {
        (self.chunk_bytes / BLOCK_BYTES / self.unit_rows) as u64
    }

    /// The unit of a row.
    #[inline]
    fn unit_of(&self, stripe: StripeIndex, row: usize) -> u64 {
        stripe.0 * self.units_per_stripe() + (row / self.unit_rows) as u64
    }

    /// The units that rows of a stripe lie in.
    fn units(&self, stripe: StripeIndex, rows: Range<usize>) -> Range<u64> {
        self.unit_of(stripe, rows.start)..self.unit_of(stripe, rows.end - 1) + 1
    }

    fn all_units(&self, stripe: StripeIndex) -> Range<u64> {
        self.units(stripe, 0..self.chunk_bytes / BLOCK_BYTES)
    }

    #[inline]
    fn bucket(&self, unit: u64) -> MutexGuard<'_, Bucket> {
        // Fibonacci hashing, as for the table of locked rows.
        let hash = unit.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        spin(&self.buckets[hash as usize & (self.buckets.len() - 1)])
    }

    /// A frame, perhaps from clean cells.
    fn frame(&self) -> Option<IoBuf> {
        self.frames.take().or_else(|| {
            if lives(Mutant::CacheOverBudget) {
                return Some(IoBuf::with_len(BLOCK_BYTES));
            }
            while self.evict(EVICTED_AT_ONCE) > 0 {
                if let Some(frame) = self.frames.take() {
                    return Some(frame);
                }
            }
            None
        })
    }

    /// Drops up to so many clean cells, those that were not read lately first. Returns how many.
    #[cold]
    fn evict(&self, wanted: usize) -> usize {
        let (mut dropped, mut left) = (Vec::new(), 2 * self.buckets.len());
        while dropped.len() < wanted && left > 0 {
            left -= 1;
            let at = self.hand.fetch_add(1, Ordering::Relaxed) & (self.buckets.len() - 1);
            let mut bucket = self.buckets[at].lock();
            for slot in &mut bucket.slots {
                if std::mem::take(&mut slot.was_read) {
                    continue;
                }
                slot.drop_clean(&mut dropped);
                if lives(Mutant::DirtyEvicted) {
                    let all = slot.cells.lend(slot.cells.dirty_rows());
                    self.dirty.add(1, slot.drop_same(&all, &mut dropped) as u64);
                }
            }
            self.forget_empty(&mut bucket);
        }
        dropped.len()
    }

    fn forget_empty(&self, bucket: &mut Bucket) {
        let mut discharged = 0;
        bucket.slots.retain_mut(|slot| {
            slot.cells.forget_empty();
            let is_empty = slot.cells.is_empty();
            discharged += if is_empty { slot.charged } else { 0 };
            !is_empty
        });
        if discharged > 0 {
            self.frames.discharge(discharged);
        }
    }

    /// Puts a write's part in one stripe into the cache. Returns whether all of the stripe is dirty now.
    #[inline]
    pub(crate) fn put(&self, span: &StripeSpan, data: &Data, now: Timestamp) -> Result<bool, NotPut> {
        loop {
            match self.try_put(span, data, now) {
                // Perhaps there was room for the blocks, and none for what is kept about them.
                Err(NotPut::Full) if self.evict(EVICTED_AT_ONCE) > 0 => {}
                put => return put,
            }
        }
    }

    fn try_put(&self, span: &StripeSpan, data: &Data, now: Timestamp) -> Result<bool, NotPut> {
        let mut new = self.copies_of(span, data).ok_or(NotPut::Full)?;
        if self.unit_rows > 1 {
            return self.put_unit(span.stripe, self.unit_of(span.stripe, 0), new, now);
        }
        new.sort_unstable_by_key(|block| block.row);
        while let Some(first) = new.first() {
            let (row, unit) = (first.row, self.unit_of(span.stripe, first.row));
            let end = new.iter().position(|block| block.row != row).unwrap_or(new.len());
            self.put_unit(span.stripe, unit, new.drain(..end).collect(), now)?;
        }
        Ok(false)
    }

    /// Copies a write's part in one stripe into blocks of the cache. None if there is no memory for all.
    fn copies_of(&self, span: &StripeSpan, data: &Data) -> Option<SmallVec<[New; 2]>> {
        let mut new = SmallVec::new();
        for column in span.columns(self.chunk_bytes) {
            let (bytes, mut from) = span.in_column(column, self.chunk_bytes);
            let mut at = bytes.start;
            while at < bytes.end {
                let (row, start) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
                let end = BLOCK_BYTES.min(start + bytes.end - at);
                let mut buf = self.frame()?;
                data.copy_to(from - span.request_offset, &mut buf[start..end]);
                new.push(New { column, row, mask: mask_of(start..end), buf });
                (at, from) = (at + end - start, from + end - start);
            }
        }
        Some(new)
    }

    fn put_unit(
        &self,
        stripe: StripeIndex,
        unit: u64,
        new: SmallVec<[New; 2]>,
        now: Timestamp,
    ) -> Result<bool, NotPut> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let mut replaced: SmallVec<[Block; 2]> = SmallVec::new();
        let mut bucket = self.bucket(unit);
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
        let is_full = self.is_full(&slot.cells);
        drop(bucket);
        if came > 0 {
            self.dirty.add(0, came);
        }
        Ok(is_full)
    }

    /// Whether all of a stripe is new.
    fn is_full(&self, cells: &CachedCells) -> bool {
        let whole = 0..self.data_columns * self.chunk_bytes;
        self.unit_rows > 1 && cells.as_range(self.data_columns, self.chunk_bytes) == Some(whole)
    }

    /// Copies what is cached of some bytes of a chunk into the same place of `into`, which holds these bytes.
    #[inline]
    pub(crate) fn read(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: Range<usize>,
        into: &mut [u8],
    ) -> Hit {
        let mut missing: SmallVec<[Range<usize>; 4]> = SmallVec::new();
        let rows = bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES);
        for unit in self.units(stripe, rows.clone()) {
            let first = (unit - stripe.0 * self.units_per_stripe()) as usize * self.unit_rows;
            let here = rows.start.max(first)..rows.end.min(first + self.unit_rows);
            let here_bytes = bytes.start.max(here.start * BLOCK_BYTES)..bytes.end.min(here.end * BLOCK_BYTES);
            let mut bucket = self.bucket(unit);
            let slot = bucket.slots.iter_mut().find(|slot| slot.unit == unit);
            let Some((slot, column)) = slot.and_then(|slot| {
                let Slot { cells, was_read, .. } = slot;
                Some((was_read, cells.get(column)?))
            }) else {
                add(&mut missing, here_bytes);
                continue;
            };
            *slot = true;
            for row in here {
                let block_start = row * BLOCK_BYTES;
                let wanted = bytes.start.max(block_start)..bytes.end.min(block_start + BLOCK_BYTES);
                let (mask, block) = match column.get(row) {
                    Some((CellState::Clean, block)) => (ALL_SECTORS, block),
                    Some((CellState::Dirty(_), block)) if lives(Mutant::ReadPastDirty) => (0, block),
                    Some((CellState::Dirty(_), block)) if lives(Mutant::PartReadWhole) => {
                        (ALL_SECTORS, block)
                    }
                    Some((CellState::Dirty(mask), block)) => (mask, block),
                    None => {
                        add(&mut missing, wanted);
                        continue;
                    }
                };
                let mut at = wanted.start;
                for part in sectors(mask) {
                    let part = (block_start + part.start).max(wanted.start)
                        ..(block_start + part.end).min(wanted.end);
                    if part.is_empty() {
                        continue;
                    }
                    add(&mut missing, at..part.start);
                    into[part.start - bytes.start..part.end - bytes.start]
                        .copy_from_slice(&block[part.start - block_start..part.end - block_start]);
                    at = part.end;
                }
                add(&mut missing, at..wanted.end);
            }
        }
        match &missing[..] {
            [] => Hit::All,
            [all] if *all == bytes => Hit::Nothing,
            _ => Hit::Without(missing),
        }
    }

    /// Whether anything of a chunk is cached.
    pub(crate) fn holds(&self, stripe: StripeIndex, column: usize) -> bool {
        self.all_units(stripe).any(|unit| {
            let bucket = self.bucket(unit);
            bucket.slots.iter().any(|slot| slot.unit == unit && slot.cells.get(column).is_some())
        })
    }

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
        let (mut dropped, mut went) = (Vec::new(), 0);
        for unit in self.all_units(stripe) {
            let mut bucket = self.bucket(unit);
            let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) else { continue };
            let dirty = slot.cells.dirty_rows();
            went += slot.make_clean(lent, &mut dropped);
            if slot.cells.dirty_rows().is_empty() {
                slot.oldest = NEVER;
            } else if (dirty - lent.dirty_rows()).is_empty() {
                // What is dirty now was written since it was lent.
                slot.oldest = slot.oldest.max(epoch);
            }
            self.forget_empty(&mut bucket);
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

    /// Dirty cells, about: additions under way may be missing.
    pub(crate) fn dirty_blocks(&self) -> u64 {
        let gone = self.dirty.sum(1);
        self.dirty.sum(0).saturating_sub(gone)
    }

    /// The most blocks that it can hold.
    pub(crate) fn blocks_max(&self) -> u64 {
        (self.frames.bound() / FRAME_COST) as u64
    }

    /// A writer waits for memory.
    pub(crate) fn want_room(&self) {
        if !self.wants_room.swap(true, Ordering::SeqCst) {
            self.tell_waiting();
        }
    }

    /// Whether a writer has waited for memory since this was asked last.
    pub(crate) fn take_want_of_room(&self) -> bool {
        self.wants_room.swap(false, Ordering::SeqCst)
    }

    /// What it holds now.
    pub(crate) fn report(&self) -> CacheReport {
        let mut report = CacheReport { size_bytes: self.size_bytes, ..CacheReport::default() };
        report.used_bytes = size_of_val(&*self.buckets) as u64;
        for bucket in &self.buckets {
            for slot in &spin(bucket).slots {
                let (dirty, held) = (slot.cells.dirty_blocks(), slot.cells.blocks());
                report.dirty_blocks += dirty as u64;
                report.clean_blocks += (held - dirty) as u64;
                report.used_bytes += (slot.bytes() + held * FRAME_COST) as u64;
            }
        }
        report
    }

    /// Wakes all tasks that wait for a change.
    pub(crate) fn tell_waiting(&self) {
        let wakers = {
            let mut waiting = self.waiting.lock();
            waiting.changes += 1;
            waiting.tasks.take()
        };
        wake_all(wakers);
    }

    /// The number of changes so far.
    pub(crate) fn changes(&self) -> u64 {
        self.waiting.lock().changes
    }

    /// Waits until there were more changes.
    pub(crate) async fn changed(&self, seen: u64) {
        std::future::poll_fn(|cx| {
            let mut waiting = self.waiting.lock();
            if waiting.changes != seen {
                return Poll::Ready(());
            }
            waiting.tasks.add(cx.waker());
            Poll::Pending
        })
        .await;
    }
}

/// Adds a range behind the others; neighbours are joined.
fn add(ranges: &mut SmallVec<[Range<usize>; 4]>, range: Range<usize>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
