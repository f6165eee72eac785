//! Fewest reads, and fewest members if both cycles read equally many: md's rule at its `rmw_level` 2.

use std::sync::Arc;

use super::{
    by_counts::by_counts,
    policy::{Policy, WriteSelection},
    view::Stripe,
};
use crate::plan::{costs::ColumnCosts, matrix::Band};

pub(super) static POLICY: Policy = Policy {
    name: "prefer-rmw",
    summary: "RMW where md counts no more reads for it than for RCW, as with md's rmw_level 2",
    number: 5,
    make: || Arc::new(PreferRmw),
};

/// RMW when `rmw <= rcw`. If both read equally many blocks, RMW reads what it then writes, and RCW reads the
/// other columns. A write of one block to a level 6 array of six members uses three members with RMW and all
/// six with RCW. In memory, RMW touches half as many places, each of them in a cache when it is written.
/// Drives share the work better with RCW.
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
