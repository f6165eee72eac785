//! The stride benchmark, which takes longer than a request may: of an array's members, and of devices that will be
//! members.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use stripewise::{Array, ArrayError, Host, IoError, StrideBenches, internals::uring::Started};
use stripewise_wire::{Notes, Reply};

use super::patience::Deadline;

/// How long a caller waits before it is told how far it has come.
pub(super) const STEP: Duration = Duration::from_millis(300);

/// How far benchmarks have come that began then.
fn measuring(begun: Instant) -> Reply {
    let (passed_s, most_s) = (begun.elapsed().as_secs_f64(), StrideBenches::TIME.as_secs_f64());
    Reply::Measuring { passed_s, most_s }
}

/// The benchmarks of devices that will be members, as their daemon sees them.
#[derive(Default)]
pub(super) struct Benches {
    pub(super) benches: StrideBenches,
    /// Since when they were seen to be under way.
    pub(super) begun: Option<Instant>,
}

impl Benches {
    /// How far they have come, while they are under way.
    pub(super) fn step(&mut self) -> Option<Reply> {
        let is_under_way = self.benches.are_under_way();
        is_under_way.then(|| measuring(*self.begun.get_or_insert_with(Instant::now)))
    }
}

/// The measurement of members that is under way, or whose end nobody was told.
#[derive(Default)]
pub(super) struct Measuring(Mutex<Option<Measurement>>);

struct Measurement {
    ends: Started<Result<Vec<(String, IoError)>, ArrayError>>,
    begun: Instant,
}

impl Measuring {
    /// Begins one.
    pub(super) fn begin(&self, host: &Host, array: &Array, deadline: Deadline) -> anyhow::Result<Reply> {
        {
            let mut measurement = self.0.lock();
            let goes_on = |before: &Measurement| before.ends.wait_for(Duration::ZERO).is_none();
            if measurement.as_ref().is_some_and(goes_on) {
                bail!("its members are being measured, for an earlier command; wait for that");
            }
            let array = array.clone();
            let ends = host.runtime().begin(async move { array.measure_strides().await });
            *measurement = Some(Measurement { ends, begun: Instant::now() });
        }
        self.step(deadline)
    }

    /// How far it has come.
    pub(super) fn step(&self, deadline: Deadline) -> anyhow::Result<Reply> {
        let mut measurement = self.0.lock();
        let Some(Measurement { ends, begun }) = &*measurement else { return Ok(Reply::Done(Notes::new())) };
        let Some(result) = ends.wait_for(deadline.within(STEP)) else { return Ok(measuring(*begun)) };
        *measurement = None;
        let failed = result.context("strides could not be measured")?;
        let note = |(member, error): (String, IoError)| format!("{member} could not be measured: {error}");
        Ok(Reply::Done(failed.into_iter().map(note).collect()))
    }
}
