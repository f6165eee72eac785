//! SIGTERM and SIGINT: an orderly stop. File systems on the array are unmounted first. While somebody works on them the
//! daemon goes on trying, and only a second signal takes the disk from under them.

use std::{sync::Arc, thread, time::Duration};

use anyhow::Context;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{
    exports::Users,
    state::{DaemonState, Stopped},
};
use crate::errors;

/// How often a stop that was asked for is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Signals within this time of the first are one request.
const TOGETHER: Duration = Duration::from_millis(50);

/// Keeps signals from ending this process. SIGHUP is ignored: the terminal that started it may close.
pub(super) fn catch() -> anyhow::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP]).context("watching for signals")
}

/// Stops the daemon on a signal, also on one that came before.
pub(super) fn watch(state: &Arc<DaemonState>, mut signals: Signals) -> anyhow::Result<()> {
    let state = state.clone();
    thread::Builder::new().name("stripewise-signals".into()).spawn(move || {
        let stops = |signal: &i32| *signal != SIGHUP;
        while signals.wait().filter(stops).count() == 0 {}
        // However many came together: the first attempt is never by force.
        thread::sleep(TOGETHER);
        let _ = signals.pending().count();
        let mut asked = 1;
        tracing::info!("asked to stop by a signal");
        let mut told = 0;
        while let Err(error) = try_to_stop(&state, asked) {
            if told < asked {
                tracing::error!("{}; another signal stops it by force", errors::line(&error));
                told = asked;
            }
            thread::sleep(RETRY);
            let again = signals.pending().filter(stops).count();
            if again > 0 {
                tracing::info!("asked by another signal: the device is taken from those who use it");
            }
            asked += again;
        }
    })?;
    Ok(())
}

/// Stops, by force if it was asked for more than once.
fn try_to_stop(state: &DaemonState, asked: usize) -> anyhow::Result<()> {
    let Stopped { unclean, notes } = state.stop(if asked > 1 { Users::Force } else { Users::Unmount })?;
    for trouble in unclean.iter().chain(&notes) {
        tracing::error!("stopped, but {trouble}");
    }
    Ok(())
}
