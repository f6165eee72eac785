//! The steps of a stripe's write, and what it keeps while it waits.

use std::sync::Arc;

use smallvec::SmallVec;
use stripewise_device::{IoError, ReadDone, WriteFlags};

use super::{
    rows::RowGuard,
    wait::{Few, Requested},
};
use crate::{
    compute::Data,
    error::ArrayError,
    intent::{IntentGuard, KeptIntent},
    life::detached::Detached,
    locks::{KeptRows, Place},
    members::topology::Topology,
    mutants::{Mutant, lives},
    plan::Recipe,
    shape::{
        geometry::{StripeIndex, StripeSpan},
        rows::RowSet,
    },
};

/// Columns whose old content could not be read in this write.
pub(super) type Unreadable = SmallVec<[usize; 2]>;

/// A stripe's part of a write, with the bytes of that part alone.
pub(super) struct StripeWrite {
    pub(super) span: StripeSpan,
    pub(super) data: Data,
    pub(super) flags: WriteFlags,
}

impl StripeWrite {
    /// Where it goes; `leads` tells whether it begins its request.
    pub(super) fn place(&self, leads: bool) -> Place {
        let StripeSpan { stripe, start, len, .. } = self.span;
        Place { stripe, bytes: start..start + len, leads }
    }
}

/// How far a stripe's write came without waiting.
pub(super) enum Progress {
    Done(Result<(), ArrayError>),
    Waits(Rest),
}

/// The rows and the region that a write holds.
pub(super) type Guards<'a> = (RowGuard<'a>, Option<IntentGuard<'a>>);

/// What is left of a stripe's write that must wait for something, by what the write holds.
pub(super) enum Rest {
    /// Nothing: it is gathered with others, and another task writes them.
    Gathered(Detached<Result<(), ArrayError>>),
    /// Nothing: it lies behind a write under way, and others may be gathered with it.
    Behind(StripeWrite, Place),
    /// Nothing: other writes have its rows.
    Rows(StripeWrite),
    /// Its rows; its region must still be marked.
    Region(StripeWrite, KeptRows),
    /// Rows and region.
    Begun(Held, Begun),
}

/// How far a stripe's write came once it had its rows and its region.
pub(super) enum Begun {
    /// No recipe could be made: too much of what it reads is missing.
    Plan(StripeWrite),
    /// It waits for members.
    Work(Box<Work>),
}

/// Rows and region of a write.
pub(super) struct Held {
    pub(super) rows: KeptRows,
    pub(super) intent: Option<KeptIntent>,
}

impl Held {
    fn keep((rows, intent): Guards<'_>) -> Self {
        Self { rows: rows.keep(), intent: intent.map(IntentGuard::keep) }
    }
}

/// The rest of a write that holds its rows and its region.
pub(super) fn waits(guards: Guards<'_>, begun: Begun) -> Progress {
    Progress::Waits(Rest::Begun(Held::keep(guards), begun))
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

/// All of these rows; a mutant sees the first word of them only.
fn near_rows(rows: RowSet) -> RowSet {
    if !lives(Mutant::WideRowsUnseen) {
        return rows;
    }
    let near = rows & RowSet::range(0..64);
    if near.is_empty() { rows } else { near }
}

/// A stripe's write that has its recipe, and waits for members.
pub(super) struct Work {
    /// None once its data was taken.
    pub(super) write: Option<StripeWrite>,
    pub(super) stripe: StripeIndex,
    /// The topology that the recipe was made for.
    pub(super) topology: Arc<Topology>,
    pub(super) recipe: Recipe,
    pub(super) reads: Few<ReadDone>,
    pub(super) writes: Few<Result<(), IoError>>,
}

impl Work {
    pub(super) fn new(
        write: StripeWrite,
        topology: Arc<Topology>,
        recipe: Recipe,
        reads: Requested<ReadDone>,
    ) -> Self {
        let (stripe, reads) = (write.span.stripe, reads.into_iter().collect());
        Self { write: Some(write), stripe, topology, recipe, reads, writes: Few::new() }
    }
}
