//! Which of a small number of cells is a thread's own.

use parking_lot::Mutex;

/// So many threads at a time have cells of their own. Loom's threads are one to the standard library: none has.
const OWN: usize = if cfg!(feature = "loom") { 0 } else { 64 };
/// All others share these.
const SHARED: usize = if cfg!(feature = "loom") { 1 } else { 8 };
/// Cells.
pub(super) const CELLS: usize = OWN + SHARED;

/// The numbers of threads that there are.
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { taken: 0, free: Vec::new() });

thread_local! {
    static MINE: Mine = Mine(NUMBERS.lock().take());
}

/// A thread's number, until it ends. Whoever has the number of a cell next sees all that was written there: the numbers'
/// lock lies between.
struct Mine(usize);

impl Drop for Mine {
    fn drop(&mut self) {
        NUMBERS.lock().give_back(self.0);
    }
}

/// Numbers, each of one thread at a time.
struct Numbers {
    /// How many were ever taken at a time.
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

    /// Numbers with cells of their own are few, and the first that somebody wants.
    fn give_back(&mut self, number: usize) {
        let place = self.free.partition_point(|other| *other > number);
        self.free.insert(place, number);
    }
}

/// This thread's cell, and whether no other thread writes to it.
#[inline]
#[cfg_attr(feature = "loom", expect(clippy::absurd_extreme_comparisons, clippy::modulo_one))]
pub(super) fn my_cell() -> (usize, bool) {
    // What a thread drops at its very end may count, too.
    let mine = MINE.try_with(|mine| mine.0).unwrap_or(OWN);
    if mine < OWN { (mine, true) } else { (OWN + mine % SHARED, false) }
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
}
