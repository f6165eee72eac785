//! Policies that count the blocks to be read, as md does.

use crate::plan::matrix::{Band, Cycle};

/// Sets each free band's cycle by its two counts: RMW where `prefers_rmw(rmw, rcw)`, else RCW.
#[inline]
pub fn by_counts(bands: &mut [Band], prefers_rmw: impl Fn(u32, u32) -> bool) {
    for band in bands.iter_mut().filter(|band| band.free) {
        band.cycle = if prefers_rmw(band.rmw, band.rcw) { Cycle::Rmw } else { Cycle::Rcw };
    }
}
