//! A word of bits for each bucket, which tells without the bucket's lock which cells it may hold: a Bloom filter of two
//! bits a cell.

use stripewise_device::sync::seam::atomic::{AtomicU64, Ordering};

/// The words of all buckets. A word is changed by the holder of its bucket. A cell's bits are set while the cell is held,
/// and perhaps longer.
pub(super) struct Filter(Box<[AtomicU64]>);

impl Filter {
    /// For so many buckets, which hold nothing.
    pub(super) fn new(buckets: usize) -> Self {
        Self((0..buckets).map(|_| AtomicU64::new(0)).collect())
    }

    /// With more cells, a word tells little.
    pub(super) const CELLS_MAX: usize = 16;
    /// Bytes for each bucket.
    pub(super) const BYTES: usize = size_of::<AtomicU64>();

    /// The bits of a cell with this number.
    #[inline]
    fn bits(number: u64) -> u64 {
        let hash = super::hash(number);
        1 << (hash >> 26) | 1 << (hash >> 20 & 63)
    }

    /// A bucket gets a cell.
    #[inline]
    pub(super) fn note(&self, bucket: usize, number: u64) {
        let (word, bits) = (&self.0[bucket], Self::bits(number));
        let before = word.load(Ordering::Relaxed);
        if before & bits != bits {
            word.store(before | bits, Ordering::Relaxed);
        }
    }

    /// Whether a bucket may hold a cell. It is true of every cell that any thread put before the call and that is held.
    #[inline]
    pub(super) fn may_hold(&self, bucket: usize, number: u64) -> bool {
        let bits = Self::bits(number);
        self.0[bucket].load(Ordering::Relaxed) & bits == bits
    }

    /// These are all the cells of a bucket.
    pub(super) fn renew(&self, bucket: usize, numbers: impl Iterator<Item = u64>) {
        let word = numbers.fold(0, |all, number| all | Self::bits(number));
        if self.0[bucket].load(Ordering::Relaxed) != word {
            self.0[bucket].store(word, Ordering::Relaxed);
        }
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
