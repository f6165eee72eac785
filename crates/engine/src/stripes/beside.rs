//! What is dirty in the stripes before and behind one that is destaged. On each member their chunks touch the one between them:
//! gaps that reach from one into the next are filled from both sides, each by the destage of its stripe. So nothing beside the
//! stripe is locked, and what is known of the others may be out of date: then a part of a gap is filled in vain.

use smallvec::SmallVec;

use crate::{
    cache::Cache,
    plan::passes::Edges,
    shape::{
        geometry::{Geometry, StripeIndex},
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// The stripes before and behind, where something of them is dirty.
pub(super) struct Beside([Option<Neighbour>; 2]);

struct Neighbour {
    stripe: StripeIndex,
    /// Dirty rows of the data columns.
    columns: SmallVec<[RowSet; 8]>,
}

impl Neighbour {
    fn of(cache: &Cache, geometry: &Geometry, stripe: Option<u64>) -> Option<Self> {
        let stripe = stripe.map(StripeIndex).filter(|stripe| stripe.0 < geometry.stripes())?;
        let columns = cache.dirty_columns(stripe);
        columns.iter().any(|rows| !rows.is_empty()).then_some(Self { stripe, columns })
    }

    /// All dirty rows: so many have their parity written.
    fn rows(&self) -> RowSet {
        self.columns.iter().fold(RowSet::EMPTY, |all, rows| all | *rows)
    }
}

impl Beside {
    /// Those of a stripe.
    pub(super) fn new(cache: &Cache, geometry: &Geometry, stripe: StripeIndex) -> Self {
        let of = |stripe| Neighbour::of(cache, geometry, stripe);
        Self([of(stripe.0.checked_sub(1)), of(stripe.0.checked_add(1))])
    }

    /// The edges of the stripe as a whole: no member's gaps are shorter.
    pub(super) fn of_stripe(&self, geometry: &Geometry) -> Edges {
        self.edges(geometry, Neighbour::rows)
    }

    /// The edges of a column of a stripe.
    pub(super) fn of_column(&self, geometry: &Geometry, stripe: StripeIndex, column: usize) -> Edges {
        let member = geometry.member_of(stripe, column);
        self.edges(geometry, |neighbour| {
            let column = geometry.column_of(neighbour.stripe, member);
            neighbour.columns.get(column).copied().unwrap_or_else(|| neighbour.rows())
        })
    }

    fn edges(&self, geometry: &Geometry, rows: impl Fn(&Neighbour) -> RowSet) -> Edges {
        let [before, behind] = self.0.each_ref().map(|one| one.as_ref().map_or(RowSet::EMPTY, &rows));
        Edges::between(geometry.chunk_bytes() / BLOCK_BYTES, before, behind)
    }
}
