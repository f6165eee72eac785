//! The RAID engine: an array of members that clients read and write, broken and repaired while it runs.
//!
//! The engine is generic over the world: storage, time, tasks and randomness arrive through `stripewise-device`'s
//! traits, so one engine runs on io_uring, on modelled disks and under a seeded scheduler with crashes.
//!
//! * [`geometry`]: where a byte lies. [`rows`], [`plan`]: what a write does to a stripe.
//! * [`Array`]: requests of clients and commands of operators. [`assemble()`], [`CreateOptions`]: how one is opened.
//! * [`examine()`]: what lies on a device.
//! * jobs: resync, rebuild, replace, check, repair.
//! * [`mutants`]: deliberate bugs, for the simulator to find; none in a shipped build.

mod advice;
mod array;
mod assemble;
mod bad_blocks;
mod compute;
mod counters;
mod create;
pub mod endurance;
mod enroll;
mod error;
mod examine;
pub mod geometry;
mod intent;
mod jobs;
mod ledger;
pub mod locking;
mod locks;
mod measure;
mod meter;
#[cfg(all(test, feature = "loom"))]
mod model_check;
pub mod mutants;
pub mod plan;
mod preview;
mod regions;
pub mod rows;
mod seam;
mod stats;
mod topology;
mod trace;

pub use advice::advice;
pub use array::{Array, ArrayDevice, ArrayReport, BitmapReport, MemberReport, MemberState, StripeReport};
pub use assemble::{AssembleError, AssembleOptions, Chosen, Excluded, assemble, choose};
pub use create::{CreateError, CreateOptions, ParityPlace};
pub use error::ArrayError;
pub use examine::{Examination, ExamineError, examine};
pub use jobs::{JobKind, JobOutcome, JobReport, Mismatch, SpeedLimits, Tuning};
pub use locking::{CounterLocks, Locking, Preset, StripeLocks};
pub use measure::{ServiceTimes, Touch, measure};
pub use preview::{Preview, preview};
pub use regions::RegionShape;
pub use stats::{MemberStats, MemberStatsReport, Stats, StatsReport};
pub use stripewise_format::extension::MapKind;
pub use trace::{Decision, TraceFilter, Traced};
