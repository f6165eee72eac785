//! Sets of rows of one stripe: 256 bits, so that choosing, merging and locking are word operations.

use std::{
    fmt,
    ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Not, Range, Sub},
};

/// Bytes of a block: the grain of cache and plan, and the height of a row.
pub const BLOCK_BYTES: usize = 4096;
/// Rows of the largest stripe.
pub const ROWS_MAX: usize = 256;

const WORDS: usize = ROWS_MAX / 64;

/// A set of rows.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct RowSet([u64; WORDS]);

impl RowSet {
    /// No row.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// Every row.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// The rows of a range.
    #[inline]
    pub fn range(rows: Range<usize>) -> Self {
        let below = |end: usize, word: usize| match end.saturating_sub(word * 64) {
            0 => 0,
            1..=63 => (1u64 << (end - word * 64)) - 1,
            _ => u64::MAX,
        };
        let mut set = Self::EMPTY;
        if rows.is_empty() {
            return set;
        }
        if rows.end <= 64 {
            // Chunks are seldom longer than the rows of one word.
            set.0[0] = (u64::MAX >> (64 - rows.len())) << rows.start;
            return set;
        }
        for (word, bits) in set.0.iter_mut().enumerate() {
            *bits = below(rows.end, word) & !below(rows.start, word);
        }
        set
    }

    /// The rows that a range of a chunk's bytes touches.
    #[inline]
    pub fn touching(bytes: Range<usize>) -> Self {
        if bytes.is_empty() {
            return Self::EMPTY;
        }
        Self::range(bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES))
    }

    /// The rows that a range of a chunk's bytes covers wholly.
    pub fn covered(bytes: Range<usize>) -> Self {
        let (start, end) = (bytes.start.div_ceil(BLOCK_BYTES), bytes.end / BLOCK_BYTES);
        if start < end { Self::range(start..end) } else { Self::EMPTY }
    }

    /// Whether no row is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Whether `row` is in the set.
    #[inline]
    pub fn contains(&self, row: usize) -> bool {
        self.0[row / 64] >> (row % 64) & 1 == 1
    }

    /// How many rows of the set lie below `row`.
    #[inline]
    pub fn rank(&self, row: usize) -> usize {
        let word = row / 64;
        let below: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        below as usize + (self.0[word] & !(u64::MAX << (row % 64))).count_ones() as usize
    }

    /// Adds a row.
    #[inline]
    pub fn insert(&mut self, row: usize) {
        self.0[row / 64] |= 1 << (row % 64);
    }

    /// Takes a row out.
    #[inline]
    pub fn remove(&mut self, row: usize) {
        self.0[row / 64] &= !(1 << (row % 64));
    }

    /// Whether the sets share a row.
    #[inline]
    pub fn intersects(&self, other: &Self) -> bool {
        !(*self & *other).is_empty()
    }

    /// The lowest row.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.next_from(0)
    }

    /// How many rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The highest row.
    #[inline]
    pub fn last(&self) -> Option<usize> {
        let word = self.0.iter().rposition(|word| *word != 0)?;
        Some(word * 64 + 63 - self.0[word].leading_zeros() as usize)
    }

    /// The lowest row at or above `from`.
    #[inline]
    fn next_from(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        if word >= WORDS {
            return None;
        }
        let mut bits = self.0[word] & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The maximal runs of consecutive rows, in order.
    pub fn runs(self) -> impl Iterator<Item = Range<usize>> {
        let absent = !self;
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next_from(at)?;
            at = absent.next_from(start).unwrap_or(ROWS_MAX);
            Some(start..at)
        })
    }
}

impl BitOr for RowSet {
    type Output = Self;
    #[inline]
    fn bitor(mut self, other: Self) -> Self {
        self |= other;
        self
    }
}

impl BitOrAssign for RowSet {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }
}

impl BitAnd for RowSet {
    type Output = Self;
    #[inline]
    fn bitand(mut self, other: Self) -> Self {
        self &= other;
        self
    }
}

impl BitAndAssign for RowSet {
    #[inline]
    fn bitand_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
    }
}

impl Not for RowSet {
    type Output = Self;
    #[inline]
    fn not(self) -> Self {
        Self(self.0.map(|w| !w))
    }
}

impl Sub for RowSet {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        self & !other
    }
}

impl fmt::Debug for RowSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.runs()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_vector_of_booleans(a in prop::collection::vec(any::<bool>(), ROWS_MAX), start in 0..ROWS_MAX, len in 0..ROWS_MAX) {
            let end = (start + len).min(ROWS_MAX);
            let mut set = RowSet::EMPTY;
            a.iter().enumerate().filter(|(_, v)| **v).for_each(|(i, _)| set |= RowSet::range(i..i + 1));
            prop_assert_eq!(set.len(), a.iter().filter(|v| **v).count());
            prop_assert_eq!(set.first(), a.iter().position(|v| *v));
            let mut rebuilt = RowSet::EMPTY;
            for run in set.runs() {
                prop_assert!(run.clone().all(|i| a[i]));
                prop_assert!(run.end == ROWS_MAX || !a[run.end]);
                rebuilt |= RowSet::range(run);
            }
            prop_assert_eq!(rebuilt, set);
            prop_assert_eq!(set.rank(start), a[..start].iter().filter(|v| **v).count());
            let (mut with, mut without) = (set, set);
            with.insert(start);
            without.remove(start);
            prop_assert_eq!(with, set | RowSet::range(start..start + 1));
            prop_assert_eq!(without, set - RowSet::range(start..start + 1));
            let range = RowSet::range(start..end);
            let both = set & range;
            (0..ROWS_MAX).for_each(|i| assert_eq!(both.contains(i), a[i] && (start..end).contains(&i)));
            prop_assert_eq!((set - range) | both, set);
        }
    }

    #[test]
    fn byte_ranges_touch_and_cover() {
        assert_eq!(RowSet::touching(512..4608), RowSet::range(0..2));
        assert_eq!(RowSet::covered(512..4608), RowSet::EMPTY);
        assert_eq!(RowSet::covered(512..12_288), RowSet::range(1..3));
        assert_eq!(RowSet::touching(4096..4096), RowSet::EMPTY);
    }
}
