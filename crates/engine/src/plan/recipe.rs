//! The recipe: what is read, computed and written in one stripe. It is the only thing that is executed.
//!
//! A plan says in sets of rows what a write does. Selection and passes need that form, which takes a kilobyte
//! and a half. A recipe says the same in runs of rows and in bytes, in the order of execution, and takes a
//! third of that. [`lower`] makes a recipe from a plan. Quick planners make the commonest recipes without a
//! plan, and a property test compares them with those of `lower`. Reads around lost columns, healing, repair,
//! rebuild and zeroes need no plan: their recipes are made directly.

use std::ops::Range;

use smallvec::SmallVec;

use super::{
    matrix::{Band, Cycle, Plan},
    passes::Filled,
    state::{Redundancy, StripeState},
};
use crate::shape::rows::{BLOCK_BYTES, ROWS_MAX, RowSet};

/// Consecutive numbers of rows or columns: a range in four bytes that can be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The first.
    pub start: u16,
    /// The first after them.
    pub end: u16,
}

impl Span {
    /// As a range.
    pub fn range(self) -> Range<usize> {
        self.start.into()..self.end.into()
    }

    /// How many.
    pub fn count(self) -> usize {
        usize::from(self.end - self.start)
    }

    /// How many of them are also in another span.
    pub fn overlap(self, other: Self) -> usize {
        usize::from(self.end.min(other.end).saturating_sub(self.start.max(other.start)))
    }

    /// The bytes of a chunk that these rows cover.
    pub fn bytes(self) -> Range<usize> {
        usize::from(self.start) * BLOCK_BYTES..usize::from(self.end) * BLOCK_BYTES
    }

    /// The rows that bytes of a chunk touch.
    pub fn touching(bytes: &Range<usize>) -> Self {
        Self::from(bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES))
    }
}

impl From<Range<usize>> for Span {
    /// Of a stripe's rows or columns, of which there are 256 at most.
    fn from(range: Range<usize>) -> Self {
        let number =
            |number: usize| u16::try_from(number).expect("a stripe has 256 rows and columns at most");
        Self { start: number(range.start), end: number(range.end) }
    }
}

/// Some rows of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells {
    /// The column: data, then P, then Q.
    pub column: u16,
    /// The rows.
    pub rows: Span,
}

/// Which parity is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parity {
    /// The XOR of the data columns.
    P,
    /// Their sum weighted with powers of two in GF(2^8).
    Q,
    /// Both.
    PAndQ,
}

impl Parity {
    /// The parity of P and Q, as far as they are wanted.
    pub(crate) fn of(p: bool, q: bool) -> Option<Self> {
        match (p, q) {
            (true, true) => Some(Self::PAndQ),
            (true, false) => Some(Self::P),
            (false, true) => Some(Self::Q),
            (false, false) => None,
        }
    }

    /// Its columns, counted from the first column after the data columns.
    pub(crate) fn columns(self) -> Range<usize> {
        match self {
            Self::P => 0..1,
            Self::Q => 1..2,
            Self::PAndQ => 0..2,
        }
    }
}

/// How parity is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// From the content that all data columns will have.
    Make,
    /// From old parity, and the old and new content of these data columns.
    Update(Span),
}

/// Parity of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// The rows: in all of them the same columns are new, and the same are joined.
    pub rows: Span,
    /// Which parity is computed.
    pub parity: Parity,
    /// How it is computed.
    pub how: How,
}

/// Where the bytes of a write come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// They are new data of this column (of a mirror: of the one data column).
    New(u16),
    /// New data, in the recipe's [joined](Recipe::joins) blocks old data too, and in its [filled](Recipe::fills) blocks
    /// old data alone.
    Joined,
    /// They are what this column holds: it was read or recovered. Any mirror holds the same as the others.
    Old(u16),
    /// They are parity that was computed.
    Sum,
    /// They are zeroes.
    Zeroes,
}

/// Consecutive bytes of one column that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The column.
    pub column: u16,
    /// Where they start in its chunk.
    pub start: u32,
    /// How many there are.
    pub len: u32,
    /// Where they come from.
    pub from: Source,
    /// Some of the column's chunk has just been read.
    pub is_rewrite: bool,
    /// It is the first write of its column.
    pub is_first: bool,
}

impl Write {
    /// The bytes of the chunk.
    pub fn bytes(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }

    pub(crate) fn of(column: usize, bytes: &Range<usize>, from: Source, is_rewrite: bool) -> Self {
        let (start, len) = (bytes.start as u32, bytes.len() as u32);
        Self { column: column as u16, start, len, from, is_rewrite, is_first: true }
    }
}

/// Rows that are written by the same cycle: for the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleRows {
    /// The cycle.
    pub cycle: Cycle,
    /// The rows.
    pub rows: Span,
}

/// What is done in one stripe, in this order. Its columns are data, then P, then Q (or mirrors).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recipe {
    /// What is read.
    pub reads: SmallVec<[Cells; 8]>,
    /// Rows in which the data columns that were not read are recovered from the columns that were.
    pub recovers: SmallVec<[Span; 2]>,
    /// Blocks of data columns in which new content is joined with old content, which was read or recovered.
    pub joins: SmallVec<[Cells; 2]>,
    /// Blocks of data columns that are written as they were read, since they lie between others. Such blocks of parity
    /// columns are those that no sum covers.
    pub fills: SmallVec<[Cells; 2]>,
    /// What is done only to fill gaps.
    pub filled: Filled,
    /// Parity that is computed.
    pub sums: SmallVec<[Sum; 4]>,
    /// What is written, ordered by column and place.
    pub writes: SmallVec<[Write; 8]>,
    /// The rows by cycle, in order.
    pub cycles: SmallVec<[CycleRows; 4]>,
}

/// Makes the recipe of a plan. `new_bytes` tells which bytes of a data column's chunk are new, in order.
pub fn lower<R: IntoIterator<Item = Range<usize>>>(
    plan: &Plan,
    state: &StripeState,
    new_bytes: impl Fn(usize) -> R,
) -> Recipe {
    let mut recipe = Recipe::default();
    for (column, ops) in plan.columns.iter().enumerate() {
        let cells = |rows: Range<usize>| Cells { column: column as u16, rows: rows.into() };
        recipe.reads.extend(ops.reads().runs().map(cells));
    }
    for band in &plan.bands {
        recipe.cycles.extend(band.rows.runs().map(|rows| CycleRows { cycle: band.cycle, rows: rows.into() }));
        if band.cycle == Cycle::Recover {
            recipe.recovers.extend(band.rows.runs().map(Span::from));
        }
        if band.cycle != Cycle::Direct {
            add_joins(&mut recipe, state, band);
            add_sums(&mut recipe, plan, state, band);
        }
    }
    recipe.cycles.sort_unstable_by_key(|cycle| cycle.rows.start);
    recipe.sums.sort_by_key(|sum| sum.rows.start);
    recipe.joins.sort_unstable_by_key(|join| (join.column, join.rows.start));
    add_writes(&mut recipe, plan, state, new_bytes);
    recipe
}

fn add_joins(recipe: &mut Recipe, state: &StripeState, band: &Band) {
    for (column, of) in state.data().iter().enumerate() {
        let joined = (band.rows & of.partial).runs().flatten();
        recipe.joins.extend(joined.map(|row| Cells { column: column as u16, rows: (row..row + 1).into() }));
    }
}

fn add_sums(recipe: &mut Recipe, plan: &Plan, state: &StripeState, band: &Band) {
    let has =
        |parity: usize| plan.columns.get(state.data_columns + parity).is_some_and(|c| !c.dest.is_empty());
    let Some(parity) = Parity::of(has(0), has(1)) else { return };
    // All rows of a sum must have the same columns joined.
    let height = if band.partial { 1 } else { ROWS_MAX };
    for run in band.rows.runs() {
        for start in run.clone().step_by(height) {
            let rows = Span::from(start..run.end.min(start + height));
            let sum = |how| Sum { rows, parity, how };
            if band.cycle == Cycle::Rmw {
                recipe.sums.extend(dirty_columns(state, start).map(|columns| sum(How::Update(columns))));
            } else {
                recipe.sums.push(sum(How::Make));
            }
        }
    }
}

/// The data columns that are dirty in a row, in runs.
fn dirty_columns(state: &StripeState, row: usize) -> impl Iterator<Item = Span> {
    let dirty = (0..state.data_columns).filter(|column| state.columns[*column].dirty.contains(row));
    let columns = dirty.fold(RowSet::EMPTY, |all, column| all | RowSet::range(column..column + 1));
    columns.runs().map(Span::from)
}

fn add_writes<R: IntoIterator<Item = Range<usize>>>(
    recipe: &mut Recipe,
    plan: &Plan,
    state: &StripeState,
    new_bytes: impl Fn(usize) -> R,
) {
    for (column, ops) in plan.columns.iter().enumerate().filter(|(_, ops)| !ops.w.is_empty()) {
        let is_rewrite = !ops.reads().is_empty();
        let is_exact = |band: &Band| band.cycle == Cycle::Direct && band.rows.intersects(&ops.w);
        if column < state.data_columns || state.redundancy == Redundancy::Mirrors {
            // Mirrors are written as the one data column is.
            let of = if column < state.data_columns { column } else { 0 };
            if plan.bands.iter().any(is_exact) {
                for (number, bytes) in new_bytes(of).into_iter().enumerate() {
                    let write = Write::of(column, &bytes, Source::New(of as u16), is_rewrite);
                    recipe.writes.push(Write { is_first: number == 0, ..write });
                }
                continue;
            }
        }
        let filled = match state.data().get(column) {
            Some(of) => ops.w - of.dirty - of.clean,
            None => RowSet::EMPTY,
        };
        recipe.fills.extend(filled.runs().map(|rows| Cells { column: column as u16, rows: rows.into() }));
        for rows in ops.w.runs() {
            let overlaps = |cells: &Cells| {
                usize::from(cells.column) == column && cells.rows.overlap(rows.clone().into()) > 0
            };
            let from = match column {
                _ if column >= state.data_columns => Source::Sum,
                _ if recipe.joins.iter().chain(&recipe.fills).any(overlaps) => Source::Joined,
                _ => Source::New(column as u16),
            };
            let is_first = recipe.writes.last().is_none_or(|last| usize::from(last.column) != column);
            let write = Write::of(column, &Span::from(rows).bytes(), from, is_rewrite);
            recipe.writes.push(Write { is_first, ..write });
        }
    }
}
