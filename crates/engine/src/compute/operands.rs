//! What parity is computed from, and parity of a sum's rows: made anew, or brought up to date.

use std::{ops::Range, sync::Arc};

use smallvec::SmallVec;
use stripewise_device::{IoBuf, SharedBuf, WriteBufs};

use super::{cells::CachedCells, content::Content, sums};
use crate::{
    mutants::{Mutant, lives},
    plan::recipe::{Cells, Span, Sum},
    shape::geometry::StripeSpan,
};

/// What is new in a stripe, by column.
pub(super) trait New {
    /// The first contiguous run of some bytes of a column's chunk, if the content that they will have is in hand.
    fn run(&self, column: usize, bytes: &Range<usize>) -> Option<&[u8]>;

    /// Writes the new bytes of a column's block over its old content.
    fn merge(&self, column: usize, block: &Range<usize>, into: &mut [u8]);

    /// Bytes of a column's chunk, all of them new, for a write.
    fn take(&mut self, column: usize, bytes: &Range<usize>, is_last: bool) -> WriteBufs;

    /// The old content of rows of a column, if it is in hand.
    fn old(&self, column: usize, rows: Span) -> Option<IoBuf>;
}

/// The new content of one write's part in one stripe.
pub(super) struct NewData<C> {
    pub(super) span: StripeSpan,
    pub(super) chunk_bytes: usize,
    pub(super) content: C,
}

impl<C: Content> NewData<C> {
    /// Where bytes of a column's chunk lie in the write; none if not all of them are new.
    fn in_write(&self, column: usize, bytes: &Range<usize>) -> Option<Range<usize>> {
        let start = (column * self.chunk_bytes + bytes.start).checked_sub(self.span.start)?;
        let end = start + bytes.len();
        (end <= self.span.len).then_some(start..end)
    }
}

impl<C: Content> New for NewData<C> {
    #[inline]
    fn run(&self, column: usize, bytes: &Range<usize>) -> Option<&[u8]> {
        Some(self.content.run(self.in_write(column, bytes)?))
    }

    fn merge(&self, column: usize, block: &Range<usize>, into: &mut [u8]) {
        let (new, _) = self.span.in_column(column, self.chunk_bytes);
        let new = new.start.max(block.start)..new.end.min(block.end);
        let (bytes, at) = (self.run(column, &new).expect("they are new"), new.start - block.start);
        into[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn take(&mut self, column: usize, bytes: &Range<usize>, is_last: bool) -> WriteBufs {
        let range = self.in_write(column, bytes).expect("what is written as new is new");
        self.content.take(range, is_last)
    }

    fn old(&self, _: usize, _: Span) -> Option<IoBuf> {
        None
    }
}

impl New for Arc<CachedCells> {
    #[inline]
    fn run(&self, column: usize, bytes: &Range<usize>) -> Option<&[u8]> {
        CachedCells::run(self, column, bytes)
    }

    fn merge(&self, column: usize, block: &Range<usize>, into: &mut [u8]) {
        CachedCells::merge(self, column, block, into);
    }

    fn take(&mut self, column: usize, bytes: &Range<usize>, _: bool) -> WriteBufs {
        CachedCells::take(self, column, bytes)
    }

    fn old(&self, column: usize, rows: Span) -> Option<IoBuf> {
        self.copy_of_clean(column, rows.range())
    }
}

/// Consecutive rows of one column, with their bytes.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) cells: Cells,
    pub(crate) buf: IoBuf,
}

impl Run {
    pub(super) fn covers(&self, column: usize, rows: Span) -> bool {
        let own = self.cells;
        usize::from(own.column) == column && own.rows.start <= rows.start && rows.end <= own.rows.end
    }

    pub(super) fn part(&self, rows: Span) -> Range<usize> {
        let start = self.cells.rows.bytes().start;
        rows.bytes().start - start..rows.bytes().end - start
    }
}

/// Blocks that a recipe has read: disjoint, parity last.
pub(crate) type Fetched = SmallVec<[Run; 8]>;

pub(super) fn find(fetched: &[Run], column: usize, rows: Span) -> Option<&[u8]> {
    let run = fetched.iter().find(|run| run.covers(column, rows))?;
    Some(&run.buf[run.part(rows)])
}

/// New content of some rows of a column.
pub(super) struct Piece {
    pub(super) cells: Cells,
    pub(super) buf: SharedBuf,
}

/// Pieces of this stripe.
pub(super) type Pieces = SmallVec<[Piece; 2]>;

/// What one sum is computed from.
pub(super) struct Operands<'a, N> {
    pub(super) new: &'a N,
    pub(super) fetched: &'a [Run],
    pub(super) joined: &'a [Piece],
    pub(super) rows: Span,
}

impl<'a, N: New> Operands<'a, N> {
    /// The content that a data column will have in these rows, from byte `at` on, as far as it is contiguous.
    #[inline]
    pub(super) fn run(&self, column: usize, at: usize) -> &'a [u8] {
        let is_it = |piece: &&Piece| {
            usize::from(piece.cells.column) == column && piece.cells.rows.start == self.rows.start
        };
        if let Some(piece) = self.joined.iter().find(is_it) {
            return &piece.buf[at..];
        }
        let bytes = self.rows.bytes();
        self.new.run(column, &(bytes.start + at..bytes.end)).unwrap_or_else(|| &self.old(column)[at..])
    }

    /// The old content of a data column in these rows.
    fn old(&self, column: usize) -> &'a [u8] {
        find(self.fetched, column, self.rows).expect("a recipe reads the old content it needs")
    }

    /// The length of the rows in bytes.
    pub(super) fn len(&self) -> usize {
        self.rows.bytes().len()
    }
}

/// Makes parity of a sum's rows anew from the content that all data columns will have: one run for each
/// parity column.
pub(super) fn made<N: New>(sum: &Sum, data_columns: usize, operands: &Operands<'_, N>) -> SmallVec<[Run; 2]> {
    let mut out: SmallVec<[IoBuf; 2]> = SmallVec::new();
    sum.parity.columns().for_each(|_| out.push(IoBuf::with_len(operands.len())));
    let mut at = 0;
    while at < operands.len() {
        let mut data: SmallVec<[Option<&[u8]>; 8]> = SmallVec::new();
        (0..data_columns).for_each(|column| data.push(Some(operands.run(column, at))));
        let len = data.iter().flatten().map(|run| run.len()).min().unwrap_or(0);
        data.iter_mut().flatten().for_each(|run| *run = &run[..len]);
        if lives(Mutant::ColumnForgotten) {
            data.last_mut().into_iter().for_each(|last| *last = None);
        }
        let mut parts: SmallVec<[&mut [u8]; 2]> = SmallVec::new();
        out.iter_mut().for_each(|buf| parts.push(&mut buf[at..at + len]));
        sums::make(sum.parity, &data, &mut parts);
        at += len;
    }
    let cells = |parity: usize| Cells { column: (data_columns + parity) as u16, rows: sum.rows };
    sum.parity.columns().zip(out).map(|(parity, buf)| Run { cells: cells(parity), buf }).collect()
}

/// Brings old parity up to date in place. `old` holds the columns that the sum names, in order.
#[inline]
pub(super) fn update<N: New>(sum: &Sum, columns: Span, operands: &Operands<'_, N>, old: &mut [&mut [u8]]) {
    for column in columns.range() {
        let (before, after) = (operands.old(column), operands.run(column, 0));
        if after.len() == before.len() {
            sums::update(sum.parity, column, before, after, old);
        } else {
            update_by_runs(sum, column, operands, old);
        }
    }
}

/// As [`update`], for one column whose new content lies in several buffers.
#[cold]
fn update_by_runs<N: New>(sum: &Sum, column: usize, operands: &Operands<'_, N>, old: &mut [&mut [u8]]) {
    let before = operands.old(column);
    let mut at = 0;
    while at < before.len() {
        let after = operands.run(column, at);
        let part = at..at + after.len();
        let mut parts: SmallVec<[&mut [u8]; 2]> = old.iter_mut().map(|buf| &mut buf[part.clone()]).collect();
        sums::update(sum.parity, column, &before[part.clone()], after, &mut parts);
        at = part.end;
    }
}
