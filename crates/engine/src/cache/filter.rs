//! A word of bits for each bucket, which tells without the bucket's lock which cells it may hold.

use std::sync::atomic::{AtomicU64, Ordering};

/// The words of all buckets. A word is changed by the holder of its bucket. A cell's bit is set while the cell is held,
/// and perhaps longer.
pub(super) struct Filter(Box<[AtomicU64]>);

impl Filter {
    /// For so many buckets, which hold nothing.
    pub(super) fn new(buckets: usize) -> Self {
        Self((0..buckets).map(|_| AtomicU64::new(0)).collect())
    }

    /// Bytes for each bucket.
    pub(super) const BYTES: usize = size_of::<AtomicU64>();

    /// The bit of a cell with this number.
    fn bit(number: u64) -> u64 {
        1 << (super::hash(number) >> 26)
    }

    /// A bucket gets a cell.
    #[inline]
    pub(super) fn note(&self, bucket: usize, number: u64) {
        let (word, bit) = (&self.0[bucket], Self::bit(number));
        let before = word.load(Ordering::Relaxed);
        if before & bit == 0 {
            word.store(before | bit, Ordering::Relaxed);
        }
    }

    /// Whether a bucket may hold a cell. It is true of every cell that any thread put before the call and that is held.
    #[inline]
    pub(super) fn may_hold(&self, bucket: usize, number: u64) -> bool {
        self.0[bucket].load(Ordering::Relaxed) & Self::bit(number) != 0
    }

    /// These are all the cells of a bucket.
    pub(super) fn renew(&self, bucket: usize, numbers: impl Iterator<Item = u64>) {
        let word = numbers.fold(0, |all, number| all | Self::bit(number));
        self.0[bucket].store(word, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_found_and_what_went_is_forgotten() {
        let filter = Filter::new(2);
        (0..20).for_each(|number| filter.note(1, number));
        assert!((0..20).all(|number| filter.may_hold(1, number) && !filter.may_hold(0, number)));
        filter.renew(1, [3].into_iter());
        assert!(filter.may_hold(1, 3));
        assert!((0..64).filter(|number| filter.may_hold(1, *number)).count() < 8);
    }
}
