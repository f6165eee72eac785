//! The control socket while the array is being opened. Commands wait for a moment, as that seldom takes long; from then on each is
//! told how it stands, so that one member that hangs keeps no command waiting, and `stop --force` ends the daemon.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::net::{UnixListener, UnixStream},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use stripewise_wire::{Reply, Request};

use super::control::{REQUEST_BYTES_MAX, answer};
use crate::rundir::socket_path;

/// How long commands wait for the array.
const QUIET: Duration = Duration::from_secs(5);
/// How often it is looked whether the array is open.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long a client may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers until it is dropped.
pub(super) struct Doorman {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Doorman {
    /// Answers on a socket of this array from now on.
    pub(super) fn begin(name: &str, listener: &UnixListener) -> anyhow::Result<Self> {
        let (name, listener) = (name.to_owned(), listener.try_clone()?);
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let stands = move || {
            let began = Instant::now();
            while !ends.load(Ordering::Acquire) {
                match wait_for_client(&listener) {
                    Ok(true) if began.elapsed() >= QUIET => {
                        let served = listener
                            .accept()
                            .map_err(Into::into)
                            .and_then(|(stream, _)| turn_away(&name, began, &stream));
                        served.unwrap_or_else(|error| tracing::debug!("control connection: {error:#}"));
                    }
                    // The client waits until then.
                    Ok(true) => thread::sleep(Duration::from_millis(100)),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(%error, "commands wait until the array is open");
                        return;
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("stripewise-door".into()).spawn(stands)?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for Doorman {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits a moment for a client.
fn wait_for_client(listener: &UnixListener) -> Result<bool, Errno> {
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&LOOK)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tells a command that the array is not open yet. A stop by force ends the daemon, as a crash would.
fn turn_away(name: &str, began: Instant, stream: &UnixStream) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream).take(REQUEST_BYTES_MAX).read_line(&mut line)?;
    let ends = matches!(Request::read(&line), Ok(Request::Stop { force: true }));
    let waited_s = began.elapsed().as_secs();
    if ends {
        tracing::warn!(waited_s, "stopped by force while the array is being opened");
        let notes =
            vec!["it was being opened: as after a crash, it is checked when it is opened again".to_owned()];
        answer(stream, &Reply::Stopped { unclean: None, notes }).context("answering before the end")?;
        let _ = std::fs::remove_file(socket_path(name));
        process::exit(1);
    }
    let why = format!(
        "it is being opened, for {waited_s} s so far: a member may hang; see its log. `stripewise stop {name} --force` \
         ends that"
    );
    answer(stream, &Reply::Error(why))
}
