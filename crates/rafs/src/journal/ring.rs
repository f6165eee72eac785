//! The rows of the journal's stripes, as a ring. Pure.

use std::ops::Range;

use crate::shape::{Geometry, StripeNo};

/// The ring. Its blocks are numbered row by row, from 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    geometry: Geometry,
    first: StripeNo,
    stripes: u64,
}

/// Rows of one stripe, from this one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) stripe: StripeNo,
    pub(super) row: u32,
    pub(super) rows: u32,
}

impl Ring {
    pub(super) fn new(geometry: Geometry, (first, stripes): (StripeNo, u64)) -> Self {
        assert!(stripes > 0, "a journal has stripes");
        Self { geometry, first, stripes }
    }

    pub(super) fn rows(&self) -> u64 {
        self.stripes * u64::from(self.geometry.rows())
    }

    /// Blocks of a row.
    pub(super) fn row_blocks(&self) -> u32 {
        self.geometry.data_columns()
    }

    /// The row of a block. Whatever a volume says, it is one of the ring.
    pub(super) fn row_of(&self, block: u64) -> u64 {
        block / u64::from(self.row_blocks()) % self.rows()
    }

    /// The first block of a row; rows are counted on beyond the end.
    pub(super) fn block_of(&self, row: u64) -> u64 {
        row % self.rows() * u64::from(self.row_blocks())
    }

    /// So many rows, as runs in single stripes, and which of their blocks each run has.
    pub(super) fn runs(&self, first: u64, rows: u64) -> impl Iterator<Item = (Run, Range<usize>)> {
        let (ring, of_stripe) = (*self, u64::from(self.geometry.rows()));
        let (mut at, end) = (first, first + rows);
        std::iter::from_fn(move || {
            let row = at % ring.rows();
            let count = (of_stripe - row % of_stripe).min(end - at);
            let run = Run {
                stripe: StripeNo(ring.first.0 + row / of_stripe),
                row: (row % of_stripe) as u32,
                rows: count as u32,
            };
            let blocks = |row: u64| ((row - first) * u64::from(ring.row_blocks())) as usize;
            let range = blocks(at)..blocks(at + count);
            at += count;
            (count > 0).then_some((run, range))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_round_and_are_cut_at_stripes() {
        let ring = Ring::new(Geometry::new(3, 4, 10).unwrap(), (StripeNo(3), 2));
        assert_eq!((ring.rows(), ring.row_of(3 * 7 + 2), ring.block_of(9)), (8, 7, 3));
        let runs: Vec<_> = ring.runs(6, 5).collect();
        let run = |stripe, row, rows| Run { stripe: StripeNo(stripe), row, rows };
        assert_eq!(runs, [(run(4, 2, 2), 0..6), (run(3, 0, 3), 6..15)]);
        assert_eq!(ring.runs(6, 0).count(), 0);
        assert_eq!(ring.runs(0, 8).map(|(run, _)| run.rows).collect::<Vec<_>>(), [4, 4]);
    }
}
