//! The stripe cache (msc-ct III-A): what clients wrote, and members do not hold yet.
//!
//! A write is acknowledged when its blocks are here. Later they are destaged: lent to a write of their stripe,
//! which has its rows locked, and clean once members have them. A write goes into the block that its cell has, if
//! nobody else has that. Else it puts a new block in the place of the old one, so a block that is lent stays as it is,
//! and whether a cell was rewritten meanwhile is seen by whether its block is still the same.
//!
//! The cache takes no locks of rows. Cells are found by a hash of their unit, a stripe or a row, in buckets with a
//! lock each, which is held for as long as a few blocks are copied. A write of several blocks copies them before it
//! takes the lock. A read of one block takes none, if the block is `shown`.

mod ahead;
mod cost;
mod destage;
mod evict;
mod filter;
mod flush_limit;
mod kept;
mod line;
mod log;
mod modes;
mod paper;
mod passing;
mod put;
mod read;
mod replacing;
mod report;
mod settings;
mod shown;
mod slot;
mod waiting;
mod working;

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, atomic::AtomicUsize},
};

use stripewise_device::{
    frames::{FRAME_COST, Frames},
    sync::{
        Counters,
        seam::{
            CopyGuard, CopyLock, Mutex,
            atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
        },
    },
};

use self::{
    ahead::Ahead,
    evict::Clean,
    filter::Filter,
    flush_limit::FlushLimit,
    log::{Log, NoLog},
    modes::Mode,
    shown::{Dropped, Recent},
    slot::Slot,
    waiting::Waiting,
    working::Reserve,
};
pub(crate) use self::{
    cost::DestageCost,
    destage::Ending,
    line::Place,
    put::{NotPut, Way},
    read::Hit,
    waiting::Changes,
};
pub use self::{
    report::{CacheReport, DestageReason, Destaged},
    settings::{CacheAlloc, CacheError, CacheKind, CachePast, CacheSettings, ReadCache},
};
use crate::{
    destage::{Account, Candidate, Fill, Weighed},
    shape::{
        geometry::{Geometry, StripeIndex},
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// Blocks for each bucket: with whole stripes in the cache, most buckets are empty; with single blocks of as many
/// stripes, each has some slots.
const BLOCKS_PER_BUCKET: usize = 4;
/// Of the blocks that fit, one in so many is not for dirty ones: what is rewritten finds memory.
const SPARE_PARTS: u64 = 32;
/// A writer that lacks memory waits for destages of so many blocks.
const COMING_MIN: u64 = 256;
/// Marks of what was read for each bucket: a row has its own, and a stripe has.
const MARKS_PER_BUCKET: usize = 4;

/// Cells of an array that members do not hold yet, and others that were written lately.
pub(crate) struct Cache {
    size_bytes: u64,
    buckets: Box<[CopyLock<Bucket>]>,
    filter: Filter,
    frames: Frames,
    /// What was read since eviction last looked.
    recent: Recent,
    data_columns: usize,
    chunk_bytes: usize,
    /// Rows of a stripe, and of a unit: as many, or one.
    stripe_rows: usize,
    unit_rows: usize,
    fills_gaps: bool,
    /// Grows with each flush: later writes are of a later epoch.
    epoch: AtomicU64,
    /// Buckets with dirty cells, and perhaps others. A mark is set and taken by the holder of its bucket.
    has_dirty: Box<[AtomicBool]>,
    log: Box<dyn Log>,
    clean: Clean,
    /// Dirty cells: how many there came, and how many went.
    dirty: Counters<2>,
    /// Dirty blocks that were lent to destages: of how many that has begun, and of how many it has ended.
    leaving: Counters<2>,
    counts: Counters<COUNTS>,
    settings: Mutex<CacheSettings>,
    /// A [`Mode`].
    mode: AtomicU8,
    /// What is dirty as a whole stripe is destaged at once if so many blocks are dirty.
    full_from: AtomicU64,
    /// What was destaged may stay.
    keeps_clean: AtomicBool,
    /// A stripe gets memory for all of its blocks at once.
    takes_whole_units: AtomicBool,
    ahead: Ahead,
    /// Bytes that a block takes beside its frame, on average.
    beside_block: AtomicUsize,
    flush_limit: FlushLimit,
    /// As many blocks are dirty as may be, or writers are in the line.
    is_over: AtomicBool,
    /// The [`Bound`](crate::destage::Bound) of the stripes whose writes pass by, where none of their blocks is dirty.
    passing: AtomicU64,
    /// How the ways compare.
    weighed: Mutex<Weighed>,
    /// What goes next to make room.
    victims: Mutex<VecDeque<Candidate>>,
    waiting: Mutex<Waiting>,
    /// Memory that destages work with.
    reserve: Reserve,
}

/// What is counted: two numbers for each reason of a destage, and these.
const COUNTS: usize = 2 * DestageReason::ALL.len() + 8;
const AHEAD: usize = COUNTS - 8;
const PASSED_BYTES: usize = COUNTS - 7;
const WHOLE_BYTES: usize = COUNTS - 6;
const READ_HITS: usize = COUNTS - 5;
const READ_PART_HITS: usize = COUNTS - 4;
const READ_MISSES: usize = COUNTS - 3;
const WAITS: usize = COUNTS - 2;
const PASSED: usize = COUNTS - 1;

/// What a block takes beside its frame until that was measured: its share of a slot with few blocks.
const BESIDE_BLOCK: usize = 256;

/// Slots with the same hash.
#[derive(Default)]
struct Bucket {
    slots: Vec<Slot>,
    /// Stripes that writes pass by under way, as often as there are such writes.
    passing: Vec<u64>,
    /// It is among those with clean cells.
    is_listed: bool,
}

/// Fibonacci hashing, as for the table of locked rows.
#[inline]
fn hash(unit: u64) -> usize {
    (unit.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize
}

impl Cache {
    /// A cache of so many bytes for an array of this shape; none for [`CacheKind::None`].
    pub(crate) fn new(
        settings: &CacheSettings,
        size_bytes: u64,
        geometry: &Geometry,
    ) -> Result<Option<Arc<Self>>, CacheError> {
        let stripe_rows = (geometry.chunk_bytes() / BLOCK_BYTES).max(1);
        let unit_rows = match settings.kind {
            CacheKind::None => return Ok(None),
            CacheKind::Pbg => 1,
            CacheKind::Stripe | CacheKind::StripeCt | CacheKind::Auto => stripe_rows,
        };
        let size = size_bytes as usize;
        let count = (size / FRAME_COST / BLOCKS_PER_BUCKET).max(1).next_power_of_two();
        let buckets: Box<[CopyLock<Bucket>]> = (0..count).map(|_| CopyLock::default()).collect();
        let clean = Clean::of(count);
        let marks = MARKS_PER_BUCKET * count;
        let beside = count * (Filter::BYTES + size_of::<AtomicBool>()) + clean.bytes() + marks;
        let tables = size_of_val(&*buckets) + beside;
        let reserve = Reserve::of(size);
        let bound = size.saturating_sub(tables + reserve.bytes());
        let frames = Frames::new(bound.saturating_sub(Frames::beside(bound)))
            .ok_or(CacheError::NoMemory { size_bytes })?;
        Ok(Some(Arc::new(Self {
            size_bytes,
            frames,
            recent: Recent::new(marks),
            filter: Filter::new(count),
            has_dirty: (0..count).map(|_| AtomicBool::new(false)).collect(),
            log: Box::new(NoLog),
            buckets,
            data_columns: geometry.data_columns(),
            chunk_bytes: geometry.chunk_bytes(),
            stripe_rows,
            unit_rows,
            fills_gaps: settings.kind.fills_gaps(),
            epoch: AtomicU64::new(1),
            clean,
            dirty: Counters::default(),
            leaving: Counters::default(),
            counts: Counters::default(),
            settings: Mutex::new(*settings),
            mode: AtomicU8::new(Mode::Open as u8),
            full_from: AtomicU64::new(u64::MAX),
            keeps_clean: AtomicBool::new(settings.read != ReadCache::Nothing),
            takes_whole_units: AtomicBool::new(settings.alloc == CacheAlloc::Stripe),
            ahead: Ahead::new(settings.read == ReadCache::Ahead),
            beside_block: AtomicUsize::new(BESIDE_BLOCK),
            flush_limit: FlushLimit::default(),
            is_over: AtomicBool::new(false),
            passing: AtomicU64::default(),
            weighed: Mutex::default(),
            victims: Mutex::default(),
            waiting: Mutex::default(),
            reserve,
        })))
    }

    /// Whether a unit is a row. One row may be a stripe, too.
    fn is_by_rows(&self) -> bool {
        self.unit_rows == 1
    }

    /// Whether short gaps between what is destaged are filled.
    pub(crate) fn fills_gaps(&self) -> bool {
        self.fills_gaps
    }

    fn units_per_stripe(&self) -> u64 {
        if self.is_by_rows() { self.stripe_rows as u64 } else { 1 }
    }

    /// The stripe of a unit.
    fn stripe_of(&self, unit: u64) -> StripeIndex {
        StripeIndex(if self.is_by_rows() { unit / self.stripe_rows as u64 } else { unit })
    }

    /// The unit of a row.
    #[inline]
    fn unit_of(&self, stripe: StripeIndex, row: usize) -> u64 {
        if self.is_by_rows() { stripe.0 * self.stripe_rows as u64 + row as u64 } else { stripe.0 }
    }

    /// The units that rows of a stripe lie in.
    fn units(&self, stripe: StripeIndex, rows: Range<usize>) -> Range<u64> {
        self.unit_of(stripe, rows.start)..self.unit_of(stripe, rows.end - 1) + 1
    }

    fn all_units(&self, stripe: StripeIndex) -> Range<u64> {
        self.units(stripe, 0..self.stripe_rows)
    }

    /// The units in which these rows of a stripe lie.
    fn units_with(&self, stripe: StripeIndex, rows: RowSet) -> impl Iterator<Item = u64> + use<> {
        let (all, is_by_rows) = (self.all_units(stripe), self.is_by_rows());
        let first = all.start;
        all.filter(move |unit| !is_by_rows || rows.contains((unit - first) as usize))
    }

    #[inline]
    fn bucket(&self, unit: u64) -> CopyGuard<'_, Bucket> {
        self.buckets[self.place_of(unit)].lock()
    }

    /// Where a unit's bucket is.
    #[inline]
    fn place_of(&self, unit: u64) -> usize {
        hash(unit) & (self.buckets.len() - 1)
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

    /// Dirty cells, about: additions under way may be missing.
    pub(crate) fn dirty_blocks(&self) -> u64 {
        let gone = self.dirty.sum(1);
        self.dirty.sum(0).saturating_sub(gone)
    }

    /// Blocks that became dirty so far.
    pub(crate) fn dirtied_blocks(&self) -> u64 {
        self.dirty.sum(0)
    }

    /// Blocks of a unit.
    fn unit_blocks(&self) -> usize {
        self.data_columns * self.unit_rows
    }

    /// The most blocks that may be dirty: about as many as there is memory for, and no more than a flush may take.
    pub(crate) fn dirty_max(&self) -> u64 {
        let held = (self.frames.bound() / (FRAME_COST + self.beside_block.load(Ordering::Relaxed))) as u64;
        let stripe = self.data_columns * self.chunk_bytes / BLOCK_BYTES;
        let in_time = self.flush_limit.blocks().max(2 * stripe as u64);
        (held - held / SPARE_PARTS).min(in_time)
    }

    /// How many blocks more may be dirty.
    fn room(&self) -> u64 {
        self.dirty_max().saturating_sub(self.dirty_blocks())
    }

    /// Whether as many blocks are dirty as may be, or writers are in the line.
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// How much of what may be dirty is, and the marks.
    pub(crate) fn fill(&self) -> Fill {
        let CacheSettings { low_percent, high_percent, .. } = *self.settings.lock();
        let most = self.dirty_max();
        let mark = |percent: u8| most * u64::from(percent) / 100;
        Fill { dirty: self.dirty_blocks(), low: mark(low_percent), high: mark(high_percent) }
    }

    /// Whether a stripe that has become dirty as a whole is destaged at once.
    pub(crate) fn takes_full(&self) -> bool {
        let from = self.full_from.load(Ordering::Relaxed);
        from == 0 || self.dirty_blocks() >= from
    }

    /// Has them destaged at once from now on if so many blocks are dirty, or never.
    pub(crate) fn take_full(&self, from: Option<u64>) {
        self.full_from.store(from.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Looks whether too much is dirty: then nothing is put until members have taken some. Returns the room that is left.
    #[cold]
    pub(crate) fn note_fill(&self) -> u64 {
        let room = self.room();
        let is_over = room == 0;
        let was_over = {
            let mut waiting = self.waiting.lock();
            self.is_over.store(is_over || !waiting.line.is_empty(), Ordering::Relaxed);
            std::mem::replace(&mut waiting.is_over, is_over)
        };
        if was_over && !is_over {
            self.tell_of_room();
        }
        room
    }

    /// Dirty blocks that are being destaged, whatever for.
    pub(crate) fn leaving_blocks(&self) -> u64 {
        let ended = self.leaving.sum(1);
        self.leaving.sum(0).saturating_sub(ended)
    }

    /// Whether destages under way will make enough room, so that a writer that lacks memory has only to wait.
    pub(crate) fn room_is_coming(&self) -> bool {
        let leaving = self.leaving_blocks();
        if leaving < COMING_MIN {
            return false;
        }
        let Fill { dirty, low, .. } = self.fill();
        dirty.saturating_sub(leaving) < low
    }

    /// Blocks that were destaged so far.
    pub(crate) fn destaged_blocks(&self) -> u64 {
        DestageReason::ALL.iter().map(|reason| self.counts.sum(2 * *reason as usize)).sum()
    }

    /// Blocks that were destaged as soon as all of their stripe was dirty.
    pub(crate) fn full_blocks(&self) -> u64 {
        self.counts.sum(2 * DestageReason::Full as usize)
    }

    /// What went past it, and by way of it, of so many bytes that clients wrote; without the time of members.
    pub(crate) fn accounts(&self, written_bytes: u64) -> (Account, Account) {
        let passed = self.counts.sum(PASSED_BYTES);
        let put = written_bytes.saturating_sub(passed + self.counts.sum(WHOLE_BYTES));
        let through = Account { ns: 0, bytes: passed, count: self.counts.sum(PASSED) };
        (through, Account { ns: 0, bytes: put, count: self.destaged_blocks() })
    }

    /// A client writes so much past it, in a whole stripe.
    pub(crate) fn count_whole(&self, len_bytes: usize) {
        self.counts.add(WHOLE_BYTES, len_bytes as u64);
    }

    /// Blocks of a stripe.
    pub(crate) fn stripe_blocks(&self) -> u64 {
        (self.data_columns * self.stripe_rows) as u64
    }

    /// The settings.
    pub(crate) fn settings(&self) -> CacheSettings {
        *self.settings.lock()
    }

    /// What it holds now, and did so far.
    pub(crate) fn report(&self) -> CacheReport {
        let destaged = DestageReason::ALL.map(|reason| Destaged {
            blocks: self.counts.sum(2 * reason as usize),
            writes: self.counts.sum(2 * reason as usize + 1),
        });
        let mut report = CacheReport {
            settings: self.settings(),
            size_bytes: self.size_bytes,
            used_bytes: self.size_bytes.saturating_sub(self.frames.bound() as u64),
            dirty_max: self.dirty_max(),
            blocks_per_s: self.flush_limit.blocks_per_s(),
            is_draining: self.is_draining(),
            destaged,
            ahead: self.counts.sum(AHEAD),
            read_hits: self.counts.sum(READ_HITS),
            read_part_hits: self.counts.sum(READ_PART_HITS),
            read_misses: self.counts.sum(READ_MISSES),
            waits: self.counts.sum(WAITS),
            passed: self.counts.sum(PASSED),
            weighed: self.weighed(),
            ..CacheReport::default()
        };
        for bucket in &self.buckets {
            for slot in &bucket.lock().slots {
                let (dirty, held) = (slot.cells.dirty_blocks(), slot.cells.blocks());
                report.dirty_blocks += dirty as u64;
                report.clean_blocks += (held - dirty) as u64;
                report.used_bytes += (slot.bytes() + (held + slot.spare_frames.len()) * FRAME_COST) as u64;
            }
        }
        report
    }
}
