//! Fewest reads, and fewest members where both ways read as many: md's rule at its `rmw_level` 2.

use std::sync::Arc;

use super::{Policy, Stripe, WriteSelection, by_counts};
use crate::plan::{Band, costs::ColumnCosts};

pub(super) static POLICY: Policy = Policy {
    name: "prefer-rmw",
    summary: "RMW where md counts no more reads for it than for RCW, as with md's rmw_level 2",
    number: 5,
    make: || Arc::new(PreferRmw),
};

/// RMW when `rmw <= rcw`. Where both read as many, RMW reads what it then writes, RCW the other columns: a
/// block of a level 6 array of six members asks three of them one way, and all six the other. In memory that
/// is half as many places, each of them in a cache when it is written. Drives share the work better by RCW.
#[derive(Debug, Clone, Copy, Default)]
pub struct PreferRmw;

impl WriteSelection for PreferRmw {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn choose(&self, _: &Stripe<'_>, _: &dyn ColumnCosts, bands: &mut [Band]) {
        by_counts(bands, |rmw, rcw| rmw <= rcw);
    }
}
