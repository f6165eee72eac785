//! The demo's timeline, and its way out when interrupted.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use anyhow::bail;

/// Tells what happens, with the seconds since the start.
pub(super) struct Story {
    started: Instant,
    interrupted: Arc<AtomicBool>,
}

impl Story {
    pub(super) fn begin(interrupted: Arc<AtomicBool>) -> Self {
        Self { started: Instant::now(), interrupted }
    }

    pub(super) fn tell(&self, what: impl Display) {
        println!("[{:5.1} s] {what}", self.started.elapsed().as_secs_f64());
    }

    /// Ends the demo if somebody pressed Ctrl-C; what was set up is taken down on the way out.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.interrupted.load(Ordering::Acquire) {
            bail!("interrupted");
        }
        Ok(())
    }
}
