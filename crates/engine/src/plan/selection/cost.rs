//! What the papers leave as future work: the choice by exact extents and by what members are measured to cost.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Policy, WriteSelection};
use crate::{
    plan::{
        Band, Cycle, Estimate, StripeState,
        costs::{ColumnCosts, MemberCost, ServiceTime},
    },
    rows::RowSet,
};

pub(super) static POLICY: Policy = Policy {
    name: "cost",
    summary: "whichever costs less, by exact extents and what each member is measured to take",
    number: 4,
    make: || Arc::new(Cost),
};

/// Estimates what each cycle costs and takes the cheaper (raid4s-modthresh 4.3 asks for this).
///
/// What counts is when the write would finish, plus what it takes from others: the work that it gives each member,
/// for as many requests as wait there. So a busy member's time is dear and an idle one's is nearly free, which is what
/// makes parity on an SSD cheap. The rows of a stripe are looked at together: two bands of one stripe that choose
/// alike read the same columns in one run, which is why `modified` is ahead of `modthresh` just past half a stripe.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost;

impl WriteSelection for Cost {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn needs_costs(&self) -> bool {
        true
    }

    fn choose(&self, stripe: &StripeState, costs: &dyn ColumnCosts, bands: &mut [Band]) {
        if bands.iter().any(|band| band.free) {
            Weighing::new(stripe, costs, bands).choose(bands);
        }
    }
}

/// A column that the write reads or writes.
struct Weighed {
    cost: MemberCost,
    /// Rows that an RMW reads: dirty ones, or parity.
    rmw_reads: RowSet,
    /// Rows that an RCW reads: what is not wholly new.
    rcw_reads: RowSet,
    /// Nanoseconds to write the column's rows where nothing was just read, and where it was; none if it is not written.
    writes_ns: Option<[f32; 2]>,
}

/// The stripe's columns, and the rows whose cycle is settled.
struct Weighing {
    columns: SmallVec<[Weighed; 8]>,
    fixed_rmw: RowSet,
    fixed_rcw: RowSet,
}

impl Weighing {
    fn new(stripe: &StripeState, costs: &dyn ColumnCosts, bands: &[Band]) -> Self {
        let rows = bands.iter().fold(RowSet::EMPTY, |all, band| all | band.rows);
        let settled = |cycle: Cycle| {
            let bands = bands.iter().filter(|band| !band.free && band.cycle == cycle);
            bands.fold(RowSet::EMPTY, |all, band| all | band.rows)
        };
        let columns = stripe.columns.iter().enumerate().map(|(index, column)| {
            let is_data = index < stripe.data_columns;
            let cost = costs.of(index);
            let readable = if column.readable() { rows - column.clean } else { RowSet::EMPTY };
            let whole = column.dirty - column.partial;
            let written = match column.writable() {
                false => RowSet::EMPTY,
                true if is_data => column.dirty,
                true => rows,
            };
            let write_ns = |time: ServiceTime| time.fixed_ns + time.rows_ns(written);
            let writes_ns = (!written.is_empty()).then(|| [write_ns(cost.write), write_ns(cost.rewrite)]);
            Weighed {
                cost,
                rmw_reads: if is_data { readable & column.dirty } else { readable },
                rcw_reads: if is_data { readable - whole } else { RowSet::EMPTY },
                writes_ns,
            }
        });
        Self { columns: columns.collect(), fixed_rmw: settled(Cycle::Rmw), fixed_rcw: settled(Cycle::Rcw) }
    }

    /// Starts with the better of all bands alike, then turns over each band that is better off on its own.
    fn choose(&self, bands: &mut [Band]) {
        let free = bands.iter().filter(|band| band.free).fold(RowSet::EMPTY, |all, band| all | band.rows);
        let (all_rmw, all_rcw) = (self.price_ns(free, RowSet::EMPTY), self.price_ns(RowSet::EMPTY, free));
        let mut rmw = if all_rmw <= all_rcw { free } else { RowSet::EMPTY };
        let mut best = all_rmw.min(all_rcw);
        let alone = bands.iter().filter(|band| band.free).count() == 1;
        for band in bands.iter_mut().filter(|band| band.free) {
            let is_rmw = rmw.intersects(&band.rows);
            let other = match alone {
                true => all_rmw.max(all_rcw),
                false => {
                    let turned = if is_rmw { rmw - band.rows } else { rmw | band.rows };
                    self.price_ns(turned, free - turned)
                }
            };
            let stays = best <= other;
            let (rmw_ns, rcw_ns) = if is_rmw { (best, other) } else { (other, best) };
            band.estimate = Some(Estimate { rmw_ns: rmw_ns as u64, rcw_ns: rcw_ns as u64 });
            if !stays {
                rmw = if is_rmw { rmw - band.rows } else { rmw | band.rows };
                best = other;
            }
            band.cycle = if is_rmw == stays { Cycle::Rmw } else { Cycle::Rcw };
        }
    }

    /// The price of the stripe's write with these rows by RMW and those by RCW.
    fn price_ns(&self, rmw: RowSet, rcw: RowSet) -> f32 {
        let (rmw, rcw) = (rmw | self.fixed_rmw, rcw | self.fixed_rcw);
        let (mut read_end, mut write_end, mut from_others) = (0.0_f32, 0.0_f32, 0.0);
        for column in &self.columns {
            let MemberCost { read, write, queue, .. } = column.cost;
            let reads = column.rmw_reads & rmw | column.rcw_reads & rcw;
            let reads_there = !reads.is_empty();
            if reads_there {
                let ns = read.fixed_ns + read.rows_ns(reads);
                read_end = read_end.max(ns + queue * read.fixed_ns);
                from_others += queue * ns;
            }
            if let Some(writes_ns) = column.writes_ns {
                let ns = writes_ns[usize::from(reads_there)];
                write_end = write_end.max(ns + queue * write.fixed_ns);
                from_others += queue * ns;
            }
        }
        read_end + write_end + from_others
    }
}
