//! What is in hand before a stripe is written: msc-ct's matrix Z, by column, as bit sets.

use smallvec::SmallVec;

use crate::shape::{
    geometry::{Geometry, Level, StripeSpan},
    rows::RowSet,
};

/// Whether a column's member can be used in this stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Readable and writable.
    Present,
    /// Its old content cannot be read (a medium error), but it can be written, which heals it.
    Unreadable,
    /// No member holds this column.
    Missing,
}

/// One column of Z. A cell that is in neither set is Empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnState {
    /// Whether the member can be used.
    pub presence: Presence,
    /// Dirty cells: new content is in hand, wholly or in part.
    pub dirty: RowSet,
    /// The dirty cells of which only a part is new.
    pub partial: RowSet,
    /// Clean cells: content that equals the member's is in hand.
    pub clean: RowSet,
}

impl ColumnState {
    /// A column with nothing in hand.
    pub fn empty(presence: Presence) -> Self {
        Self { presence, dirty: RowSet::EMPTY, partial: RowSet::EMPTY, clean: RowSet::EMPTY }
    }

    /// Whether the member can be written.
    pub fn writable(&self) -> bool {
        self.presence != Presence::Missing
    }

    /// Whether the member can be read.
    pub fn readable(&self) -> bool {
        self.presence == Presence::Present
    }
}

/// What the redundant columns hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redundancy {
    /// There are none (level 0).
    #[default]
    None,
    /// Copies of the data column (level 1).
    Mirrors,
    /// P, and Q if there are two.
    Parity {
        /// Whether parity is known to agree with the data; if not (a resync is due), RMW would keep the
        /// error.
        trusted: bool,
    },
}

/// The state of one stripe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StripeState {
    /// Data columns, then redundant ones.
    pub columns: SmallVec<[ColumnState; 8]>,
    /// How many of them are data.
    pub data_columns: usize,
    /// What the redundant columns hold.
    pub redundancy: Redundancy,
}

impl StripeState {
    /// The state for one contiguous write without a cache.
    pub fn for_write(
        geometry: &Geometry,
        span: &StripeSpan,
        parity_trusted: bool,
        presence: impl Fn(usize) -> Presence,
    ) -> Self {
        let mut state = Self::default();
        state.set_for_write(geometry, span, parity_trusted, presence);
        state
    }

    /// As [`StripeState::for_write`], but fills an empty state in place: states are large.
    pub(crate) fn set_for_write(
        &mut self,
        geometry: &Geometry,
        span: &StripeSpan,
        parity_trusted: bool,
        presence: impl Fn(usize) -> Presence,
    ) {
        self.set_empty(geometry, parity_trusted, presence);
        for column in span.columns(geometry.chunk_bytes()) {
            let (bytes, _) = span.in_column(column, geometry.chunk_bytes());
            let dirty = RowSet::touching(bytes.clone());
            self.columns[column].dirty = dirty;
            self.columns[column].partial = dirty - RowSet::covered(bytes);
        }
    }

    /// Fills an empty state with columns of which nothing is in hand.
    pub(crate) fn set_empty(
        &mut self,
        geometry: &Geometry,
        parity_trusted: bool,
        presence: impl Fn(usize) -> Presence,
    ) {
        self.data_columns = geometry.data_columns();
        self.redundancy = match geometry.level() {
            Level::Raid0 => Redundancy::None,
            Level::Raid1 => Redundancy::Mirrors,
            Level::Raid4 | Level::Raid5 | Level::Raid6 => Redundancy::Parity { trusted: parity_trusted },
        };
        for column in 0..geometry.members() {
            self.columns.push(ColumnState::empty(presence(column)));
        }
    }

    /// The data columns.
    pub fn data(&self) -> &[ColumnState] {
        &self.columns[..self.data_columns]
    }

    /// The redundant columns.
    pub fn redundant(&self) -> &[ColumnState] {
        &self.columns[self.data_columns..]
    }

    /// Rows in which anything is dirty.
    pub fn dirty_rows(&self) -> RowSet {
        self.data().iter().fold(RowSet::EMPTY, |all, column| all | column.dirty)
    }
}
