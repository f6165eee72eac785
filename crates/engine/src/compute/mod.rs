//! Computes the bytes to write from a recipe, the new data and the blocks read. Pure functions; no I/O.
//!
//! Parity of whole rows is computed straight from the caller's buffer. Only partly overwritten blocks are
//! copied, to join old and new content.

pub(crate) mod cells;
mod content;
mod general;
mod operands;
mod parity;
pub(crate) mod recovery;
mod simple;
pub(crate) mod sums;

use std::sync::Arc;

use stripewise_device::WriteBufs;

pub(crate) use self::{
    cells::CachedCells,
    content::Data,
    operands::{Fetched, Run},
};
use self::{
    content::OneBuf,
    operands::{New, NewData},
};
use crate::{
    mutants::{Mutant, lives},
    plan::recipe::{Recipe, Span, Write},
    shape::{
        geometry::{Geometry, StripeSpan},
        rows::RowSet,
    },
};

/// What is new in a stripe: what a write in it is made of.
#[derive(Debug)]
pub(crate) enum Content {
    /// One contiguous part of the stripe, with its bytes: a client's write.
    Span(StripeSpan, Data),
    /// Cells, and whose they are.
    Cells(Arc<CachedCells>, CellsOf),
}

/// Whose cells are written.
#[derive(Debug)]
pub(crate) enum CellsOf {
    /// A cache lends them. All rows that are locked for them, if gaps between them may be filled.
    Cache(RowSet),
    /// A client writes them as whole blocks. Their rows, if they are all blocks of consecutive rows.
    Client(Option<Span>),
}

impl CellsOf {
    /// The rows that are locked if gaps may be filled.
    pub(crate) fn held(&self) -> RowSet {
        match self {
            Self::Cache(held) => *held,
            Self::Client(_) => RowSet::EMPTY,
        }
    }

    /// Their rows, if a client writes whole ones.
    pub(crate) fn whole_rows(&self) -> Option<Span> {
        match self {
            Self::Client(rows) => *rows,
            Self::Cache(_) => None,
        }
    }
}

impl Content {
    /// The rows that it touches, in any column.
    #[inline]
    pub(crate) fn rows(&self, chunk_bytes: usize) -> RowSet {
        match self {
            Self::Span(span, _) => touched_rows(span, chunk_bytes),
            Self::Cells(cells, of) => rows_of(cells, of),
        }
    }

    /// Leaves gaps as they are from now on. False if that was so before.
    pub(crate) fn leave_gaps(&mut self) -> bool {
        match self {
            Self::Span(..) | Self::Cells(_, CellsOf::Client(_)) => false,
            Self::Cells(_, CellsOf::Cache(held)) => !std::mem::take(held).is_empty(),
        }
    }

    /// Whether a cache destages it.
    pub(crate) fn is_destaged(&self) -> bool {
        matches!(self, Self::Cells(_, CellsOf::Cache(_)))
    }

    /// The rows that it consists of, if a client writes whole rows.
    pub(crate) fn whole_rows(&self) -> Option<Span> {
        match self {
            Self::Cells(_, of) => of.whole_rows(),
            Self::Span(..) => None,
        }
    }
}

/// The rows of a stripe that a span touches, in any column.
#[inline]
pub(crate) fn touched_rows(span: &StripeSpan, chunk_bytes: usize) -> RowSet {
    if span.start / chunk_bytes == (span.start + span.len - 1) / chunk_bytes {
        return near_rows(RowSet::touching(span.start % chunk_bytes..span.start % chunk_bytes + span.len));
    }
    let rows = span
        .columns(chunk_bytes)
        .map(|column| RowSet::touching(span.in_column(column, chunk_bytes).0))
        .fold(RowSet::EMPTY, |all, rows| all | rows);
    near_rows(rows)
}

/// The rows of cells; a mutant sees the first of a client's whole ones only.
fn rows_of(cells: &CachedCells, of: &CellsOf) -> RowSet {
    match of {
        CellsOf::Client(Some(Span { start, .. })) if lives(Mutant::FirstRowLocked) => {
            RowSet::range(usize::from(*start)..usize::from(*start) + 1)
        }
        _ => cells.dirty_rows(),
    }
}

/// All of these rows; a mutant sees the first word of them only.
fn near_rows(rows: RowSet) -> RowSet {
    if !lives(Mutant::WideRowsUnseen) {
        return rows;
    }
    let near = rows & RowSet::range(0..64);
    if near.is_empty() { rows } else { near }
}

/// Computes all that a recipe writes, and hands each write to `ask`. `fetched` holds what the recipe reads.
#[inline(always)]
pub(crate) fn compute(
    recipe: &Recipe,
    geometry: &Geometry,
    content: Content,
    fetched: &mut Fetched,
    ask: impl FnMut(&Write, WriteBufs),
) {
    let (chunk_bytes, data_columns) = (geometry.chunk_bytes(), geometry.data_columns());
    match content {
        Content::Span(span, Data::One(buf)) => {
            let new = NewData { span, chunk_bytes, content: OneBuf(Some(buf)) };
            compute_from(recipe, data_columns, new, fetched, ask);
        }
        Content::Span(span, Data::Blocks(bufs)) => {
            let new = NewData { span, chunk_bytes, content: &bufs[..] };
            compute_from(recipe, data_columns, new, fetched, ask);
        }
        Content::Cells(cells, _) => compute_from(recipe, data_columns, cells, fetched, ask),
    }
}

fn compute_from<N: New>(
    recipe: &Recipe,
    data_columns: usize,
    new: N,
    fetched: &mut Fetched,
    ask: impl FnMut(&Write, WriteBufs),
) {
    match simple::sum_of(recipe) {
        Some(sum) => simple::compute(recipe, sum, data_columns, new, fetched, ask),
        None => general::compute_any(recipe, data_columns, new, fetched, ask),
    }
}

#[cfg(test)]
mod tests;
