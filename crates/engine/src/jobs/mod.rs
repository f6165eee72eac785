//! Background jobs: resync, rebuild, replace, check and repair, online beside the clients.
//!
//! One task per array runs one job at a time: first what makes redundancy whole (resync, then rebuild), then what
//! an operator asked for. Jobs walk the stripes in batches whose rows are locked meanwhile; they can be paused,
//! stopped and limited in speed, and go on after a restart where they stood.

mod board;
mod rebuild;
mod runner;
mod speed;
mod sweep;
mod tuning;
mod verify;

pub use board::{JobKind, JobOutcome, JobReport, Mismatch, SpeedLimits};
pub use tuning::Tuning;

pub(crate) use board::{Found, JobBoard, Request};
pub(crate) use runner::{run_housekeeping, run_jobs};
