//! Client load over any device: closed loops with distributions of place and size, steps of requests that are known
//! beforehand, or the replay of a trace.
//!
//! It needs only an environment and a device, so the same load runs in virtual time over modelled disks and
//! in real time over real ones. Latencies are those that a client sees, from the call to the end of the
//! request.

mod clients;
mod gather;
mod math;
mod offsets;
mod report;
mod sizes;
mod steps;
mod trace;

pub use clients::{Control, Failure, Load, Stop, run, run_controlled};
pub use offsets::{Offsets, exponential_stride};
pub use report::{LoadReport, OpReport};
pub use sizes::Sizes;
pub use steps::{Extent, Pace, Step, run_steps};
pub use trace::{Trace, TraceError, TraceOp, TraceRequest, replay};
