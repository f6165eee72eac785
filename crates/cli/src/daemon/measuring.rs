//! The stride benchmark of an array's members, which takes longer than a request may.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use stripewise::{Array, ArrayError, Host, IoError, internals::uring::Started};
use stripewise_wire::{Notes, Reply};

use super::patience::Deadline;

/// About the longest that a measurement takes, as the engine promises.
const MOST: Duration = Duration::from_secs(15);
/// How long a caller waits before it is told how far it has come.
const STEP: Duration = Duration::from_millis(300);

/// The measurement that is under way, or whose end nobody was told.
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
        let Some(result) = ends.wait_for(deadline.within(STEP)) else {
            let passed_s = begun.elapsed().as_secs_f64();
            return Ok(Reply::Measuring { passed_s, most_s: MOST.as_secs_f64() });
        };
        *measurement = None;
        let failed = result.context("strides could not be measured")?;
        let note = |(member, error): (String, IoError)| format!("{member} could not be measured: {error}");
        Ok(Reply::Done(failed.into_iter().map(note).collect()))
    }
}
