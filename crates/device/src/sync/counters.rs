//! Counters that many threads add to without sharing a cache line.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::cells::{CELLS, my_cell, used_cells};

/// `N` counters that only grow. An addition by a thread with a cell of its own is a load and a store of a
/// cell that no other thread writes.
#[derive(Debug)]
pub struct Counters<const N: usize>(Box<[Cells<N>]>);

/// One thread's counters. They are aligned to two cache lines, since processors fetch those in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Cells<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self((0..CELLS).map(|_| Cells(std::array::from_fn(|_| AtomicU64::new(0)))).collect())
    }
}

impl<const N: usize> Counters<N> {
    /// Adds to counter `index`.
    #[inline]
    pub fn add(&self, index: usize, count: u64) {
        self.add_each([(index, count)]);
    }

    /// Adds to several counters, as (index, count): the thread's cell is looked up once.
    #[inline]
    pub fn add_each<const COUNTS: usize>(&self, counts: [(usize, u64); COUNTS]) {
        let (cell, is_own) = my_cell();
        let cells = &self.0[cell].0;
        for (index, count) in counts {
            let cell = &cells[index];
            if is_own {
                cell.store(cell.load(Relaxed).wrapping_add(count), Relaxed);
            } else {
                cell.fetch_add(count, Relaxed);
            }
        }
    }

    /// As [`Counters::add`]. Returns what the thread's cell counts by now.
    #[inline]
    pub fn add_here(&self, index: usize, count: u64) -> u64 {
        let (cell, is_own) = my_cell();
        let cell = &self.0[cell].0[index];
        if is_own {
            let sum = cell.load(Relaxed).wrapping_add(count);
            cell.store(sum, Relaxed);
            sum
        } else {
            cell.fetch_add(count, Relaxed).wrapping_add(count)
        }
    }

    /// What was added to counter `index` so far. Additions under way may be missing.
    pub fn sum(&self, index: usize) -> u64 {
        used_cells().map(|cell| self.0[cell].0[index].load(Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// Named counters over [`Counters`]: an index, a set to add to, and a report of the set at one moment.
#[macro_export]
macro_rules! counters {
    ($index:ident, $(#[$set_doc:meta])* $set:ident, $(#[$report_doc:meta])* $report:ident:
     $($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        #[allow(non_camel_case_types, reason = "the names are those of the report's fields")]
        #[derive(Debug, Clone, Copy)]
        enum $index { $($name),+ }

        $(#[$set_doc])*
        #[derive(Debug, Default)]
        pub struct $set($crate::sync::Counters<{ [$(stringify!($name)),+].len() }>);

        $(#[$report_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $report { $($(#[$doc])* pub $name: u64),+ }

        impl $set {
            /// The counters now.
            pub fn report(&self) -> $report {
                $report { $($name: self.0.sum($index::$name as usize)),+ }
            }

            #[allow(dead_code, reason = "not every set adds to one counter alone")]
            #[inline]
            fn add(&self, index: $index, count: u64) {
                self.0.add(index as usize, count);
            }

            #[allow(dead_code, reason = "not every set adds to several counters at once")]
            #[inline]
            fn add_each<const COUNTS: usize>(&self, counts: [($index, u64); COUNTS]) {
                self.0.add_each(counts.map(|(index, count)| (index as usize, count)));
            }
        }

        impl $report {
            /// What was counted since an earlier report of the same counters.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name - earlier.$name),+ }
            }

            /// Names and values, in order.
            pub fn fields(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_many_threads_add() {
        let counters = Counters::<2>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * CELLS {
                scope.spawn(|| (0..1000).for_each(|_| counters.add(1, 3)));
            }
        });
        assert_eq!((counters.sum(0), counters.sum(1)), (0, 2 * CELLS as u64 * 3000));
    }
}
