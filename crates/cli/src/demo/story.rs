//! The demo's timeline, and its way out when interrupted.

use std::{
    fmt::Display,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use anyhow::bail;
use serde_json::json;

/// Tells what happens, with the seconds since the start.
pub(super) struct Story {
    started: Instant,
    interrupted: Arc<AtomicBool>,
    json: bool,
}

impl Story {
    pub(super) fn begin(interrupted: Arc<AtomicBool>, json: bool) -> Self {
        Self { started: Instant::now(), interrupted, json }
    }

    /// Prints one line. A closed output is no error: the demo must still take down what it set up.
    pub(super) fn tell(&self, what: impl Display) {
        let seconds = self.started.elapsed().as_secs_f64();
        let line = if self.json {
            json!({ "seconds": seconds, "event": what.to_string() }).to_string()
        } else {
            format!("[{seconds:5.1} s] {what}")
        };
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    /// Ends the demo if a signal such as Ctrl-C came; what was set up is taken down on the way out.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.interrupted.load(Ordering::Acquire) {
            bail!("interrupted");
        }
        Ok(())
    }
}
