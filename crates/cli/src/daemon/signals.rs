//! SIGTERM and SIGINT: an orderly stop. File systems on the array are unmounted first; if somebody works on them, only
//! a second signal takes the disk from under them.

use std::{sync::Arc, thread};

use anyhow::Context;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{exports::Users, state::DaemonState};

/// Stops the daemon on a signal. SIGHUP is ignored: the terminal that started it may close.
pub(super) fn watch(state: &Arc<DaemonState>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("watching for signals")?;
    let state = state.clone();
    thread::Builder::new().name("stripewise-signals".into()).spawn(move || {
        let mut users = Users::Unmount;
        for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
            tracing::info!(signal, "stopping");
            let result = state.stop(users);
            state.end_if_stopped();
            match result {
                Ok(()) => return,
                Err(error) => tracing::error!("{error:#}; another signal stops it by force"),
            }
            users = Users::Force;
        }
    })?;
    Ok(())
}
