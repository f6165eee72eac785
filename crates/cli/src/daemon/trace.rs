//! The decision trace of an array, for one command at a time.

use anyhow::{bail, ensure};
use stripewise::Array;

use super::{
    attention::{Attention, PATIENCE},
    state::Notes,
};
use crate::protocol::{TraceChoice, TracedStatus};

/// Decisions kept between two questions; some MiB at most.
const CAPACITY: usize = 16 << 10;

/// Who traces.
#[derive(Default)]
pub(super) struct Tracing(Attention);

impl Tracing {
    /// Keeps decisions from now on.
    pub(super) fn start(&self, array: &Array, choice: TraceChoice) -> anyhow::Result<Notes> {
        let traced = array.clone();
        let begun = self.0.begin(move || {
            traced.stop_tracing();
            tracing::info!("nobody asks for the trace any more");
        })?;
        ensure!(begun, "another command is tracing it; end that first");
        array.trace_decisions(choice.into(), CAPACITY);
        Ok(Notes::new())
    }

    /// The decisions from a number on.
    pub(super) fn since(&self, array: &Array, since: u64) -> anyhow::Result<TracedStatus> {
        if !self.0.ask() {
            bail!("it is not being traced any more: nobody had asked for {} s", PATIENCE.as_secs());
        }
        Ok(array.traced(since).into())
    }

    pub(super) fn stop(&self, array: &Array) -> Notes {
        self.0.end();
        array.stop_tracing();
        Notes::new()
    }
}
