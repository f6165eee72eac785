//! What write selection decided, told to the trace.

use super::{
    Stripes,
    trace::{Decision, StripeWay},
};
use crate::{
    compute::CachedCells,
    destage::{Weighed, Why},
    plan::{Band, WriteSelection},
    shape::geometry::{Geometry, StripeIndex, StripeSpan},
};

impl Stripes {
    /// Keeps what was decided, for the trace.
    #[cold]
    pub(super) fn trace(
        &self,
        selection: &dyn WriteSelection,
        geometry: &Geometry,
        (span, is_destage): (&StripeSpan, bool),
        bands: &[Band],
    ) {
        let is_whole = span.len as u64 == geometry.stripe_bytes();
        let way = match self.cache() {
            _ if is_destage => StripeWay::Destage,
            None => StripeWay::Uncached,
            Some(_) if is_whole => StripeWay::Whole,
            Some(cache) => match cache.weighed() {
                Weighed { passes: false, why: Why::Cost | Why::Unknown, .. } => StripeWay::Sample,
                Weighed { why, .. } => StripeWay::Past(why),
            },
        };
        self.tell(selection, geometry, (span, way), bands);
    }

    /// Tells what was decided for a write that came this way.
    pub(super) fn tell(
        &self,
        selection: &dyn WriteSelection,
        geometry: &Geometry,
        (span, way): (&StripeSpan, StripeWay),
        bands: &[Band],
    ) {
        self.tracer.tell(|number| Decision {
            number,
            at: self.life.env().now(),
            stripe: span.stripe.0,
            offset_bytes: span.stripe.0 * geometry.stripe_bytes() + span.start as u64,
            len_bytes: span.len as u64,
            way,
            policy: selection.policy().name,
            bands: bands.into(),
        });
    }
}

/// From where on cells are new, and how many bytes.
pub(super) fn spread_of(stripe: StripeIndex, cells: &CachedCells, chunk_bytes: usize) -> StripeSpan {
    let mut start = usize::MAX;
    let mut len = 0;
    for (column, _) in cells.columns() {
        for bytes in cells.new_ranges(column) {
            start = start.min(column * chunk_bytes + bytes.start);
            len += bytes.len();
        }
    }
    StripeSpan { stripe, start, len, request_offset: 0 }
}
