//! SIGTERM and SIGINT: an orderly stop.

use std::{sync::Arc, thread};

use anyhow::Context;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::state::DaemonState;

/// Stops the daemon on a signal. SIGHUP is ignored: the terminal that started it may close.
pub(super) fn watch(state: &Arc<DaemonState>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("watching for signals")?;
    let state = state.clone();
    thread::Builder::new().name("stripewise-signals".into()).spawn(move || {
        for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
            tracing::info!(signal, "stopping");
            match state.stop(true) {
                Ok(()) => return,
                // Perhaps the next signal finds it free.
                Err(error) => tracing::error!("{error:#}"),
            }
        }
    })?;
    Ok(())
}
