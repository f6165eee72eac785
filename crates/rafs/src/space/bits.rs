//! A set of bits of a fixed length.

use std::ops::Range;

/// The bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bits {
    words: Box<[u64]>,
    len: usize,
}

impl Bits {
    pub(super) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)].into(), len }
    }

    /// So many bits out of bytes; the first bit is the lowest one of the first byte.
    pub(super) fn of_bytes(bytes: &[u8], len: usize) -> Self {
        let mut bits = Self::new(len);
        for (word, bytes) in bits.words.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        bits
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.len.div_ceil(8));
        bytes
    }

    pub(super) fn has(&self, at: usize) -> bool {
        debug_assert!(at < self.len);
        self.words[at / 64] >> (at % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, range: Range<usize>, to: bool) {
        for (word, mask) in masks(range) {
            let word = &mut self.words[word];
            *word = if to { *word | mask } else { *word & !mask };
        }
    }

    /// How many in a range are set.
    pub(super) fn count(&self, range: Range<usize>) -> usize {
        masks(range).map(|(word, mask)| (self.words[word] & mask).count_ones() as usize).sum()
    }

    /// How many are set.
    pub(super) fn ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn is_full(&self) -> bool {
        self.ones() == self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

/// The words that a range of bits lies in, and its bits there.
fn masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let Range { start, end } = range;
    let words = if start < end { start / 64..end.div_ceil(64) } else { 0..0 };
    words.map(move |word| {
        let (first, last) = (start.saturating_sub(word * 64), (end - word * 64).min(64));
        (word, !0 >> (64 - (last - first)) << first)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_of_bits_are_as_those_of_a_list(
            len in 1..300_usize,
            ranges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 0..20),
        ) {
            let (mut bits, mut list) = (Bits::new(len), vec![false; len]);
            for (start, count, to) in ranges {
                let start = start.index(len);
                let end = start + 1 + count.index(len - start);
                bits.set(start..end, to);
                list[start..end].fill(to);
                prop_assert_eq!(bits.count(start..end), if to { end - start } else { 0 });
            }
            prop_assert!((0..len).all(|at| bits.has(at) == list[at]));
            prop_assert_eq!(bits.count(0..len), list.iter().filter(|bit| **bit).count());
            prop_assert_eq!(bits.is_empty(), !list.contains(&true));
            prop_assert_eq!(bits.is_full(), !list.contains(&false));
            prop_assert_eq!(bits.ones(), list.iter().filter(|bit| **bit).count());
            prop_assert_eq!(Bits::of_bytes(&bits.to_bytes(), len), bits);
        }
    }
}
