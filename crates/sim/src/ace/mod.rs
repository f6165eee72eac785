//! Bounded black-box crash testing of the file system, as CrashMonkey and ACE do it (Mohan et al., OSDI 2018): all workloads of up to
//! three operations on a few files, and after each write that a member gets a power failure, with each subset of what was not flushed.
//!
//! Stories (`rafs`) draw what happens; here only the order of tasks and the times of I/O come from a seed. What is found is compared with a
//! model that shares no code with the file system.
//!
//! * `op`: operations, in words; `workload`: a sequence of them, and what it needs; `asked`: what an operation changes;
//! * `sets`: which sequences there are; `relabel`: which of them differ only in names;
//! * `model`: what may be there after a crash; `found`: what is there;
//! * `life`: a workload that runs; `teller`: its crashes; `look`: what must hold after each.

mod asked;
mod found;
mod life;
mod look;
mod model;
mod op;
mod relabel;
mod sets;
mod teller;
mod workload;

use std::ops::{AddAssign, Sub};

pub use self::{
    life::Bases,
    op::{Kind, Op},
    sets::{Lot, Set},
    teller::{Bounds, Teller},
    workload::{Size, Start, Workload},
};
use crate::rafs::Checker;

/// Totals over workloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads run.
    pub workloads: u64,
    /// Steps at which power failed and the possible results had changed since the step before.
    pub crash_points: u64,
    /// States that these may leave, without those of power failures that were looked at before.
    pub states: u64,
    /// States with different bytes on the members: each was mounted.
    pub distinct_states: u64,
    /// States left out, of power failures that may leave too many.
    pub skipped: u128,
    /// Those power failures.
    pub bounded_points: u64,
    /// Workloads that ended badly.
    pub violations: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.workloads += other.workloads;
        self.crash_points += other.crash_points;
        self.states += other.states;
        self.distinct_states += other.distinct_states;
        self.skipped += other.skipped;
        self.bounded_points += other.bounded_points;
        self.violations += other.violations;
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            workloads: self.workloads - other.workloads,
            crash_points: self.crash_points - other.crash_points,
            states: self.states - other.states,
            distinct_states: self.distinct_states - other.distinct_states,
            skipped: self.skipped - other.skipped,
            bounded_points: self.bounded_points - other.bounded_points,
            violations: self.violations - other.violations,
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What has seen it.
    pub checker: Checker,
    /// What it is, in words.
    pub what: String,
}

/// A workload that ends badly.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The workload.
    pub workload: Workload,
    /// When power failed, and what it left, in words. Empty if it did not come to that.
    pub when: String,
    /// What is wrong.
    pub violation: Violation,
}

impl Failure {
    /// A workload with fewer operations that ends as badly, or this one.
    #[must_use]
    pub fn shortest(self, bounds: Bounds) -> Self {
        let mut best = self;
        'shorter: loop {
            for at in (0..best.workload.ops.len()).rev() {
                let mut workload = best.workload.clone();
                workload.ops.remove(at);
                if workload.prepare().is_none() {
                    continue;
                }
                let told = Teller::new(Bases::new(workload.start), bounds, false).tell(&workload);
                if let Err(failure) = told
                    && failure.violation.checker == best.violation.checker
                {
                    best = *failure;
                    continue 'shorter;
                }
            }
            return best;
        }
    }
}
