//! The decision trace of an array, for one command at a time.

use anyhow::{Context, bail};
use stripewise::Array;

use super::attention::{Attention, Held};
use crate::reports::{trace_filter, traced_status};
use stripewise_wire::{TraceChoice, TracedStatus};

/// Decisions kept between two requests; some MiB at most.
const CAPACITY: usize = 16 << 10;

/// Whether a command traces.
#[derive(Default)]
pub(super) struct Tracing(Attention);

/// A command's trace. It ends when this is dropped.
pub(super) struct OwnTrace {
    array: Array,
    /// Released after tracing has stopped.
    _held: Held,
}

impl Tracing {
    /// Keeps decisions from now on.
    pub(super) fn start(&self, array: &Array, choice: TraceChoice) -> anyhow::Result<OwnTrace> {
        let (stripes, stripe_bytes) = (array.geometry().stripes(), array.geometry().stripe_bytes());
        if let Some((first, _)) = choice.stripes.filter(|(first, _)| *first >= stripes) {
            bail!("stripe {first} will never be written: the array has {stripes}");
        }
        if choice.min_bytes > stripe_bytes {
            bail!("no write of a stripe is {} bytes: a stripe has {stripe_bytes}", choice.min_bytes);
        }
        let held = self.0.take().context("another command is tracing it; end that first")?;
        array.trace_decisions(trace_filter(choice), CAPACITY);
        Ok(OwnTrace { array: array.clone(), _held: held })
    }
}

impl OwnTrace {
    /// The decisions from a number on.
    pub(super) fn since(&self, since: u64) -> TracedStatus {
        traced_status(&self.array.traced(since))
    }
}

impl Drop for OwnTrace {
    fn drop(&mut self) {
        self.array.stop_tracing();
    }
}
