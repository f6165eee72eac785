//! Places of writes, rows that are wanted, and rows that are held.

use std::ops::Range;

use crate::shape::{geometry::StripeIndex, rows::RowSet};

/// Where a write to one stripe goes.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) stripe: StripeIndex,
    /// Its range in the stripe's data bytes.
    pub(crate) bytes: Range<usize>,
    /// It begins its request: bytes before it belong to another request.
    pub(crate) leads: bool,
}

/// Rows of a stripe that are wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) stripe: StripeIndex,
    pub(super) rows: RowSet,
    /// How many client requests want them.
    pub(super) parts: u32,
    /// Where a write ends in the stripe's data bytes.
    pub(super) end: Option<usize>,
    /// The ticket that the write was given beforehand.
    pub(super) ticket: Option<u64>,
}

impl Wanted {
    /// What a client's write wants.
    pub(super) fn write(place: &Place, rows: RowSet) -> Self {
        Self { stripe: place.stripe, rows, parts: 1, end: Some(place.bytes.end), ticket: None }
    }
}

/// Rows that a request holds or will hold.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    pub(super) stripe: StripeIndex,
    pub(super) rows: RowSet,
    /// Tells the claims of a stripe apart.
    pub(super) ticket: u64,
    pub(super) parts: u32,
}
