//! The RAID engine: an array of members that clients read and write while members fail and are repaired.
//!
//! The engine is generic over its environment: storage, time, tasks and randomness come through
//! `stripewise-device`'s traits. So the same engine runs on io_uring, on modelled disks, and under a seeded
//! scheduler with crashes.
//!
//! * [`geometry`]: where a byte lies. [`rows`], [`plan`]: what a write does to a stripe.
//! * [`Array`]: client requests and operator commands. [`assemble()`], [`CreateOptions`]: how an array is
//!   opened.
//! * [`examine()`]: what a device holds.
//! * jobs: resync, rebuild, replace, check, repair.
//! * [`mutants`]: deliberate bugs, for the simulator to find; none in a shipped build.

mod array;
mod cache;
mod compute;
pub mod destage;
mod error;
mod intent;
mod jobs;
mod life;
mod locks;
mod members;
mod metadata;
#[cfg(all(test, feature = "loom"))]
mod model_check;
pub mod mutants;
mod opening;
pub mod plan;
mod roster;
mod seam;
mod shape;
mod sizes;
mod stripes;

pub use array::{
    AddOptions, Array, ArrayReport, BitmapReport, MemberReport, MemberState, StripeReport,
    device::ArrayDevice,
};
pub use cache::{
    CacheAlloc, CacheError, CacheKind, CachePast, CacheReport, CacheSettings, DestageReason, Destaged,
    ReadCache,
};
pub use error::ArrayError;
pub use intent::locking::{self, CounterLocks, Locking, Preset, StripeLocks};
pub use jobs::{ArrayEvent, ArrayEvents, JobKind, JobOutcome, JobReport, Mismatch, SpeedLimits, Tuning};
pub use members::{
    benches::StrideBenches,
    endurance,
    measure::{ServiceTimes, Touch, measure},
    stats::{MemberStats, MemberStatsReport, Stats, StatsReport},
    strides::{StrideLimit, StrideLimits, StrideRecords, measure_strides},
};
pub use metadata::examine::{Examination, ExamineError, examine};
pub use opening::{
    advice::advice,
    assemble::assemble,
    candidates::{Chosen, Excluded},
    choose::choose,
    create::{CreateError, CreateOptions, ParityPlace, StrideChoice},
    options::{AssembleError, AssembleOptions},
    preview::{Preview, preview},
};
pub use shape::{geometry, regions::RegionShape, rows};
pub use sizes::{format_compared_sizes, format_size};
pub use stripes::{
    trace::{Decision, StripeWay, TraceFilter, Traced},
    without::Recovered,
};
pub use stripewise_format::extension::MapKind;
