//! Gives each thread one of a small number of cells.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// This many threads at a time have cells of their own. The standard library sees loom's threads as one: none
/// has.
const OWN: usize = if cfg!(feature = "loom") { 0 } else { 64 };
/// All other threads share these.
const SHARED: usize = if cfg!(feature = "loom") { 1 } else { 8 };
/// All cells.
pub(crate) const CELLS: usize = OWN + SHARED;

/// The numbers of the threads that exist.
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { taken: 0, free: Vec::new() });
/// The most numbers ever taken at a time. A thread counts here before it writes to its cell.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Mine = Mine::new();
}

/// A thread's number, until the thread ends. The next thread with that number sees everything written to the
/// cell: the lock of the numbers lies between.
struct Mine(usize);

impl Mine {
    fn new() -> Self {
        let mut numbers = NUMBERS.lock();
        let mine = Self(numbers.take());
        TAKEN.store(numbers.taken, Relaxed);
        mine
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        NUMBERS.lock().give_back(self.0);
    }
}

/// Numbers, each held by one thread at a time.
struct Numbers {
    /// The most numbers ever taken at a time.
    taken: usize,
    free: Vec<usize>,
}

impl Numbers {
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.taken += 1;
            self.taken - 1
        })
    }

    /// Keeps the lowest number last, to be taken first: few numbers have cells of their own, and these are
    /// the low ones.
    fn give_back(&mut self, number: usize) {
        let place = self.free.partition_point(|other| *other > number);
        self.free.insert(place, number);
    }
}

/// This thread's cell, and whether no other thread writes to it.
#[inline]
#[cfg_attr(feature = "loom", expect(clippy::absurd_extreme_comparisons, clippy::modulo_one))]
pub(crate) fn my_cell() -> (usize, bool) {
    // Values that a thread drops at its very end may count, too.
    let mine = MINE.try_with(|mine| mine.0).unwrap_or(OWN);
    if mine < OWN { (mine, true) } else { (OWN + mine % SHARED, false) }
}

/// The numbers of the cells in which threads may have left something: far fewer than all, where few threads run. All that has happened
/// before is in one of them.
pub(crate) fn used_cells() -> impl Iterator<Item = usize> {
    (0..TAKEN.load(Relaxed).min(OWN)).chain(OWN..CELLS)
}

/// A value for each thread, none of them in the cache line of another. Threads beyond those that have cells of their own
/// share some.
#[derive(Debug)]
pub struct PerThread<T>(Box<[Padded<T>]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

impl<T: Default> Default for PerThread<T> {
    fn default() -> Self {
        Self((0..CELLS).map(|_| Padded::default()).collect())
    }
}

impl<T> PerThread<T> {
    /// Bytes that it takes.
    pub const BYTES: usize = CELLS * size_of::<Padded<T>>();

    /// This thread's.
    #[inline]
    pub fn mine(&self) -> &T {
        &self.0[my_cell().0].0
    }

    /// Those of threads that there are, or were.
    pub fn used(&self) -> impl Iterator<Item = &T> {
        used_cells().map(|cell| &self.0[cell].0)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_that_is_free_is_taken() {
        let mut numbers = Numbers { taken: 0, free: Vec::new() };
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [0, 1, 2]);
        numbers.give_back(1);
        numbers.give_back(0);
        numbers.give_back(2);
        assert_eq!([numbers.take(), numbers.take(), numbers.take(), numbers.take()], [0, 1, 2, 3]);
    }

    #[test]
    fn a_thread_that_has_a_cell_uses_it() {
        let mine = my_cell().0;
        assert!(used_cells().any(|cell| cell == mine));
    }
}
