//! Frames: blocks of 4 KiB for a cache, from memory of its own with a bound that is counted to the byte.
//!
//! Buffers come from per-thread pools, which have no common bound. A cache must have one, so its blocks come
//! from here. Besides blocks, the bound covers what the cache [charges](Frames::charge): its own tables. The
//! memory of a block is given back to the system when its bytes are charged for something else.
//!
//! Each thread takes blocks from a cell of its own, and returns what it drops to that. Cells get and give whole
//! batches of the common store; a thread that finds both empty takes from the other cells.
//!
//! Blocks can be [shown](Frames::show) to threads that copy them without a lock (`shown.rs`).
//!
//! A store stays for ever, so that a block need not count as a reference to it. Once it is closed and has all its
//! blocks back, its memory goes, and what is left of it is used for the next one.

#![allow(unsafe_code)]

mod shown;

use std::ptr::NonNull;

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use parking_lot::Mutex as PlainMutex;

use self::shown::Shown;
use crate::{
    BUF_ALIGN, IoBuf,
    buf::{Allocation, Block, Home, Pooled},
    memory::racing,
    sync::{
        cells::{CELLS, my_cell, used_cells},
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
    cells: Box<[Cell]>,
    left: Mutex<Left>,
}

/// What one thread has.
#[derive(Default)]
#[repr(align(128))]
struct Cell {
    has: Mutex<Stock>,
}

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
            let cells = (0..CELLS).map(|_| Cell::default()).collect();
            Box::leak(Box::new(Self { cells, left: Mutex::default() }))
        })
    }

    /// The cells in which there may be something.
    fn used_cells(&self) -> impl Iterator<Item = &Cell> {
        used_cells().map(|cell| &self.cells[cell])
    }

    /// Closes it.
    fn close(&'static self) {
        let mut free = Vec::new();
        for cell in &self.cells {
            let mut has = cell.has.lock();
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
            SPARE.lock().push(self);
        }
    }
}

impl Home for Store {
    fn take_back(&'static self, frame: Pooled) {
        let mut has = spin(&self.cells[my_cell().0].has);
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
        store.cells.iter().for_each(|cell| *cell.has.lock() = Stock::default());
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

    /// A frame with arbitrary content; none if all are in use.
    #[inline]
    pub fn take(&self) -> Option<IoBuf> {
        let cell = self.cell();
        let frame = spin(&cell.has).free.pop();
        let frame = match frame {
            Some(frame) => frame,
            None => self.refill(cell)?,
        };
        if let Some(place) = self.place_of(frame.start()) {
            self.shown.use_again(place);
        }
        Some(IoBuf::lent(frame))
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

    /// This thread's cell.
    #[inline]
    fn cell(&self) -> &'static Cell {
        &self.store.cells[my_cell().0]
    }

    #[cold]
    fn refill(&self, cell: &Cell) -> Option<Pooled> {
        let mut got = self.batch();
        if got.is_empty() {
            // What may be charged and is not is memory, too.
            let credit: usize =
                self.store.used_cells().map(|cell| std::mem::take(&mut cell.has.lock().credit)).sum();
            self.store.left.lock().bytes += credit;
            got = self.batch();
        }
        if got.is_empty() {
            // A thread that gave much back has what this one lacks.
            let stolen = self.store.used_cells().find_map(|other| {
                let mut has = other.has.lock();
                let half = has.free.len() / 2;
                (!has.free.is_empty()).then(|| has.free.split_off(half))
            });
            got = stolen.unwrap_or_default();
        }
        let one = got.pop();
        if !got.is_empty() {
            cell.has.lock().free.append(&mut got);
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
        let cell = self.cell();
        {
            let mut has = spin(&cell.has);
            if has.credit >= bytes {
                has.credit -= bytes;
                return true;
            }
        }
        let Some(credit) = self.find_credit(bytes) else { return false };
        cell.has.lock().credit += credit - bytes;
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
        for other in self.store.used_cells() {
            let mut has = other.has.lock();
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
        let mut has = spin(&self.cell().has);
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
        for cell in &self.store.cells {
            let has = cell.has.lock();
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

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: usize = 100 * FRAME_COST + 10;

    #[test]
    fn frames_end_at_the_bound_and_return() {
        let frames = Frames::new(BOUND).unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| frames.take()).collect();
        assert_eq!((taken.len(), frames.left_bytes()), (100, 10));
        let mut places: Vec<_> = taken.iter().map(|frame| frame.as_ptr().addr()).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= FRAME_BYTES));
        assert!(places.iter().all(|place| place.is_multiple_of(FRAME_BYTES)));
        drop(taken);
        assert_eq!(frames.left_bytes(), BOUND);
        assert_eq!(std::iter::from_fn(|| frames.take()).collect::<Vec<_>>().len(), 100);
    }

    #[test]
    fn what_is_charged_takes_the_place_of_frames_and_gives_it_back() {
        let frames = Frames::new(BOUND).unwrap();
        drop(std::iter::from_fn(|| frames.take()).collect::<Vec<_>>());
        assert!(frames.charge(50 * FRAME_COST));
        let taken: Vec<_> = std::iter::from_fn(|| frames.take()).collect();
        assert!(taken.len() <= 50 && taken.len() > 45, "{}", taken.len());
        assert!(!frames.charge(6 * FRAME_COST));
        let left = frames.left_bytes();
        assert!(frames.charge(left));
        assert_eq!(frames.left_bytes(), 0);
        drop(taken);
        frames.discharge(left + 50 * FRAME_COST);
        assert_eq!(frames.left_bytes(), BOUND);
        let again: Vec<_> = std::iter::from_fn(|| frames.take()).collect();
        assert!(again.len() > 95, "{}", again.len());
    }

    #[test]
    fn what_is_no_longer_charged_becomes_frames() {
        let frames = Frames::new(BOUND).unwrap();
        assert!(frames.charge(BOUND) && frames.take().is_none());
        frames.discharge(BOUND);
        assert_eq!(std::iter::from_fn(|| frames.take()).collect::<Vec<_>>().len(), 100);
    }

    #[test]
    fn threads_get_what_others_gave_back() {
        let frames = Frames::new(BOUND).unwrap();
        std::thread::scope(|scope| {
            let taken: Vec<_> = std::iter::from_fn(|| frames.take()).collect();
            scope.spawn(|| drop(taken)).join().unwrap();
            let taken =
                scope.spawn(|| std::iter::from_fn(|| frames.take()).collect::<Vec<_>>()).join().unwrap();
            assert_eq!(taken.len(), 100);
        });
        assert_eq!(frames.left_bytes(), BOUND);
    }

    #[test]
    fn a_block_outlives_the_store_that_it_came_from() {
        let frames = Frames::new(BOUND).unwrap();
        let mut frame = frames.take().unwrap();
        frame.fill(7);
        let block = Block::of(frame);
        let lent = block.lend(512..1024);
        drop((frames, block));
        assert_eq!(lent[..], [7; 512]);
    }

    /// A store that is used again has all its bound, and nothing that the last one lent.
    #[test]
    fn a_store_is_not_used_again_before_it_has_all_its_blocks_back() {
        let frames = Frames::new(BOUND).unwrap();
        let (store, lent) = (std::ptr::from_ref(frames.store), frames.take().unwrap());
        drop(frames);
        let others: Vec<_> = (0..8).map(|_| Frames::new(BOUND).unwrap()).collect();
        assert!(others.iter().all(|other| !std::ptr::eq(other.store, store)));
        drop(lent);
        drop(others);
        let again = Frames::new(BOUND).unwrap();
        assert_eq!(std::iter::from_fn(|| again.take()).collect::<Vec<_>>().len(), 100);
        assert_eq!(again.left_bytes(), BOUND);
    }

    fn block_of(frames: &Frames, value: u8) -> Block {
        let mut frame = frames.take().unwrap();
        frame.fill(value);
        Block::of(frame)
    }

    #[test]
    fn what_is_shown_is_copied_until_it_is_hidden() {
        let frames = Frames::new(BOUND).unwrap();
        let (mut one, other) = (block_of(&frames, 1), block_of(&frames, 2));
        let look = |number| {
            let mut copy = [0; 512];
            frames.look(number, 1024, &mut copy).then_some(copy[511])
        };
        frames.show(7, &one);
        frames.show(8, &other);
        assert_eq!([look(7), look(8), look(9), look(u64::MAX)], [Some(1), Some(2), None, None]);
        let lent = one.lend(0..512);
        assert!(frames.own(7, &mut one).is_none(), "another has it");
        drop(lent);
        frames.own(7, &mut one).unwrap().fill(3);
        assert_eq!(look(7), None, "it was changed");
        frames.show(7, &one);
        assert_eq!(look(7), Some(3));
        frames.hide(8);
        assert_eq!((look(7), look(8)), (Some(3), None));
        // Numbers far apart share an entry, and the last one has it.
        frames.show(7 + (1 << 20), &other);
        assert_eq!((look(7), look(7 + (1 << 20))), (None, Some(2)));
        frames.hide(7);
        assert_eq!(look(7 + (1 << 20)), Some(2));
        let strange = Block::of(IoBuf::zeroed(FRAME_BYTES));
        frames.show(7 + (1 << 20), &strange);
        assert_eq!(look(7 + (1 << 20)), None, "it is of no store");
    }

    /// Blocks of many values come and go under some numbers, each of which only ever shows its own values.
    #[test]
    fn whoever_looks_sees_one_block_of_its_number() {
        let frames = Frames::new(BOUND).unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 0..2_u64 {
                let (frames, over) = (&frames, &over);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(number);
                    let mut block = block_of(frames, number as u8);
                    for _ in 0..20_000 {
                        let value = rng.u8(..8) << 1 | number as u8;
                        match frames.own(number, &mut block) {
                            Some(bytes) if rng.bool() => bytes.fill(value),
                            _ => {
                                frames.hide(number);
                                block = block_of(frames, value);
                            }
                        }
                        frames.show(number, &block);
                    }
                    over.store(true, std::sync::atomic::Ordering::Relaxed);
                });
                scope.spawn(move || {
                    let mut copy = [0; FRAME_BYTES];
                    while !over.load(std::sync::atomic::Ordering::Relaxed) {
                        if frames.look(number, 0, &mut copy) {
                            assert!(
                                copy.iter().all(|byte| *byte == copy[0]) && u64::from(copy[0] & 1) == number
                            );
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn nothing_is_lost_among_threads() {
        let frames = Frames::new(BOUND).unwrap();
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let frames = &frames;
                scope.spawn(move || {
                    let (mut rng, mut held, mut charged) = (fastrand::Rng::with_seed(seed), Vec::new(), 0);
                    for _ in 0..20_000 {
                        match rng.u8(..4) {
                            0 => held.extend(frames.take()),
                            1 if !held.is_empty() => drop(held.swap_remove(rng.usize(..held.len()))),
                            2 if frames.charge(300) => charged += 300,
                            3 if charged > 0 => {
                                frames.discharge(charged);
                                charged = 0;
                            }
                            _ => {}
                        }
                    }
                    drop(held);
                    frames.discharge(charged);
                });
            }
        });
        assert_eq!(frames.left_bytes(), BOUND);
    }
}
