//! `stripewise bench`: the engine beside a limit measured in the same run, the NBD server beside others, and load on
//! arrays and devices.

mod engine;
mod load;
mod nbd;

pub(crate) use engine::{EngineBench, run_engine};
pub(crate) use load::{LoadArgs, run_load};
pub(crate) use nbd::{NbdBench, NbdServer, run_nbd};
