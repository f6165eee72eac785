//! Frames: blocks of 4 KiB for a cache, from memory of its own with a bound that is counted to the byte.
//!
//! Buffers come from per-thread pools, which have no common bound. A cache must have one, so its blocks come
//! from here. Besides blocks, the bound covers what the cache [charges](Frames::charge): its own tables. The
//! memory of a block is given back to the system when its bytes are charged for something else.
//!
//! Each thread takes blocks from a cell of its own, and returns what it drops to that. Cells get and give whole
//! batches of the common store. A thread that finds both empty can [take what others have](Frames::take_of_any); but first
//! it should do without something of its own: their blocks are in the caches of other processors, and their threads would
//! come to take others in turn.
//!
//! Blocks can be [shown](Frames::show) to threads that copy them without a lock (`shown.rs`).
//!
//! A store stays for ever, so that a block need not count as a reference to it. Once it is closed and has all its
//! blocks back, its memory goes, and what is left of it is used for the next one.

#![allow(unsafe_code)]

mod shown;
#[cfg(test)]
mod tests;

use std::ptr::NonNull;

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use parking_lot::Mutex as PlainMutex;

use self::shown::Shown;
use crate::{
    BUF_ALIGN, IoBuf,
    buf::{Allocation, Block, Home, Pooled},
    memory::racing,
    sync::{
        cells::PerThread,
        seam::{Mutex, spin},
    },
};

/// Bytes of a frame.
pub const FRAME_BYTES: usize = BUF_ALIGN;
/// What a frame counts for: its memory, the record of it, and its place in a list.
pub const FRAME_COST: usize = FRAME_BYTES + size_of::<Allocation>() + 2 * size_of::<usize>();
/// Frames that a cell takes from the store at a time, or returns to it.
const BATCH: usize = 32;
/// Bytes that a cell takes from the store at a time to charge.
const CREDIT_BATCH: usize = 16 << 10;

/// Closed stores without memory.
static SPARE: PlainMutex<Vec<&'static Store>> = PlainMutex::new(Vec::new());

/// A bounded store of frames. When this is dropped, the store is closed.
pub struct Frames {
    store: &'static Store,
    bound: usize,
    start: Start,
    shown: Shown,
}

/// Where the memory of a store starts.
struct Start(NonNull<u8>);

// SAFETY: an address. What it is used for says why that may be done.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

struct Store {
    cells: PerThread<Mutex<Stock>>,
    left: Mutex<Left>,
}

/// What one thread has.
#[derive(Default)]
struct Stock {
    free: Vec<Pooled>,
    /// Bytes that may be charged.
    credit: usize,
    /// Nothing is kept here any more.
    is_closed: bool,
}

/// What no thread has.
#[derive(Default)]
struct Left {
    free: Vec<Pooled>,
    /// Places in the map without a frame: returned ones.
    vacant: Vec<usize>,
    /// Where in the map no frame ever was.
    fresh: usize,
    /// Bytes of the bound that neither frames nor charges have.
    bytes: usize,
    /// Frames that there are.
    made: usize,
    is_closed: bool,
    /// None once the store is closed and there are no frames.
    map: Option<MmapRaw>,
}

impl Left {
    /// A frame that no thread has.
    fn take(&mut self, store: &'static Store) -> Option<Pooled> {
        if let Some(free) = self.free.pop() {
            return Some(free);
        }
        let map = self.map.as_ref()?;
        if self.bytes < FRAME_COST {
            return None;
        }
        let at = self.vacant.pop().or_else(|| {
            let at = self.fresh;
            (at + FRAME_BYTES <= map.len()).then(|| {
                self.fresh += FRAME_BYTES;
                at
            })
        })?;
        let start = NonNull::new(map.as_mut_ptr().wrapping_add(at))?;
        self.bytes -= FRAME_COST;
        self.made += 1;
        // SAFETY: the place lies in the map, which is zeroed where it was never used, page-aligned, and kept as
        // long as there are frames. Places are handed out once: they are fresh or vacant.
        Some(unsafe { Allocation::of_store(start, FRAME_BYTES, store) })
    }

    /// Gives a free frame's memory back to the system.
    fn vacate(&mut self, frame: Pooled, shown: &Shown) {
        let Some(map) = &self.map else { return };
        let at = frame.start().as_ptr().addr() - map.as_mut_ptr().addr();
        drop(frame);
        shown.use_again(at / FRAME_BYTES);
        // SAFETY: no handle refers to the frame, so nothing reads its content again before it is written. Its
        // pages stay mapped, and are zeroes when they are next touched.
        let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, at, FRAME_BYTES) };
        self.vacant.push(at);
        self.bytes += FRAME_COST;
        self.made -= 1;
    }
}

impl Store {
    /// One without memory.
    fn spare() -> &'static Self {
        let spare = SPARE.lock().pop();
        spare.unwrap_or_else(|| {
            Box::leak(Box::new(Self { cells: PerThread::default(), left: Mutex::default() }))
        })
    }

    /// Closes it.
    fn close(&'static self) {
        let mut free = Vec::new();
        for cell in self.cells.all() {
            let mut has = cell.lock();
            has.is_closed = true;
            free.append(&mut has.free);
        }
        // No cell adds to the list any more.
        let mut left = self.left.lock();
        free.append(&mut left.free);
        left.is_closed = true;
        self.retire(&mut left, free);
    }

    /// Drops frames. With the last one, the memory of a closed store goes.
    fn retire(&'static self, left: &mut Left, frames: Vec<Pooled>) {
        left.made -= frames.len();
        drop(frames);
        if left.made == 0 && left.is_closed {
            *left = Left::default();
            // Loom's locks are of one run of a model.
            if !cfg!(feature = "loom") {
                SPARE.lock().push(self);
            }
        }
    }
}

impl Home for Store {
    fn take_back(&'static self, frame: Pooled) {
        let mut has = spin(self.cells.mine());
        if has.is_closed {
            drop(has);
            return self.retire(&mut self.left.lock(), vec![frame]);
        }
        has.free.push(frame);
        if has.free.len() > 2 * BATCH {
            let at = has.free.len() - BATCH;
            let mut left = self.left.lock();
            left.free.extend(has.free.drain(at..));
        }
    }
}

impl Frames {
    /// A store of frames and charges that are never more than `bound` bytes together. None if there is not that
    /// much address space.
    pub fn new(bound: usize) -> Option<Self> {
        let places = Self::places(bound);
        let map: MmapRaw =
            MmapOptions::new().len(places * FRAME_BYTES).no_reserve_swap().map_anon().ok()?.into();
        // Only speed depends on it; some systems have no large pages.
        let _ = map.advise(Advice::HugePage);
        let start = Start(NonNull::new(map.as_mut_ptr())?);
        let store = Store::spare();
        store.cells.all().for_each(|cell| *cell.lock() = Stock::default());
        *store.left.lock() = Left { bytes: bound, map: Some(map), ..Left::default() };
        Some(Self { store, bound, start, shown: Shown::new(places) })
    }

    /// Frames that there may be at a time.
    fn places(bound: usize) -> usize {
        (bound / FRAME_COST).max(1)
    }

    /// Bytes that a store of this bound takes beside it, to show blocks.
    pub fn beside(bound: usize) -> usize {
        Shown::bytes(Self::places(bound))
    }

    /// The bound, in bytes.
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// A frame with arbitrary content; none if neither this thread nor the common store has one.
    #[inline]
    pub fn take(&self) -> Option<IoBuf> {
        let frame = spin(self.store.cells.mine()).free.pop();
        frame.or_else(|| self.refill()).map(|frame| self.lend(frame))
    }

    /// A frame with arbitrary content; none if all are in use.
    pub fn take_of_any(&self) -> Option<IoBuf> {
        self.take().or_else(|| self.gather().map(|frame| self.lend(frame)))
    }

    #[inline]
    fn lend(&self, frame: Pooled) -> IoBuf {
        if let Some(place) = self.place_of(frame.start()) {
            self.shown.use_again(place);
        }
        IoBuf::lent(frame)
    }

    /// The place where memory starts, if it is of this store.
    #[inline]
    fn place_of(&self, start: NonNull<u8>) -> Option<usize> {
        let at = start.addr().get().wrapping_sub(self.start.0.addr().get());
        Some(at / FRAME_BYTES).filter(|place| *place < self.shown.places())
    }

    /// Shows a block under a number: [`Frames::look`] may copy it from now on. The caller has a lock that is the number's,
    /// and [hides](Frames::hide) the block before it drops it.
    #[inline]
    pub fn show(&self, number: u64, block: &Block) {
        match self.place_of(block.start()) {
            Some(place) => self.shown.show(number, place),
            None => self.shown.hide(number),
        }
    }

    /// Shows nothing under a number. The caller has its lock.
    #[inline]
    pub fn hide(&self, number: u64) {
        self.shown.hide(number);
    }

    /// The bytes of the block with a number, to be changed; it is hidden. None if others have the block, too, or if it is
    /// of another store. The caller has the number's lock.
    #[inline]
    pub fn own<'b>(&self, number: u64, block: &'b mut Block) -> Option<&'b mut [u8]> {
        let place = self.place_of(block.start())?;
        let bytes = block.get_mut()?;
        self.shown.hide(number);
        self.shown.use_again(place);
        Some(bytes)
    }

    /// Copies bytes of the block that is shown under a number, from `at` on. False if none is, or if it was hidden
    /// meanwhile: then `into` holds anything.
    ///
    /// # Panics
    /// If a block has not that many bytes.
    #[inline]
    pub fn look(&self, number: u64, at: usize, into: &mut [u8]) -> bool {
        assert!(
            at <= FRAME_BYTES && into.len() <= FRAME_BYTES - at,
            "{} bytes at {at} of a block",
            into.len()
        );
        let Some(found) = self.shown.find(number) else { return false };
        // SAFETY: the place lies in the map, which is there as long as the store is not closed: as long as this is
        // borrowed. `into`, being exclusive, is not in it, since only frames in use are lent. Other threads may write
        // there; then what was copied is not used.
        unsafe {
            let from = self.start.0.as_ptr().add(found.place * FRAME_BYTES + at);
            racing::copy(from, into.as_mut_ptr(), into.len());
        }
        found.is_same()
    }

    #[cold]
    fn refill(&self) -> Option<Pooled> {
        self.keep_but_one(self.batch())
    }

    /// What other threads have and do not use.
    fn gather(&self) -> Option<Pooled> {
        // What may be charged and is not is memory, too.
        let credit: usize = self.store.cells.used().map(|cell| std::mem::take(&mut cell.lock().credit)).sum();
        self.store.left.lock().bytes += credit;
        let half_of = |cell: &Mutex<Stock>| {
            let mut has = cell.lock();
            let half = has.free.len() / 2;
            (!has.free.is_empty()).then(|| has.free.split_off(half))
        };
        self.refill().or_else(|| {
            let stolen = self.store.cells.used().find_map(half_of);
            self.keep_but_one(stolen.unwrap_or_default())
        })
    }

    /// Gives this thread frames, and the caller one of them.
    fn keep_but_one(&self, mut frames: Vec<Pooled>) -> Option<Pooled> {
        let one = frames.pop();
        if !frames.is_empty() {
            self.store.cells.mine().lock().free.append(&mut frames);
        }
        one
    }

    /// Frames that no thread has.
    fn batch(&self) -> Vec<Pooled> {
        let mut left = self.store.left.lock();
        (0..BATCH).map_while(|_| left.take(self.store)).collect()
    }

    /// Counts bytes that the cache takes from the heap. False, and nothing is counted, if the bound leaves no
    /// room for them.
    pub fn charge(&self, bytes: usize) -> bool {
        let cell = self.store.cells.mine();
        {
            let mut has = spin(cell);
            if has.credit >= bytes {
                has.credit -= bytes;
                return true;
            }
        }
        let Some(credit) = self.find_credit(bytes) else { return false };
        cell.lock().credit += credit - bytes;
        true
    }

    /// Takes at least this many bytes from the store, perhaps from frames.
    #[cold]
    fn find_credit(&self, bytes: usize) -> Option<usize> {
        let mut left = self.store.left.lock();
        let wanted = bytes.max(CREDIT_BATCH);
        while left.bytes < bytes {
            let Some(frame) = left.free.pop() else { break };
            left.vacate(frame, &self.shown);
        }
        if left.bytes >= bytes {
            let credit = left.bytes.min(wanted);
            left.bytes -= credit;
            return Some(credit);
        }
        drop(left);
        // What other threads have, one cell after the other: locks are taken in the order cell, store.
        let mut found = 0;
        for other in self.store.cells.used() {
            let mut has = other.lock();
            found += std::mem::take(&mut has.credit);
            let mut left = self.store.left.lock();
            while found + left.bytes < bytes {
                let Some(frame) = has.free.pop() else { break };
                left.vacate(frame, &self.shown);
            }
            if found + left.bytes >= bytes {
                left.bytes -= bytes.saturating_sub(found);
                return Some(found.max(bytes));
            }
        }
        self.store.left.lock().bytes += found;
        None
    }

    /// The opposite of [`Frames::charge`].
    pub fn discharge(&self, bytes: usize) {
        let mut has = spin(self.store.cells.mine());
        has.credit += bytes;
        if has.credit > 4 * CREDIT_BATCH {
            let surplus = has.credit - CREDIT_BATCH;
            has.credit = CREDIT_BATCH;
            self.store.left.lock().bytes += surplus;
        }
    }

    /// Bytes that neither frames in use nor charges have, about: threads may take and give meanwhile.
    #[cfg(test)]
    fn left_bytes(&self) -> usize {
        let mut sum = {
            let left = self.store.left.lock();
            left.bytes + left.free.len() * FRAME_COST
        };
        for cell in self.store.cells.all() {
            let has = cell.lock();
            sum += has.credit + has.free.len() * FRAME_COST;
        }
        sum
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.store.close();
    }
}
