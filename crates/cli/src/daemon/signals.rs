//! SIGTERM and SIGINT: an orderly stop. The daemon first unmounts file systems on the array. While they are
//! in use it goes on trying, and only a second signal takes the disk from under them.

use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{exports::Users, patience::Deadline, state::DaemonState, stopping::StopStep};
use crate::errors;

/// How often a stop that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How long an attempt that unmounts file systems may take: no command waits for it.
const ATTEMPT_MAX: Duration = Duration::from_secs(600);

/// Signals that come within this time of each other are one request.
const TOGETHER: Duration = Duration::from_millis(50);

/// Keeps signals from ending this process. SIGHUP is ignored: the terminal that started it may close.
pub(super) fn catch() -> anyhow::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP]).context("watching for signals")
}

/// Stops the daemon on a signal, even on one that came before.
pub(super) fn watch(state: &Arc<DaemonState>, mut signals: Signals) -> anyhow::Result<()> {
    let (ask, asks) = mpsc::channel();
    let stopping = state.clone();
    thread::Builder::new().name("stripewise-stop".into()).spawn(move || stop_when_asked(&stopping, &asks))?;
    let state = state.clone();
    // On a separate thread, so that a signal takes effect even while an attempt to stop waits for something.
    thread::Builder::new().name("stripewise-signals".into()).spawn(move || {
        let stops = |signal: &i32| *signal != SIGHUP;
        loop {
            if signals.wait().filter(stops).count() == 0 {
                continue;
            }
            // Signals that come together count once, so that the first attempt is never by force.
            thread::sleep(TOGETHER);
            let _ = signals.pending().count();
            match state.asked.again() {
                0 => tracing::info!("asked to stop by a signal"),
                _ => tracing::info!("asked by another signal: the device is taken from those who use it"),
            }
            if ask.send(()).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Once asked, tries to stop until it succeeds.
fn stop_when_asked(state: &DaemonState, asks: &Receiver<()>) {
    if asks.recv().is_err() {
        return;
    }
    let mut told = None;
    loop {
        let is_hurried = state.asked.is_hurried();
        let Err(error) = try_to_stop(state, is_hurried) else { return };
        if told != Some(is_hurried) {
            tracing::error!("{}; another signal stops it by force", errors::line(&error));
            told = Some(is_hurried);
        }
        let _ = asks.recv_timeout(RETRY);
    }
}

/// Stops, by force if a second signal has come.
fn try_to_stop(state: &DaemonState, is_hurried: bool) -> anyhow::Result<()> {
    let (users, deadline) = match is_hurried {
        true => (Users::Force, Deadline::of_command()),
        false => (Users::Unmount, Deadline::after(ATTEMPT_MAX)),
    };
    match state.stop(users, deadline, false)? {
        StopStep::Stopped(_) => Ok(()),
        StopStep::Emptying { .. } => bail!("what is cached is still being written"),
    }
}
