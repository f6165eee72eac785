//! A stripe whose rows are all in the same state, as with small writes: both cycles are priced in one pass.

use super::{
    left::Left,
    price::{MARGIN, Price},
};
use crate::plan::{
    costs::{ColumnCosts, Visit},
    matrix::{Band, Cycle, Estimate},
    selection::view::{Asked, Stripe},
};

/// Chooses the cycle of a stripe's only band, which is free.
pub(super) fn choose(stripe: &Stripe<'_>, costs: &dyn ColumnCosts, left: &Left, band: &mut Band) {
    let (rmw_ns, rcw_ns) = prices_ns(stripe, costs, band);
    band.estimate = Some(Estimate { rmw_ns: rmw_ns as u64, rcw_ns: rcw_ns as u64 });
    band.cycle = cheaper((band.rmw, band.rcw), (rmw_ns, rcw_ns), left, costs.parity_member());
}

/// RMW or RCW, by what they read and what they cost.
fn cheaper((rmw, rcw): (u32, u32), (rmw_ns, rcw_ns): (f32, f32), left: &Left, parity: usize) -> Cycle {
    let fewest_is_rmw = rmw < rcw;
    let (fewest_ns, other_ns) = if fewest_is_rmw { (rmw_ns, rcw_ns) } else { (rcw_ns, rmw_ns) };
    let is_left =
        if left.is_left(parity, (rmw, rcw)) { fewest_ns >= other_ns } else { other_ns < fewest_ns * MARGIN };
    left.note(parity, (rmw, rcw), is_left);
    if fewest_is_rmw != is_left { Cycle::Rmw } else { Cycle::Rcw }
}

/// What RMW and RCW cost, by what they ask of each column.
#[inline]
fn prices_ns(stripe: &Stripe<'_>, costs: &dyn ColumnCosts, band: &Band) -> (f32, f32) {
    let (visit, row) = (&Visit::to(band.rows), band.rows.first().unwrap_or(0));
    let (mut rmw, mut rcw) = (Price::default(), Price::default());
    for column in 0..stripe.columns() {
        let Asked { rmw_reads, rcw_reads, writes } = stripe.asked(column, row);
        if writes || rmw_reads || rcw_reads {
            let (cost, writes) = (costs.of(column), writes.then_some(visit));
            rmw.add(&cost, rmw_reads.then_some(visit), writes);
            rcw.add(&cost, rcw_reads.then_some(visit), writes);
        }
    }
    (rmw.ns(), rcw.ns())
}
