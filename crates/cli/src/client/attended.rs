//! Waiting for a daemon on behalf of a person: a signal ends the wait at once, and a member that keeps it from ending is named.

use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use stripewise_wire::{ANSWER_TIMEOUT, Reply, Request};

use super::{Connection, no_answer};
use crate::{interrupt::Interrupt, printable::printable, said::note, slow};

/// How long a wait lasts before it is asked what it is for, and how often after that.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest that each step of such a look takes: a daemon that stands still must not keep a signal waiting.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// How long after a look without an answer the next one comes. A daemon that stands still accepts nothing, so that each look
/// takes a place in its queue, which other commands need.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How often the same wait is told of.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// A signal has ended the wait.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Interrupted(String);

/// A command of a person that waits for an array's daemon.
pub(crate) struct Attended {
    name: String,
    interrupt: Interrupt,
    /// Which members did not answer at the last look.
    slow: Option<String>,
    /// When that was told last.
    told: Option<Instant>,
}

/// How a wait has ended.
#[derive(Debug, PartialEq, Eq)]
enum Waited {
    Ready,
    Interrupted,
    TooLong,
}

impl Attended {
    /// From now on, the first signal to this process asks for the end of the wait.
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        Ok(Self { name: name.to_owned(), interrupt: Interrupt::watch()?, slow: None, told: None })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// After [`Interrupted`]: the next signal asks for the end of the wait again.
    pub(crate) fn hear_again(&self) -> anyhow::Result<()> {
        Ok(self.interrupt.hear_again()?)
    }

    /// Asks one thing on a connection of its own, and waits for the answer. `goes_on` says what comes to pass without the command.
    ///
    /// # Errors
    /// The daemon's; [`Interrupted`].
    pub(crate) fn ask(&mut self, request: &Request, goes_on: &str) -> anyhow::Result<Reply> {
        let mut connection = self.open(goes_on)?;
        self.ask_on(&mut connection, request, goes_on)
    }

    /// A connection for one request. A daemon that stands still may take none.
    ///
    /// # Errors
    /// As [`Connection::open`]; [`Interrupted`].
    pub(super) fn open(&self, goes_on: &str) -> anyhow::Result<Connection> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match Connection::open_within(&self.name, LOOK_EVERY)? {
                Some(connection) => return Ok(connection),
                None if self.interrupt.is_asked() => return Err(self.interrupted(goes_on)),
                None if Instant::now() >= deadline => return Err(no_answer(&self.name)),
                None => {}
            }
        }
    }

    /// As [`Attended::ask`], on this connection.
    pub(super) fn ask_on(
        &mut self,
        connection: &mut Connection,
        request: &Request,
        goes_on: &str,
    ) -> anyhow::Result<Reply> {
        let reply = connection.ask_while(request, |daemon| match self.wait(daemon, ANSWER_TIMEOUT)? {
            Waited::Ready => Ok(true),
            Waited::Interrupted => Ok(false),
            Waited::TooLong => Err(no_answer(&self.name)),
        })?;
        reply.ok_or_else(|| self.interrupted(goes_on))
    }

    /// Waits until a descriptor is readable. False if it is not within the limit.
    ///
    /// # Errors
    /// [`Interrupted`]; those of the system.
    pub(super) fn wait_for(
        &mut self,
        fd: BorrowedFd<'_>,
        limit: Duration,
        goes_on: &str,
    ) -> anyhow::Result<bool> {
        match self.wait(fd, limit)? {
            Waited::Ready => Ok(true),
            Waited::TooLong => Ok(false),
            Waited::Interrupted => Err(self.interrupted(goes_on)),
        }
    }

    fn interrupted(&self, goes_on: &str) -> anyhow::Error {
        let slow = self.slow.as_ref().map_or(String::new(), |slow| format!(": {slow}"));
        Interrupted(format!("{}: no longer waited for{slow}; {goes_on}", self.name)).into()
    }

    fn wait(&mut self, fd: BorrowedFd<'_>, limit: Duration) -> anyhow::Result<Waited> {
        let began = Instant::now();
        let (deadline, mut looks_at) = (began + limit, began + LOOK_EVERY);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match ready(fd, &self.interrupt, left.min(LOOK_EVERY))? {
                Waited::TooLong if left.is_zero() => return Ok(Waited::TooLong),
                Waited::TooLong if Instant::now() < looks_at => {}
                Waited::TooLong => {
                    let is_answered = self.look();
                    looks_at = Instant::now() + if is_answered { LOOK_EVERY } else { LOOK_AGAIN };
                }
                waited => return Ok(waited),
            }
        }
    }

    /// Asks the daemon which members do not answer, and tells it, now and then. A daemon that does not know is of an older release,
    /// or about to end. Returns whether it has answered.
    fn look(&mut self) -> bool {
        let slow = Connection::open_within(&self.name, LOOK_MAX).and_then(|connection| {
            let Some(mut connection) = connection else { return Ok(None) };
            connection.ask_while(&Request::Slow, |daemon| {
                Ok(ready(daemon, &self.interrupt, LOOK_MAX)? == Waited::Ready)
            })
        });
        let members = match slow {
            Ok(Some(Reply::Slow(members))) => members,
            other => return !matches!(other, Ok(None)),
        };
        self.slow = slow::text(&members).map(|text| printable(&text));
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY);
        if let Some(slow) = self.slow.as_ref().filter(|_| is_due) {
            note!("stripewise: {}: it waits: {slow}", self.name);
            self.told = Some(Instant::now());
        }
        true
    }
}

/// Waits for a descriptor, or a signal. What is there already counts before a signal.
fn ready(fd: BorrowedFd<'_>, interrupt: &Interrupt, limit: Duration) -> anyhow::Result<Waited> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN), PollFd::new(interrupt, PollFlags::IN)];
    let limit = Timespec::try_from(limit).map_err(|_| anyhow!("{limit:?} is no time to wait"))?;
    match poll(&mut fds, Some(&limit)) {
        // The signal itself. It is seen at the next wait.
        Ok(0) | Err(Errno::INTR) => Ok(Waited::TooLong),
        Ok(_) if fds[0].revents().is_empty() => Ok(Waited::Interrupted),
        Ok(_) => Ok(Waited::Ready),
        Err(error) => Err(error.into()),
    }
}
