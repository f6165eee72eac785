//! How a mount ends: by umount(8) or another program, or by a signal.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use anyhow::Context;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use stripewise_mount::{fuse::Unmount, served::Served};

/// How often a mount that is in use is tried to be unmounted again, once a signal has asked for it.
const RETRY: Duration = Duration::from_secs(1);

/// What happens to a mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The kernel has let go of it.
    Ended,
    /// A signal asks for its end, or the command that mounts it has gone.
    Asked,
}

/// Keeps signals from ending this process. SIGHUP is ignored: the terminal that started it may close.
pub(super) fn catch() -> anyhow::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP]).context("watching for signals")
}

/// Passes signals on, also those that came before.
pub(super) fn watch(mut signals: Signals, tell: Sender<Event>) -> anyhow::Result<()> {
    thread::Builder::new().name("stripewise-signals".into()).spawn(move || {
        let all = signals.forever().filter(|signal| *signal != SIGHUP);
        // Ends with the receiver.
        let _ = all.map(|_| tell.send(Event::Asked)).find(Result::is_err);
    })?;
    Ok(())
}

/// Waits for the end, and writes out what is left.
pub(super) fn wait(mut served: Served, events: &Receiver<Event>) -> anyhow::Result<()> {
    let mut asked = 0_u32;
    loop {
        let event = if asked == 0 {
            events.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            events.recv_timeout(RETRY)
        };
        match event {
            Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Event::Asked) => asked += 1,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let how = if asked > 1 { Unmount::Detach } else { Unmount::Now };
        if let Err(error) = served.unmount(how) {
            tracing::warn!("{error}; another signal detaches it");
        }
    }
    Ok(served.wait()?)
}
