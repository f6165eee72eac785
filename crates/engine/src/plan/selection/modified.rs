//! RAID4S-modified: every partly written row is a small write.

use std::sync::Arc;

use super::{
    by_counts::by_counts,
    policy::{Policy, WriteSelection},
    view::Stripe,
};
use crate::plan::{costs::ColumnCosts, matrix::Band};

pub(super) static POLICY: Policy = Policy {
    name: "modified",
    summary: "always RMW, full rows excepted (RAID4S-modified)",
    number: 3,
    make: || Arc::new(Modified),
};

/// Always RMW (raid4s-modthresh 3.1). Rows whose data is all new are full writes before any policy is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modified;

impl WriteSelection for Modified {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn choose(&self, _: &Stripe<'_>, _: &dyn ColumnCosts, bands: &mut [Band]) {
        by_counts(bands, |_, _| true);
    }
}
