//! md's rule.

use std::sync::Arc;

use super::{
    by_counts::by_counts,
    policy::{Policy, WriteSelection},
    view::Stripe,
};
use crate::plan::{costs::ColumnCosts, matrix::Band};

pub(super) static POLICY: Policy = Policy {
    name: "classic",
    summary: "RMW where it reads fewer blocks than RCW, as md",
    number: 1,
    make: || Arc::new(Classic),
};

/// RMW when it reads fewer blocks (md's `handle_stripe_dirtying`; raid4s-modthresh 2.2.2, Fig. 8). Without
/// cached blocks this is msc-ct II-A: RMW iff 2(1+d) < N - c.
#[derive(Debug, Clone, Copy, Default)]
pub struct Classic;

impl WriteSelection for Classic {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn choose(&self, _: &Stripe<'_>, _: &dyn ColumnCosts, bands: &mut [Band]) {
        by_counts(bands, |rmw, rcw| rmw < rcw);
    }
}
