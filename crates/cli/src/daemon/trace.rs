//! The decision trace of an array: kept for one command at a time, and only while it goes on asking.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use stripewise::Array;

use super::state::Notes;
use crate::protocol::{TraceChoice, TracedStatus};

/// How long decisions are kept for a command that asks no more.
const PATIENCE: Duration = Duration::from_secs(5);
/// Decisions kept between two questions; some MiB at most.
const CAPACITY: usize = 16 << 10;

/// Who traces.
#[derive(Default)]
pub(super) struct Tracing(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// When the command that traces last asked.
    asked: Mutex<Option<Instant>>,
    ended: Condvar,
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracing {
    /// Keeps decisions from now on.
    pub(super) fn start(&self, array: &Array, choice: TraceChoice) -> anyhow::Result<Notes> {
        let mut asked = self.0.asked();
        if asked.is_some() {
            bail!("another command is tracing it; end that first");
        }
        *asked = Some(Instant::now());
        array.trace_decisions(choice.into(), CAPACITY);
        let (shared, array) = (self.0.clone(), array.clone());
        let watch = thread::Builder::new().name("stripewise-trace".into());
        watch.spawn(move || shared.watch(&array)).context("watching the command that traces")?;
        Ok(Notes::new())
    }

    /// The decisions from a number on.
    pub(super) fn since(&self, array: &Array, since: u64) -> anyhow::Result<TracedStatus> {
        let mut asked = self.0.asked();
        if asked.is_none() {
            bail!("it is not being traced any more: nobody had asked for {} s", PATIENCE.as_secs());
        }
        *asked = Some(Instant::now());
        Ok(array.traced(since).into())
    }

    pub(super) fn stop(&self, array: &Array) -> Notes {
        *self.0.asked() = None;
        array.stop_tracing();
        self.0.ended.notify_all();
        Notes::new()
    }
}

impl Shared {
    /// Ends the trace when its command has asked no more for a while.
    fn watch(&self, array: &Array) {
        let mut asked = self.asked();
        while let Some(last) = *asked {
            let left = PATIENCE.saturating_sub(last.elapsed());
            if left.is_zero() {
                *asked = None;
                array.stop_tracing();
                tracing::info!("nobody asks for the trace any more");
                return;
            }
            asked = self.ended.wait_timeout(asked, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
