//! The stripe cache (msc-ct III-A): what clients wrote, and members do not hold yet.
//!
//! A write is acknowledged when its blocks are here. Later they are destaged: lent to a write of their stripe,
//! which has its rows locked, and clean once members have them. A block here never changes. A write puts a new
//! block in the place of the old one, so a block that is lent stays as it is, and whether a cell was rewritten
//! meanwhile is seen by whether its block is still the same.
//!
//! The cache takes no locks of rows. Cells are found by a hash of their unit, a stripe or a row, in buckets with a
//! lock each, which is held for as long as a few blocks are copied. A write of several blocks copies them before it
//! takes the lock.

mod destage;
mod put;
mod read;
mod settings;
mod slot;
mod waiting;

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, atomic::AtomicU64},
};

use parking_lot::Mutex;
use stripewise_device::{
    IoBuf,
    frames::{FRAME_COST, Frames},
    sync::{
        Counters,
        seam::{Mutex as SeamMutex, MutexGuard, spin},
    },
};

pub use self::settings::{CacheKind, CacheReport, CacheSettings};
pub(crate) use self::{
    destage::{Candidate, Ending},
    put::NotPut,
    read::Hit,
};
use self::{slot::Slot, waiting::Waiting};
use crate::{
    mutants::{Mutant, lives},
    shape::{
        geometry::{Geometry, StripeIndex},
        rows::BLOCK_BYTES,
    },
};

/// Blocks for each bucket: with whole stripes in the cache, most buckets are empty; with single blocks of as many
/// stripes, each has some slots.
const BLOCKS_PER_BUCKET: usize = 4;
/// Clean blocks that a writer without memory drops at a time.
const EVICTED_AT_ONCE: usize = 32;

/// Cells of an array that members do not hold yet, and others that were written lately.
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
    /// The buckets with clean cells, each once, in the order in which eviction looks at them. Its room is made at the
    /// beginning.
    clean: Mutex<VecDeque<u32>>,
    /// Dirty cells: how many there came, and how many went.
    dirty: Counters<2>,
    waiting: Mutex<Waiting>,
}

/// Slots with the same hash.
#[derive(Default)]
struct Bucket {
    slots: Vec<Slot>,
    /// Stripes that writes pass by under way, as often as there are such writes.
    passing: Vec<u64>,
    /// It is among those with clean cells.
    is_listed: bool,
}

/// When eviction looks at a bucket.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// Before all that are listed.
    First,
    Last,
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
        let clean = VecDeque::with_capacity(count);
        let tables = size_of_val(&*buckets) + clean.capacity() * size_of::<u32>();
        Some(Arc::new(Self {
            size_bytes: settings.size_bytes,
            frames: Frames::new(size.saturating_sub(tables))?,
            buckets,
            data_columns: geometry.data_columns(),
            chunk_bytes: geometry.chunk_bytes(),
            unit_rows: unit_rows.max(1),
            epoch: AtomicU64::new(1),
            clean: Mutex::new(clean),
            dirty: Counters::default(),
            waiting: Mutex::default(),
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
        spin(&self.buckets[self.place_of(unit)])
    }

    /// Where a unit's bucket is.
    #[inline]
    fn place_of(&self, unit: u64) -> usize {
        // Fibonacci hashing, as for the table of locked rows.
        let hash = unit.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        hash as usize & (self.buckets.len() - 1)
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
            let Some(at) = self.clean.lock().pop_front() else { break };
            let mut bucket = self.buckets[at as usize].lock();
            bucket.is_listed = false;
            let mut keeps = false;
            for slot in &mut bucket.slots {
                if std::mem::take(&mut slot.was_read) {
                    keeps |= slot.has_clean();
                    continue;
                }
                slot.drop_clean(&mut dropped);
                if lives(Mutant::DirtyEvicted) {
                    let all = slot.cells.lend(slot.cells.dirty_rows());
                    self.dirty.add(1, slot.drop_same(&all, &mut dropped) as u64);
                }
            }
            self.forget_empty(&mut bucket);
            if keeps {
                self.list(&mut bucket, at as usize, Turn::Last);
            }
        }
        dropped.len()
    }

    /// Notes that a bucket has clean cells.
    fn list(&self, bucket: &mut Bucket, at: usize, turn: Turn) {
        if std::mem::replace(&mut bucket.is_listed, true) {
            return;
        }
        let mut clean = self.clean.lock();
        match turn {
            Turn::First => clean.push_front(at as u32),
            Turn::Last => clean.push_back(at as u32),
        }
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

    /// The most blocks that it can hold.
    pub(crate) fn blocks_max(&self) -> u64 {
        (self.frames.bound() / FRAME_COST) as u64
    }

    /// What it holds now.
    pub(crate) fn report(&self) -> CacheReport {
        let mut report = CacheReport { size_bytes: self.size_bytes, ..CacheReport::default() };
        report.used_bytes = self.size_bytes.saturating_sub(self.frames.bound() as u64);
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
}
