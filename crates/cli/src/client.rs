//! Talking to an array's daemon.

use std::{
    io::ErrorKind,
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt::socket_peercred,
    process::{Pid, PidfdFlags, pidfd_open},
};
use stripewise_wire::{ANSWER_TIMEOUT, ArrayStatus, Notes, Reply, Request, protocol_of};

use crate::{
    daemon, errors,
    interrupt::Interrupt,
    printable::{printable, printable_list},
    progress::EmptyingBar,
    rundir::{check_run_dir, socket_path},
    said::{note, tell_notes},
    sigpipe,
};

/// How often, and how many times, to check whether a daemon that failed to answer is dead.
const DEATH_POLL: Duration = Duration::from_millis(20);
const DEATH_POLLS: usize = 10;
/// The longest a daemon may take to end after it has answered that it stopped.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// What to do about an array whose daemon was killed. See docs/failure-model.md.
const AFTER_DEATH: &str = "assemble the array again: only what was being written is resynced. What was written since \
                           the last flush may be lost if it had a cache. If it was degraded, rows that were being \
                           written may have lost what was on the missing member, so that --force is asked for";

/// No daemon serves an array of that name.
#[derive(Debug, thiserror::Error)]
#[error("{0}: no such array is running; `stripewise status` lists those that are")]
pub(crate) struct NotRunning(String);

/// The daemon of an array was killed.
#[derive(Debug, thiserror::Error)]
#[error("{0}: its daemon has died; {AFTER_DEATH} (`stripewise stop {0}` clears what is left of it)")]
pub(crate) struct Dead(String);

fn not_running(name: &str) -> anyhow::Error {
    NotRunning(name.to_owned()).into()
}

/// A connection to an array's daemon. What the daemon does for a command ends with the connection.
pub(crate) struct Connection {
    name: String,
    daemon: stripewise_wire::Connection,
    /// Whether the daemon has answered here before.
    is_used: bool,
}

impl Connection {
    pub(crate) fn open(name: &str) -> anyhow::Result<Self> {
        check_run_dir()?;
        let daemon =
            stripewise_wire::Connection::open(&socket_path(name)).map_err(|error| match error.kind() {
                ErrorKind::NotFound => not_running(name),
                ErrorKind::ConnectionRefused => Dead(name.to_owned()).into(),
                _ => anyhow!("{name}: {}: {error}", socket_path(name).display()),
            })?;
        Ok(Self { name: name.to_owned(), daemon, is_used: false })
    }

    /// The process that listens, as the kernel reports it. Known even if the daemon cannot answer for its
    /// array.
    fn daemon_pid(&self) -> Option<Pid> {
        socket_peercred(&self.daemon).ok().map(|peer| peer.pid)
    }

    /// Sends one request and returns the daemon's answer; its error becomes ours.
    pub(crate) fn ask(&mut self, request: &Request) -> anyhow::Result<Reply> {
        let answer = self.exchange(request)?;
        let name = &self.name;
        match Reply::read(&answer) {
            Ok(Reply::Error(message)) => Err(anyhow!("{name}: {}", printable_list(&message))),
            Ok(reply) => Ok(reply),
            Err(error) => bail!(
                "{name}: its daemon is of another release: {error}. `stripewise stop {name}` works all the same; assembled anew, \
                 the array is run by this one"
            ),
        }
    }

    /// Sends one request and returns the line that the daemon answers.
    fn exchange(&mut self, request: &Request) -> anyhow::Result<String> {
        let name = &self.name;
        let sent = sigpipe::survived(|| self.daemon.send(request));
        let read = self.daemon.receive();
        let is_silent = !matches!(read, Ok(Some(_)));
        // A daemon that ends in order removes its socket: another command has stopped it.
        if is_silent && !socket_path(name).exists() {
            return Err(not_running(name));
        }
        if is_silent && self.is_used {
            bail!(
                "{name}: its daemon has ended this: it stops, or was asked nothing for some seconds; see its log"
            );
        }
        // A daemon that takes no more commands may answer before it reads the request. A failed send counts
        // only without an answer.
        if is_silent {
            sent.map_err(|error| anyhow!("{name}: its daemon does not listen: {error}; see its log"))?;
        }
        self.is_used = true;
        let answer = read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                anyhow!("{name}: no answer from its daemon for {} s; see its log", ANSWER_TIMEOUT.as_secs())
            }
            _ => anyhow!("{name}: no answer from its daemon: {error}"),
        })?;
        answer.with_context(|| format!("{name}: its daemon ended before it answered; see its log"))
    }

    /// Has the daemon carry out a command, and prints its notes.
    pub(crate) fn command(&mut self, request: &Request) -> anyhow::Result<()> {
        match self.ask(request)? {
            Reply::Done(notes) => tell_notes(&self.name, &notes),
            other => bail!("{}: unexpected answer {other:?}", self.name),
        }
        Ok(())
    }
}

/// Refuses a request with an option that an older daemon would ignore.
fn check_knows(name: &str, request: &Request) -> anyhow::Result<()> {
    let needs = request.needs();
    if needs == 0 {
        return Ok(());
    }
    // On a separate connection: a daemon answers one request on each.
    let speaks = protocol_of(&Connection::open(name)?.exchange(&Request::Status)?);
    ensure!(
        speaks >= needs,
        "{name}: its daemon is older than this command (it speaks protocol {speaks} of the control socket) and does not know an \
         option that was given, so that it would do something else. Leave the option out, or stop the array and assemble it \
         again: then this release runs it"
    );
    Ok(())
}

/// Sends one request and returns the daemon's answer; its error becomes ours.
pub(crate) fn ask(name: &str, request: &Request) -> anyhow::Result<Reply> {
    check_knows(name, request)?;
    Connection::open(name)?.ask(request)
}

/// Refuses the name of a running array. This is only a first check, so that a taken name is reported before
/// any other error; the daemon decides. A socket alone proves nothing: a killed daemon's socket takes
/// connections for a moment longer.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    match status(name) {
        Ok(_) => bail!("{}", daemon::taken(name)),
        Err(_) => Ok(()),
    }
}

/// Whether an array's daemon was killed.
fn is_dead(name: &str) -> bool {
    UnixStream::connect(socket_path(name)).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Has the daemon carry out a command, and prints its notes.
pub(crate) fn command(name: &str, request: &Request) -> anyhow::Result<()> {
    check_knows(name, request)?;
    Connection::open(name)?.command(request)
}

/// Stops all these arrays, and calls `tell` for each that has stopped. One that cannot be stopped does not
/// keep the others from stopping.
pub(crate) fn stop_all(names: &[String], force: bool, tell: impl Fn(&str)) -> anyhow::Result<()> {
    let stop_one = |name: &String| stop(name, force).map(|()| tell(name)).err();
    let failed: Vec<_> = names.iter().filter_map(stop_one).collect();
    match failed.iter().map(errors::line).reduce(|all, one| format!("{all}\nstripewise: {one}")) {
        None => Ok(()),
        Some(text) => bail!(text),
    }
}

/// Stops an array, or clears away what is left of one.
fn stop(name: &str, force: bool) -> anyhow::Result<()> {
    check_run_dir()?;
    if is_dead(name) {
        return stop_dead(name, force);
    }
    if !socket_path(name).exists() && daemon::remains_are_listed(name) {
        return clear_remains(name, force);
    }
    match stop_daemon(name, force) {
        Err(_) if dies(name) => stop_dead(name, force),
        result => result,
    }
}

/// Clears away what is left of an array whose daemon has died.
fn stop_dead(name: &str, force: bool) -> anyhow::Result<()> {
    note!("stripewise: {name}: its daemon had died; {AFTER_DEATH}");
    clear_remains(name, force)
}

/// Whether a daemon that failed a request is about to be dead: a killed daemon may still get requests while
/// it ends.
fn dies(name: &str) -> bool {
    (0..DEATH_POLLS).any(|_| {
        std::thread::sleep(DEATH_POLL);
        is_dead(name)
    })
}

/// Clears away what an array left behind.
fn clear_remains(name: &str, force: bool) -> anyhow::Result<()> {
    let kept = daemon::clear_remains(name, force)?;
    if kept.is_empty() {
        return Ok(());
    }
    let hint = if force { "" } else { "; --force unmounts what can be" };
    bail!("{name}: unmount or close what is left of it{hint}: {}", kept.join("; "))
}

/// Stops an array and waits until its daemon ends: until then, the name and the members are taken.
fn stop_daemon(name: &str, force: bool) -> anyhow::Result<()> {
    let connection = Connection::open(name)?;
    // Taken before the stop, so that it cannot be another process. None if this process cannot see the
    // daemon's.
    let daemon = connection.daemon_pid().and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let (unclean, notes) = ask_to_stop(name, connection, force)?;
    tell_notes(name, &notes);
    if let Some(daemon) = daemon {
        wait_for_end(name, &daemon)?;
    }
    match unclean.map(|why| format!("{name}: it has stopped, but is not clean: {why}")) {
        // `force` is for arrays that cannot be left clean, so this is no failure.
        Some(trouble) if force => note!("stripewise: {}", printable(&trouble)),
        Some(trouble) => bail!(trouble),
        None => {}
    }
    Ok(())
}

/// Asks until the array has stopped: with a bar while what is cached is written.
fn ask_to_stop(
    name: &str,
    mut connection: Connection,
    force: bool,
) -> anyhow::Result<(Option<String>, Notes)> {
    let interrupt = Interrupt::watch()?;
    let mut bar = EmptyingBar::default();
    loop {
        match connection.ask(&Request::Stop { force, steps: true })? {
            Reply::Stopped { unclean, notes } => {
                bar.clear();
                return Ok((unclean, notes));
            }
            Reply::Emptying { .. } if interrupt.is_asked() => {
                let then = if force {
                    "what members still take of what is cached is written, and then it stops, as --force says"
                } else {
                    "what is cached is written all the same, and then it stops"
                };
                bail!("{name}: no longer waited for; {then}")
            }
            Reply::Emptying { left_bytes } => bar.show(name, left_bytes),
            other => bail!("{name}: unexpected answer {other:?}"),
        }
        // A daemon answers one request on each.
        connection = Connection::open(name)?;
    }
}

fn wait_for_end(name: &str, daemon: &OwnedFd) -> anyhow::Result<()> {
    let mut ended = [PollFd::new(daemon, PollFlags::IN)];
    let limit = Timespec { tv_sec: END_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
    if poll(&mut ended, Some(&limit))? == 0 {
        bail!("{name}: it was stopped, but its daemon is still there after {} s; see its log", limit.tv_sec);
    }
    Ok(())
}

/// An array's status.
pub(crate) fn status(name: &str) -> anyhow::Result<ArrayStatus> {
    match ask(name, &Request::Status)? {
        Reply::Status(status) => Ok(*status),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}
