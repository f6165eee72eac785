//! Background jobs: resync, rebuild, replace, check and repair, while clients use the array.
//!
//! One task per array runs one job at a time: first the jobs that make redundancy whole (resync, then
//! rebuild), then those that an operator requested. Jobs walk the stripes in batches and lock the rows of
//! each batch meanwhile. They can be paused, stopped and limited in speed. After a restart they continue
//! where they stood.

pub(crate) mod board;
pub(crate) mod destager;
pub(crate) mod events;
mod rate;
mod rebuild;
mod report;
mod rewrites;
pub(crate) mod runner;
mod speed;
mod sweep;
pub(crate) mod tuning;
mod verify;

pub use board::SpeedLimits;
pub use events::{ArrayEvent, ArrayEvents};
pub use report::{JobKind, JobOutcome, JobReport, Mismatch};
pub use tuning::Tuning;

pub(crate) use board::{JobBoard, Request};
pub(crate) use report::Found;

use std::sync::Arc;

use crate::{life::Life, roster::Roster, shape::geometry::Geometry, stripes::Stripes};

/// What jobs and housekeeping work with.
pub(crate) struct Jobs {
    life: Arc<Life>,
    stripes: Arc<Stripes>,
    roster: Arc<Roster>,
    board: Arc<JobBoard>,
    /// How large the steps of background work are.
    tuning: Tuning,
}

impl Jobs {
    pub(crate) fn new(
        life: Arc<Life>,
        stripes: Arc<Stripes>,
        roster: Arc<Roster>,
        board: Arc<JobBoard>,
        tuning: Tuning,
    ) -> Arc<Self> {
        Arc::new(Self { life, stripes, roster, board, tuning })
    }

    /// The array's shape now.
    fn geometry(&self) -> Geometry {
        self.stripes.geometry()
    }
}
