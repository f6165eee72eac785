//! A stripe whose rows are all in the same state, as those of small writes are: both cycles are priced in one pass.

use super::{
    MARGIN,
    left::Left,
    price::{Asked, Price},
};
use crate::plan::{
    Band, Cycle, Estimate, StripeState,
    costs::{ColumnCosts, Visit},
};

/// Chooses the cycle of a stripe's only band, which is free.
pub(super) fn choose(stripe: &StripeState, costs: &dyn ColumnCosts, left: &Left, band: &mut Band) {
    let (rmw_ns, rcw_ns) = prices_ns(stripe, costs, band);
    let fewest_is_rmw = band.rmw < band.rcw;
    let (fewest_ns, other_ns) = if fewest_is_rmw { (rmw_ns, rcw_ns) } else { (rcw_ns, rmw_ns) };
    let parity = costs.parity_member();
    let is_left =
        if left.is_left(parity, band) { fewest_ns >= other_ns } else { other_ns < fewest_ns * MARGIN };
    left.note(parity, band, is_left);
    band.estimate = Some(Estimate { rmw_ns: rmw_ns as u64, rcw_ns: rcw_ns as u64 });
    band.cycle = if fewest_is_rmw != is_left { Cycle::Rmw } else { Cycle::Rcw };
}

fn prices_ns(stripe: &StripeState, costs: &dyn ColumnCosts, band: &Band) -> (f32, f32) {
    let (visit, row) = (Visit::to(band.rows), band.rows.first().unwrap_or(0));
    let (mut rmw, mut rcw) = (Price::default(), Price::default());
    for (index, column) in stripe.columns.iter().enumerate() {
        let asked = Asked::of(column, row, index >= stripe.data_columns);
        if asked.writes || asked.rmw_reads || asked.rcw_reads {
            let (cost, writes) = (costs.of(index), asked.writes.then_some(&visit));
            rmw.add(&cost, asked.rmw_reads.then_some(&visit), writes);
            rcw.add(&cost, asked.rcw_reads.then_some(&visit), writes);
        }
    }
    (rmw.ns(), rcw.ns())
}
