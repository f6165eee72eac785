//! Work that a command waits for in steps.

use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use stripewise::Array;
use stripewise_wire::Reply;

use super::super::patience::Deadline;

/// How long a caller waits before it is told how much was done.
const STEP: Duration = Duration::from_millis(300);

/// The work under way, or the outcome of the last one, for the command that asks.
#[derive(Default)]
pub(in crate::daemon) struct Working(Mutex<Option<Under>>);

struct Under {
    outcome: Receiver<anyhow::Result<Reply>>,
    /// What the array had read and written when it began.
    begun_bytes: u64,
}

impl Working {
    /// Begins. The caller has claimed the file system.
    pub(super) fn begin(
        &self,
        array: &Array,
        work: impl FnOnce() -> anyhow::Result<Reply> + Send + 'static,
    ) -> anyhow::Result<()> {
        let (tell, outcome) = mpsc::channel();
        // The command may ask no more.
        let run = move || _ = tell.send(work());
        thread::Builder::new().name("stripewise-rafs".into()).spawn(run).context("starting a thread")?;
        *self.0.lock() = Some(Under { outcome, begun_bytes: moved_bytes(array) });
        Ok(())
    }

    /// How far it has come, or its outcome, once.
    pub(super) fn step(&self, array: &Array, deadline: Deadline) -> anyhow::Result<Reply> {
        let mut working = self.0.lock();
        let Some(under) = &*working else { bail!("nothing is under way on its file system") };
        let ended = match under.outcome.recv_timeout(deadline.within(STEP)) {
            Err(RecvTimeoutError::Timeout) => {
                let done_bytes = moved_bytes(array).saturating_sub(under.begun_bytes);
                return Ok(Reply::Working { done_bytes });
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Ok(outcome) => Some(outcome),
        };
        *working = None;
        ended.unwrap_or_else(|| bail!("it ended by itself; see the daemon's log"))
    }
}

fn moved_bytes(array: &Array) -> u64 {
    let counted = array.stats().report();
    counted.read_bytes + counted.written_bytes
}
