//! RAID4S-modthresh: half of the data columns still count as a small write.

use std::sync::Arc;

use super::{
    by_counts::by_counts,
    policy::{Policy, WriteSelection},
    view::Stripe,
};
use crate::plan::{costs::ColumnCosts, matrix::Band};

pub(super) static POLICY: Policy = Policy {
    name: "modthresh",
    summary: "RMW also where it reads one block more than RCW (RAID4S-modthresh)",
    number: 2,
    make: || Arc::new(ModThresh),
};

/// RMW when `rmw <= rcw + 1` (raid4s-modthresh 3.2). The additional block is parity, which a RAID4S array
/// reads from its SSD. With 4+1 members, a row of two dirty blocks becomes an RMW.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModThresh;

impl WriteSelection for ModThresh {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn choose(&self, _: &Stripe<'_>, _: &dyn ColumnCosts, bands: &mut [Band]) {
        by_counts(bands, |rmw, rcw| rmw <= rcw + 1);
    }
}
