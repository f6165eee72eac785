//! Blocks of a store that threads read without a lock.
//!
//! A block is *shown* under a number, and *hidden* before it is dropped or changed. A reader copies first. Then it checks
//! that the memory did not change during the copy. If the memory changed, the reader discards the copy.
//!
//! A number has an entry, one word: which number it is, and the place of its block. Numbers share entries. The last one
//! that was shown has the entry, and the others are not found. The uses of each place are counted, and the count grows
//! before the memory there changes. A reader loads the entry, the uses of the place, and the entry again. It copies, and
//! loads the uses again. This is why it sees one block, and the right one:
//! * Before the uses of a shown block grow, its entry is cleared. A reader that has seen the grown count sees that, too:
//!   it finds its entry changed, or shown again with all that was written before.
//! * A reader whose copy has a byte that was written after the count grew sees the grown count at the end.
//!
//! So at the second load of the entry, the number's block was at the place, and was the same until the end of the copy.
//! Showing and hiding are plain stores. The thread that shows or hides a number holds that number's lock. Another number
//! may take the entry at the same moment. Then readers do not find the first number, and take the lock.

use crate::sync::seam::atomic::{AtomicU64, Ordering, fence};

/// Bits of an entry that are the number of a place, and 1; a store of more memory than these can tell shows less of it.
const PLACE_BITS: u32 = 28;
/// The largest number of a place that fits.
const PLACE_MAX: u64 = (1 << PLACE_BITS) - 2;

/// What is shown of a store.
pub(super) struct Shown {
    entries: Box<[AtomicU64]>,
    /// How often each place was used so far.
    uses: Box<[AtomicU64]>,
    /// Bits of a number that tell its entry.
    entry_bits: u32,
}

/// A block that a reader has found.
pub(super) struct Found<'a> {
    pub(super) place: usize,
    uses: &'a AtomicU64,
    before: u64,
}

impl Shown {
    /// For a store of so many places.
    pub(super) fn new(places: usize) -> Self {
        let zeroes = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let count = Self::entries(places);
        Self { entries: zeroes(count), uses: zeroes(places), entry_bits: count.ilog2() }
    }

    /// Entries are more than places, so that few numbers of blocks share one.
    fn entries(places: usize) -> usize {
        (places + places / 2).next_power_of_two()
    }

    /// How many places there are.
    #[inline]
    pub(super) fn places(&self) -> usize {
        self.uses.len()
    }

    /// Bytes that it takes.
    pub(super) fn bytes(places: usize) -> usize {
        (Self::entries(places) + places) * size_of::<AtomicU64>()
    }

    #[inline]
    fn entry(&self, number: u64) -> &AtomicU64 {
        &self.entries[number as usize & (self.entries.len() - 1)]
    }

    /// The part of a number that its entry does not tell by where it is.
    #[inline]
    fn tag(&self, number: u64) -> u64 {
        number >> self.entry_bits
    }

    /// Shows the block at a place under a number. The caller has the number's lock.
    #[inline]
    pub(super) fn show(&self, number: u64, place: usize) {
        let (tag, place) = (self.tag(number), place as u64);
        if tag >> (u64::BITS - PLACE_BITS) == 0 && place <= PLACE_MAX {
            self.entry(number).store(tag << PLACE_BITS | (place + 1), Ordering::Release);
        }
    }

    /// Shows nothing under a number. The caller has its lock.
    #[inline]
    pub(super) fn hide(&self, number: u64) {
        let entry = self.entry(number);
        let word = entry.load(Ordering::Relaxed);
        if word != 0 && word >> PLACE_BITS == self.tag(number) {
            entry.store(0, Ordering::Relaxed);
        }
    }

    /// The memory of a place is about to change. Nothing shows it.
    #[inline]
    pub(super) fn use_again(&self, place: usize) {
        let uses = &self.uses[place];
        uses.store(uses.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        fence(Ordering::Release);
    }

    /// Finds a number's block, to be copied.
    #[inline]
    pub(super) fn find(&self, number: u64) -> Option<Found<'_>> {
        let entry = self.entry(number);
        let word = entry.load(Ordering::Acquire);
        if word == 0 || word >> PLACE_BITS != self.tag(number) {
            return None;
        }
        let place = (word & ((1 << PLACE_BITS) - 1)) as usize - 1;
        let uses = &self.uses[place];
        let before = uses.load(Ordering::Acquire);
        (entry.load(Ordering::Acquire) == word).then_some(Found { place, uses, before })
    }
}

impl Found<'_> {
    /// Whether what was copied since is the block.
    #[inline]
    pub(super) fn is_same(&self) -> bool {
        fence(Ordering::Acquire);
        self.uses.load(Ordering::Relaxed) == self.before
    }
}

#[cfg(all(test, feature = "loom"))]
mod tests {
    use std::sync::Arc;

    use loom::thread;

    use super::*;

    /// A store of two places, with memory of two words each.
    struct Store {
        shown: Shown,
        memory: [[AtomicU64; 2]; 2],
    }

    impl Store {
        fn write(&self, place: usize, value: u64) {
            self.shown.use_again(place);
            self.memory[place].iter().for_each(|word| word.store(value, Ordering::Relaxed));
        }

        fn look(&self, number: u64) -> Option<u64> {
            let found = self.shown.find(number)?;
            let copy = self.memory[found.place].each_ref().map(|word| word.load(Ordering::Relaxed));
            found.is_same().then(|| {
                assert_eq!(copy[0], copy[1], "one block was copied");
                copy[0]
            })
        }
    }

    fn model(check: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(check);
    }

    /// A store that shows a block of ones under 0, and a thread that changes it.
    fn beside(change: fn(&Store)) -> (Arc<Store>, thread::JoinHandle<()>) {
        let memory = [(); 2].map(|()| [AtomicU64::new(0), AtomicU64::new(0)]);
        let store = Store { shown: Shown::new(2), memory };
        store.write(0, 1);
        store.shown.show(0, 0);
        let store = Arc::new(store);
        let changed = store.clone();
        (store, thread::spawn(move || change(&changed)))
    }

    /// A number's block is replaced, and its place goes to another number.
    #[test]
    fn a_place_that_another_number_got_is_not_taken_for_the_old_one() {
        model(|| {
            let (store, writer) = beside(|store| {
                store.write(1, 2);
                store.shown.hide(0);
                store.shown.show(0, 1);
                store.write(0, 9);
                store.shown.show(1, 0);
            });
            let first = store.look(0);
            assert!(first.is_none_or(|value| value == 1 || value == 2), "{first:?}");
            let other = store.look(1);
            assert!(other.is_none_or(|value| value == 9), "{other:?}");
            writer.join().unwrap();
            assert_eq!((store.look(0), store.look(1)), (Some(2), Some(9)));
        });
    }

    /// A block is changed where it is, and comes back to a place where it was.
    #[test]
    fn a_block_that_changes_in_its_place_is_seen_before_or_after() {
        model(|| {
            let (store, writer) = beside(|store| {
                for value in [2, 3] {
                    store.shown.hide(0);
                    store.write(0, value);
                    store.shown.show(0, 0);
                }
            });
            let looks = [store.look(0), store.look(0)];
            assert!(looks[0].zip(looks[1]).is_none_or(|(before, after)| before <= after), "{looks:?}");
            writer.join().unwrap();
            assert_eq!(store.look(0), Some(3));
        });
    }
}
