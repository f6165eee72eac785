//! Small layers over any member. Each does one thing over the one contract of [`crate::Device`], so they
//! stack.

mod count;
mod deadline;
mod delay;
mod fault;
mod trace;

pub use count::{Count, Counters};
pub use deadline::Deadline;
pub use delay::Delay;
pub use fault::{Fault, FaultRule, Faults, Operation};
pub use trace::{Trace, TraceEvent, TraceLog};
