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
    /// Its bytes were copied from the cache.
    pub(super) is_cached: bool,
}

impl Piece {
    /// Bytes of a chunk that nothing is known of yet.
    #[inline]
    pub(super) fn of(stripe: StripeIndex, column: usize, bytes: Range<usize>) -> Self {
        Self { stripe, column, bytes, is_cached: false }
    }

    /// The whole of a read that lies in one chunk, as most do.
    #[inline]
    pub(super) fn only(geometry: &Geometry, offset_bytes: u64, len: usize) -> Option<Self> {
        let (stripe_bytes, chunk_bytes) = (geometry.stripe_bytes(), geometry.chunk_bytes());
        let in_stripe = (offset_bytes % stripe_bytes) as usize;
        let (column, start) = (in_stripe / chunk_bytes, in_stripe % chunk_bytes);
        let stripe = StripeIndex(offset_bytes / stripe_bytes);
        let piece = Self::of(stripe, column, start..start + len);
        (len > 0 && piece.bytes.end <= chunk_bytes).then_some(piece)
    }

    /// The pieces of a read, in order.
    pub(super) fn all(geometry: &Geometry, offset_bytes: u64, len: usize) -> SmallVec<[Self; 8]> {
        let chunk = geometry.chunk_bytes();
        let spans = geometry.split(offset_bytes..offset_bytes + len as u64);
        spans
            .flat_map(|span| {
                span.columns(chunk)
                    .map(move |column| Self::of(span.stripe, column, span.in_column(column, chunk).0))
            })
            .collect()
    }

    /// Where it starts in its member's data.
    pub(super) fn member_offset(&self, geometry: &Geometry) -> u64 {
        geometry.chunk_start(self.stripe) + self.bytes.start as u64
    }
}
