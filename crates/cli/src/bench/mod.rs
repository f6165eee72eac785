//! `stripewise bench`: the engine beside a limit measured in the same run, and load on arrays and devices.

mod engine;
mod load;

pub(crate) use engine::{EngineBench, run_engine};
pub(crate) use load::{LoadArgs, LoadFigures, LoadSpec, Spread, run_load};
