//! The gaps between a member's requests of a stripe, and those that reach into the chunks before and behind: on a member,
//! the chunks of neighbouring stripes touch.

use std::ops::Range;

use crate::shape::rows::RowSet;

/// A gap, or the part of one that lies in this stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) rows: Range<usize>,
    /// Blocks from the start of the request before all of it to the start of the next (msc-ct III-D).
    pub(super) stride: usize,
    /// To fill it makes two requests one.
    pub(super) joins: bool,
}

/// How far the chunks before and behind a column's chunk are free of operations, where they have some. By default, nothing
/// is known of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edges {
    /// Rows of a chunk.
    pub rows: usize,
    /// Rows behind the last operation in the chunk before.
    pub before: Option<usize>,
    /// Rows before the first operation in the chunk behind.
    pub behind: Option<usize>,
}

impl Edges {
    /// By the rows with operations in the chunks before and behind.
    pub fn between(rows: usize, before: RowSet, behind: RowSet) -> Self {
        Self { rows, before: before.last().map(|last| rows - 1 - last), behind: behind.first() }
    }

    /// The parts of gaps that lie in this chunk, of which these rows have operations.
    pub(super) fn gaps(self, rows: RowSet) -> impl Iterator<Item = Gap> {
        let before = rows.first().zip(self.before).map(|(first, free)| (0..first, free));
        let behind = rows.last().zip(self.behind).map(|(last, free)| (last + 1..self.rows, free));
        let parts = before.into_iter().chain(behind).filter(|(rows, _)| !rows.is_empty());
        parts.map(|(rows, free)| Gap { stride: free + rows.len() + 1, rows, joins: false })
    }
}

/// The gaps between the runs of a set of rows.
pub(super) fn between(rows: RowSet) -> impl Iterator<Item = Gap> {
    let ends = rows.runs().map(|run| run.end);
    let gaps = ends.zip(rows.runs().skip(1)).map(|(end, next)| end..next.start);
    gaps.map(|rows| Gap { stride: rows.len() + 1, rows, joins: true })
}

/// The rows of a destage, and the gaps between them and beside them that could be filled if no stride reaches `end`.
pub fn with_gaps(rows: RowSet, edges: Edges, end: u16) -> RowSet {
    let short = between(rows).chain(edges.gaps(rows)).filter(|gap| gap.stride < usize::from(end));
    short.fold(rows, |all, gap| all | RowSet::range(gap.rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[usize]) -> RowSet {
        rows.iter().fold(RowSet::EMPTY, |all, row| all | RowSet::range(*row..row + 1))
    }

    #[test]
    fn a_gap_reaches_to_the_next_operation_beside_the_chunk() {
        let edges = Edges::between(8, rows(&[1, 5]), rows(&[3]));
        let gaps: Vec<_> = edges.gaps(rows(&[2, 6])).collect();
        let gap = |rows, stride| Gap { rows, stride, joins: false };
        assert_eq!(gaps, [gap(0..2, 5), gap(7..8, 5)]);
        assert_eq!(edges.gaps(rows(&[0, 7])).count(), 0, "nothing of it lies here");
        assert_eq!(edges.gaps(RowSet::EMPTY).count(), 0);
        assert_eq!(Edges::between(8, RowSet::EMPTY, RowSet::EMPTY).gaps(rows(&[3])).count(), 0);
        assert_eq!(Edges::default().gaps(rows(&[3])).count(), 0);
    }

    #[test]
    fn rows_are_taken_with_gaps_that_are_short() {
        let dirty = rows(&[0, 2, 8]);
        assert!(with_gaps(dirty, Edges::default(), 6) == RowSet::range(0..3) | rows(&[8]));
        assert!(with_gaps(dirty, Edges::default(), 7) == RowSet::range(0..9));
        // One stride is 8, the other 11.
        let edges = Edges::between(10, rows(&[4]), rows(&[3]));
        assert!(with_gaps(rows(&[5]), edges, 8) == rows(&[5]));
        assert!(with_gaps(rows(&[5]), edges, 9) == RowSet::range(5..10));
    }
}
