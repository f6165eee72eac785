//! Talking to an array's daemon.

mod attended;
mod stop;

use std::{
    io::ErrorKind,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::{net::sockopt::socket_peercred, process::Pid};
use stripewise_wire::{ANSWER_TIMEOUT, ArrayStatus, Reply, Request, protocol_of};

pub(crate) use self::{
    attended::{Attended, Interrupted},
    stop::stop_all,
};
use crate::{
    daemon,
    printable::printable_list,
    rundir::{check_run_dir, socket_path},
    said::tell_notes,
    sigpipe,
};

/// How long it may take to see whether a daemon listens. A killed one is known at once.
const DEATH_LOOK: Duration = Duration::from_millis(100);

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
        Self::open_within(name, ANSWER_TIMEOUT)?.ok_or_else(|| no_answer(name))
    }

    /// None where the daemon takes no connection within the limit, or until a signal comes.
    fn open_within(name: &str, limit: Duration) -> anyhow::Result<Option<Self>> {
        check_run_dir()?;
        let daemon = match stripewise_wire::Connection::open_within(&socket_path(name), limit) {
            Ok(daemon) => daemon,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
                    ErrorKind::NotFound => Err(not_running(name)),
                    ErrorKind::ConnectionRefused => Err(Dead(name.to_owned()).into()),
                    _ => Err(anyhow!("{name}: {}: {error}", socket_path(name).display())),
                };
            }
        };
        Ok(Some(Self { name: name.to_owned(), daemon, is_used: false }))
    }

    /// The process that listens, as the kernel reports it. Known even if the daemon cannot answer for its
    /// array.
    fn daemon_pid(&self) -> Option<Pid> {
        socket_peercred(&self.daemon).ok().map(|peer| peer.pid)
    }

    /// Sends one request and returns the daemon's answer; its error becomes ours.
    pub(crate) fn ask(&mut self, request: &Request) -> anyhow::Result<Reply> {
        let answer = self.exchange(request)?;
        self.reply_of(&answer)
    }

    /// As [`Connection::ask`]; `waits` comes back when the socket has the answer, or with false where that is not waited for any
    /// longer: then there is none.
    fn ask_while(
        &mut self,
        request: &Request,
        waits: impl FnOnce(BorrowedFd<'_>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Option<Reply>> {
        let answer = self.exchange_while(request, waits)?;
        answer.map(|answer| self.reply_of(&answer)).transpose()
    }

    fn reply_of(&self, answer: &str) -> anyhow::Result<Reply> {
        let name = &self.name;
        match Reply::read(answer) {
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
        let answer = self.exchange_while(request, |_| Ok(true))?;
        answer.with_context(|| format!("{}: there is no answer", self.name))
    }

    fn exchange_while(
        &mut self,
        request: &Request,
        waits: impl FnOnce(BorrowedFd<'_>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Option<String>> {
        let name = &self.name;
        let sent = sigpipe::survived(|| self.daemon.send(request));
        if !waits(self.daemon.as_fd())? {
            return Ok(None);
        }
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
            ErrorKind::WouldBlock => no_answer(name),
            _ => anyhow!("{name}: no answer from its daemon: {error}"),
        })?;
        answer.with_context(|| format!("{name}: its daemon ended before it answered; see its log")).map(Some)
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

fn no_answer(name: &str) -> anyhow::Error {
    anyhow!("{name}: no answer from its daemon for {} s; see its log", ANSWER_TIMEOUT.as_secs())
}

/// Refuses a request with an option that an older daemon would ignore.
pub(crate) fn check_knows(name: &str, request: &Request) -> anyhow::Result<()> {
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
    Connection::open_within(name, DEATH_LOOK).is_err_and(|error| error.is::<Dead>())
}

/// Has the daemon carry out a command, and prints its notes.
pub(crate) fn command(name: &str, request: &Request) -> anyhow::Result<()> {
    check_knows(name, request)?;
    Connection::open(name)?.command(request)
}

/// An array's status.
pub(crate) fn status(name: &str) -> anyhow::Result<ArrayStatus> {
    status_of(name, ask(name, &Request::Status)?)
}

/// The same, for a command that may be interrupted while it waits.
pub(crate) fn status_attended(attended: &mut Attended, goes_on: &str) -> anyhow::Result<ArrayStatus> {
    let reply = attended.ask(&Request::Status, goes_on)?;
    status_of(attended.name(), reply)
}

fn status_of(name: &str, reply: Reply) -> anyhow::Result<ArrayStatus> {
    match reply {
        Reply::Status(status) => Ok(*status),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}
