//! A stripe whose rows are all in the same state, as those of small writes are: both cycles are priced in one pass.

use super::{
    MARGIN,
    left::Left,
    price::{Asked, Price},
};
use crate::{
    plan::{
        Band, Cycle, Estimate, StripeState,
        costs::{ColumnCosts, Visit},
        selection::OneColumn,
    },
    shape::rows::RowSet,
};

/// Chooses the cycle of a stripe's only band, which is free.
pub(super) fn choose(stripe: &StripeState, costs: &dyn ColumnCosts, left: &Left, band: &mut Band) {
    let row = band.rows.first().unwrap_or(0);
    let columns = stripe.columns.iter().enumerate();
    let asked = columns.map(|(index, column)| Asked::of(column, row, index >= stripe.data_columns));
    let (rmw_ns, rcw_ns) = prices_ns(asked, costs, &Visit::to(band.rows));
    band.estimate = Some(Estimate { rmw_ns: rmw_ns as u64, rcw_ns: rcw_ns as u64 });
    band.cycle = cheaper((band.rmw, band.rcw), (rmw_ns, rcw_ns), left, costs.parity_member());
}

/// The same of a write to one column.
pub(super) fn cycle_of(write: &OneColumn, costs: &dyn ColumnCosts, left: &Left) -> Cycle {
    let OneColumn { column, data_columns, parity_columns, rows } = write;
    let asked = (0..data_columns + parity_columns).map(|index| {
        let changes = index == *column || index >= *data_columns;
        Asked { rmw_reads: changes, rcw_reads: !changes, writes: changes }
    });
    let prices = prices_ns(asked, costs, &Visit::to(RowSet::range(rows.clone())));
    cheaper(write.counts(), prices, left, costs.parity_member())
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
fn prices_ns(asked: impl Iterator<Item = Asked>, costs: &dyn ColumnCosts, visit: &Visit) -> (f32, f32) {
    let (mut rmw, mut rcw) = (Price::default(), Price::default());
    for (index, asked) in asked.enumerate() {
        if asked.writes || asked.rmw_reads || asked.rcw_reads {
            let (cost, writes) = (costs.of(index), asked.writes.then_some(visit));
            rmw.add(&cost, asked.rmw_reads.then_some(visit), writes);
            rcw.add(&cost, asked.rcw_reads.then_some(visit), writes);
        }
    }
    (rmw.ns(), rcw.ns())
}
