//! Policies that count the blocks to be read, as md does.

use crate::plan::{Band, Cycle};

/// Whether RMW is preferred, by the blocks that it and RCW would read.
pub type Rule = fn(rmw: u32, rcw: u32) -> bool;

/// Sets each free band's cycle by its two counts: RMW where `prefers_rmw(rmw, rcw)`, else RCW.
pub fn by_counts(bands: &mut [Band], prefers_rmw: Rule) {
    for band in bands.iter_mut().filter(|band| band.free) {
        band.cycle = cycle_by(prefers_rmw, (band.rmw, band.rcw));
    }
}

/// The cycle by two counts.
#[inline]
pub fn cycle_by(prefers_rmw: Rule, (rmw, rcw): (u32, u32)) -> Cycle {
    if prefers_rmw(rmw, rcw) { Cycle::Rmw } else { Cycle::Rcw }
}
