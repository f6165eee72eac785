//! The control socket. A connection carries one JSON request and one JSON answer, and more while a trace or a
//! load runs for it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with},
};

use stripewise::export::seldom::Seldom;

use super::{session::Session, state::DaemonState};
use crate::errors;
use stripewise_wire::{Reply, Request, WireError};

/// A request is one short line.
pub(super) const REQUEST_BYTES_MAX: u64 = 64 << 10;
/// Connections served at the same time; further ones are turned away.
const CONNECTIONS_MAX: usize = 16;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// How long to wait when the system has no descriptors or memory for a connection. The wait doubles with each
/// failure in a row.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often a thread looks whether a stop's command still asks.
const STOP_LOOKED_AT: Duration = Duration::from_secs(1);
/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may stay silent while a trace or a load runs for it: a client that hangs must not hold
/// up others.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the control socket. Linux gives the socket file the mode of the socket's own inode, so there is no
/// moment in which others could connect.
pub(super) fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    let listening = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        rustix::io::Result::Ok(socket)
    };
    Ok(listening().with_context(|| format!("{}: cannot listen there", path.display()))?.into())
}

/// Serves the socket on threads of its own. They are never on the data path.
pub(super) fn listen(state: &Arc<DaemonState>, listener: UnixListener) -> anyhow::Result<()> {
    let state = state.clone();
    let open = Arc::new(AtomicUsize::new(0));
    let (not_accepted, mut pause) = (Seldom::default(), ACCEPT_PAUSE);
    thread::Builder::new().name("stripewise-control".into()).spawn(move || {
        for stream in listener.incoming() {
            let stream = match stream {
                Ok(stream) => {
                    pause = ACCEPT_PAUSE;
                    stream
                }
                Err(error) => {
                    if let Some(untold) = not_accepted.count() {
                        tracing::warn!(%error, untold, ?pause, "could not accept a command");
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
                    continue;
                }
            };
            let Some(slot) = Slot::take(&open) else {
                turn_away(stream);
                continue;
            };
            let state = state.clone();
            let served = thread::Builder::new().name("stripewise-command".into()).spawn(move || {
                let _slot = slot;
                if let Err(error) = serve_one(&state, &stream) {
                    tracing::debug!("control connection: {error:#}");
                }
            });
            if let Err(error) = served {
                tracing::warn!(%error, "could not start a thread for a command");
            }
        }
    })?;
    Ok(())
}

/// A place among the connections served at the same time. Dropping it frees the place.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Option<Self> {
        let slot = Self(open.clone());
        (open.fetch_add(1, Ordering::AcqRel) < CONNECTIONS_MAX).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Tells one connection too many that the daemon is busy. This does not wait: a new socket has room for a
/// line.
fn turn_away(stream: UnixStream) {
    let why = format!("busy: {CONNECTIONS_MAX} commands are being served; try again");
    let answered =
        stream.set_nonblocking(true).map_err(Into::into).and_then(|()| answer(&stream, &Reply::Error(why)));
    if let Err(error) = answered {
        tracing::debug!("control connection: {error:#}");
    }
}

/// The answer to a command that this daemon does not know.
fn not_understood(error: &WireError) -> String {
    format!(
        "the daemon does not understand that command: {error}. It is of another release than the command, perhaps: stop the \
         array and assemble it again, and the command's own release runs it"
    )
}

pub(super) fn answer(mut stream: &UnixStream, reply: &Reply) -> anyhow::Result<()> {
    Ok(stream.write_all(reply.line()?.as_bytes())?)
}

/// Serves a connection to its end. Its trace or load ends with it.
fn serve_one(state: &Arc<DaemonState>, stream: &UnixStream) -> anyhow::Result<()> {
    let mut session = Session::default();
    let served = converse(state, stream, &mut session);
    if !session.is_idle() {
        tracing::info!("the command has gone or asks no more: what went on for it ends");
    }
    served
}

/// Sees to it that a stop comes to its end if its command goes meanwhile.
fn watch_stop(state: &Arc<DaemonState>) -> anyhow::Result<()> {
    if !state.is_stopping() || state.stop_is_watched.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let state = state.clone();
    let watch = move || {
        let mut is_told = false;
        loop {
            thread::sleep(STOP_LOOKED_AT);
            match state.end_forsaken_stop() {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) if is_told => tracing::debug!("{}", errors::line(&error)),
                Err(error) => {
                    tracing::error!("{}", errors::line(&error));
                    is_told = true;
                }
            }
        }
        state.stop_is_watched.store(false, Ordering::Release);
    };
    thread::Builder::new().name("stripewise-stop".into()).spawn(watch)?;
    Ok(())
}

/// Answers one request, and further ones while a trace or a load runs.
fn converse(state: &Arc<DaemonState>, stream: &UnixStream, session: &mut Session) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    // The figures of a load are due as an answer too: the array's end may be what cut the load short.
    let mut due = None;
    loop {
        let mut line = String::new();
        if reader.by_ref().take(REQUEST_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        // The daemon does not end before the answer is out, or the client is gone.
        let _unanswered = state.end.ask();
        let reply = match Request::read(&line) {
            Ok(request) => state.answer(request, session),
            Err(error) => Reply::Error(not_understood(&error)),
        };
        // Also where the stop hangs: it comes to its end once the member answers.
        if matches!(reply, Reply::Emptying { .. } | Reply::Error(_)) {
            watch_stop(state)?;
        }
        answer(stream, &reply)?;
        if session.is_idle() {
            return Ok(());
        }
        due = session.load.is_some().then(|| due.unwrap_or_else(|| state.end.ask()));
        stream.set_read_timeout(Some(PATIENCE))?;
    }
}
