//! Columns that are mostly read are read in one request.

use super::{
    super::{
        matrix::{Cycle, Plan},
        state::StripeState,
    },
    ColumnStrides, Filled, Pass,
};
use crate::shape::rows::RowSet;

pub(super) static PASS: Pass = Pass { name: "columns mostly read are read whole", run: read_whole };

fn read_whole(plan: &mut Plan, state: &StripeState, held: RowSet, _: &dyn ColumnStrides) -> Filled {
    let mut filled = Filled::default();
    // Where parity is lost, nothing is read.
    if plan.bands.iter().any(|band| band.cycle == Cycle::Direct) {
        return filled;
    }
    for (ops, column) in plan.columns.iter_mut().zip(&state.columns) {
        let (reads, gaps) = (ops.reads(), held - ops.reads());
        if column.readable() && !reads.is_empty() && 4 * gaps.len() < held.len() {
            filled.blocks += gaps.len() as u32;
            filled.requests_saved += reads.runs().count() as u32 - 1;
            ops.t |= gaps & column.dirty;
            ops.r |= gaps - column.dirty;
        }
    }
    filled
}
