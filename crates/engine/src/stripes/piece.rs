//! The part of a read that lies in one chunk.

use std::ops::Range;

use smallvec::SmallVec;

use crate::shape::geometry::{Geometry, StripeIndex};

/// Some bytes of one chunk.
pub(super) struct Piece {
    pub(super) stripe: StripeIndex,
    pub(super) column: usize,
    /// In the chunk.
    pub(super) bytes: Range<usize>,
}

impl Piece {
    /// The whole of a read that lies in one chunk, as most do.
    #[inline]
    pub(super) fn only(geometry: &Geometry, offset_bytes: u64, len: usize) -> Option<Self> {
        let (stripe_bytes, chunk_bytes) = (geometry.stripe_bytes(), geometry.chunk_bytes());
        let in_stripe = (offset_bytes % stripe_bytes) as usize;
        let (column, start) = (in_stripe / chunk_bytes, in_stripe % chunk_bytes);
        let stripe = StripeIndex(offset_bytes / stripe_bytes);
        let piece = Self { stripe, column, bytes: start..start + len };
        (len > 0 && piece.bytes.end <= chunk_bytes).then_some(piece)
    }

    /// The pieces of a read, in order.
    pub(super) fn all(geometry: &Geometry, offset_bytes: u64, len: usize) -> SmallVec<[Self; 8]> {
        let chunk = geometry.chunk_bytes();
        let spans = geometry.split(offset_bytes..offset_bytes + len as u64);
        spans
            .flat_map(|span| {
                span.columns(chunk).map(move |column| Self {
                    stripe: span.stripe,
                    column,
                    bytes: span.in_column(column, chunk).0,
                })
            })
            .collect()
    }

    /// Where it starts in its member's data.
    pub(super) fn member_offset(&self, geometry: &Geometry) -> u64 {
        geometry.chunk_start(self.stripe) + self.bytes.start as u64
    }
}
