//! The steps of a stripe's write, and what it keeps while it waits.

use std::sync::Arc;

use smallvec::SmallVec;
use stripewise_device::{IoError, ReadDone, WriteFlags};

use super::{
    rows::RowGuard,
    wait::{Few, Requested},
};
use crate::{
    cache::Ending,
    compute::{CachedCells, CellsOf, Content, Data},
    error::ArrayError,
    intent::{IntentGuard, KeptIntent},
    life::detached::Detached,
    locks::{KeptRows, Place},
    members::{stats::Cause, topology::Topology},
    plan::{Recipe, recipe::Span},
    shape::geometry::{StripeIndex, StripeSpan},
};

/// Columns whose old content could not be read in this write.
pub(super) type Unreadable = SmallVec<[usize; 2]>;

/// What is written to a stripe: a client's part there, or what a cache destages.
pub(super) struct StripeWrite {
    pub(super) stripe: StripeIndex,
    pub(super) content: Content,
    pub(super) flags: WriteFlags,
    /// What the cache must be told before the rows are let go of.
    pub(super) ending: Option<Box<Ending>>,
}

impl StripeWrite {
    /// A client's part, with the bytes of that part alone.
    #[inline]
    pub(super) fn of(span: StripeSpan, data: Data, flags: WriteFlags) -> Self {
        Self { stripe: span.stripe, content: Content::Span(span, data), flags, ending: None }
    }

    /// Blocks of a client, and their rows if they are all blocks of consecutive rows.
    pub(super) fn of_blocks(stripe: StripeIndex, cells: Arc<CachedCells>, rows: Option<Span>) -> Self {
        let content = Content::Cells(cells, CellsOf::Client(rows));
        Self { stripe, content, flags: WriteFlags::default(), ending: None }
    }

    /// Why members work for it.
    #[inline]
    pub(super) fn cause(&self, guards: &Guards<'_>) -> Cause {
        match (&self.content, &guards.ending) {
            (Content::Cells(_, CellsOf::Cache(_)), _) => Cause::Destage,
            (Content::Cells(_, CellsOf::Client(Some(_))), _) => Cause::Whole,
            (Content::Cells(_, CellsOf::Client(None)), _) => Cause::Part,
            // The cache must be told of whole stripes only.
            (Content::Span(..), Some(_)) => Cause::Whole,
            (Content::Span(..), None) => Cause::Part,
        }
    }

    /// Where a client's part lies, and its bytes.
    pub(super) fn client_part(&self) -> (&StripeSpan, &Data) {
        match &self.content {
            Content::Span(span, data) => (span, data),
            Content::Cells(..) => unreachable!("cells are no part that is put into a cache"),
        }
    }

    /// Where a client's part goes; `leads` tells whether it begins its request.
    #[inline]
    pub(super) fn place(&self, leads: bool) -> Place {
        let (span, _) = self.client_part();
        Place { stripe: self.stripe, bytes: span.start..span.start + span.len, leads }
    }
}

/// How far a stripe's write came without waiting.
pub(super) enum Progress {
    Done(Result<(), ArrayError>),
    Waits(Rest),
}

/// What a write holds.
pub(super) struct Guards<'a> {
    /// First, so that the cache knows of the end before others get the rows.
    pub(super) ending: Option<Box<Ending>>,
    pub(super) rows: RowGuard<'a>,
    pub(super) region: Option<IntentGuard<'a>>,
}

impl Guards<'_> {
    /// All was written.
    #[inline(always)]
    pub(super) fn succeed(&mut self) {
        if let Some(ending) = &mut self.ending {
            ending.succeed();
        }
    }
}

/// What is left of a stripe's write that must wait for something, by what the write holds.
pub(super) enum Rest {
    /// Nothing: it is gathered with others, and another task writes them.
    Gathered(Detached<Result<(), ArrayError>>),
    /// Nothing: it lies behind a write under way, and others may be gathered with it. If none are, it goes on as this.
    Behind(StripeWrite, Place, fn(StripeWrite) -> Self),
    /// Nothing: it must be put into the cache.
    Cached(StripeWrite),
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
    pub(super) ending: Option<Box<Ending>>,
}

impl Held {
    fn keep(Guards { ending, rows, region }: Guards<'_>) -> Self {
        Self { rows: rows.keep(), intent: region.map(IntentGuard::keep), ending }
    }
}

/// The rest of a write that holds its rows and its region.
pub(super) fn waits(guards: Guards<'_>, begun: Begun) -> Progress {
    Progress::Waits(Rest::Begun(Held::keep(guards), begun))
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
        let (stripe, reads) = (write.stripe, reads.into_iter().collect());
        Self { write: Some(write), stripe, topology, recipe, reads, writes: Few::new() }
    }
}
