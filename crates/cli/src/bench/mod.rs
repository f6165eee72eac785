//! `stripewise bench`: the engine beside a limit measured in the same run, the NBD server beside others, and load on
//! arrays and devices.

mod cpu;
mod engine;
mod load;
mod memory;
mod nbd;

pub(crate) use engine::{EngineBench, run_engine};
pub(crate) use load::{LoadArgs, LoadFigures, LoadSpec, Spread, run_load};
pub(crate) use nbd::{NbdBench, NbdServer, run_nbd};

/// The middle one; of an even number, the larger of the two.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
