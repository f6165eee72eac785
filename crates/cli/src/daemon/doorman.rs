//! The control socket while the array is being opened. Opening seldom takes long, so commands wait for a
//! moment. After that, each command is told that the array is being opened, so that one member that hangs
//! keeps no command waiting. `stop --force` then ends the daemon.

use std::{
    fs,
    io::{PipeReader, PipeWriter, Read, pipe},
    os::{
        fd::AsFd,
        unix::net::{UnixListener, UnixStream},
    },
    process,
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
/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers commands until it is dropped. Dropping it waits for no client.
pub(super) struct Doorman {
    /// Dropping this ends the door's thread.
    stays: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Doorman {
    /// Answers on this array's socket from now on.
    pub(super) fn begin(name: &str, listener: &UnixListener) -> anyhow::Result<Self> {
        Self::begin_after(QUIET, name, listener)
    }

    fn begin_after(quiet: Duration, name: &str, listener: &UnixListener) -> anyhow::Result<Self> {
        let (end, stays) = pipe()?;
        let door =
            Door { name: name.to_owned(), listener: listener.try_clone()?, end, began: Instant::now() };
        let stand = move || {
            if let Err(error) = door.stand(quiet) {
                tracing::warn!(%error, "commands wait until the array is open");
            }
        };
        let thread = thread::Builder::new().name("stripewise-door".into()).spawn(stand)?;
        Ok(Self { stays: Some(stays), thread: Some(thread) })
    }
}

impl Drop for Doorman {
    fn drop(&mut self) {
        self.stays = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The event that comes first.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    /// The array is open, or will not be.
    End,
    /// A client connects, or sends something.
    Client,
    /// The time is up.
    Late,
}

/// What the doorman's thread works with.
struct Door {
    name: String,
    listener: UnixListener,
    /// Becomes readable at the end.
    end: PipeReader,
    began: Instant,
}

impl Door {
    /// Lets clients wait for a moment, then turns each away until the end.
    fn stand(&self, quiet: Duration) -> Result<(), Errno> {
        if self.wait(None, Some(self.began + quiet))? == Event::End {
            return Ok(());
        }
        while self.wait(Some(&self.listener), None)? == Event::Client {
            let served = self.listener.accept().map_err(Into::into);
            let served = served.and_then(|(stream, _)| self.turn_away(&stream));
            served.unwrap_or_else(|error| tracing::debug!("control connection: {error:#}"));
        }
        Ok(())
    }

    fn wait(&self, client: Option<&dyn AsFd>, until: Option<Instant>) -> Result<Event, Errno> {
        let mut awaited = vec![PollFd::new(&self.end, PollFlags::IN)];
        awaited.extend(client.map(|client| PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN)));
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            return match poll(&mut awaited, left.as_ref()) {
                Ok(0) => Ok(Event::Late),
                Ok(_) if awaited[0].revents().is_empty() => Ok(Event::Client),
                Ok(_) => Ok(Event::End),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Tells a command that the array is not open yet. A stop by force ends the daemon, as a crash would.
    fn turn_away(&self, stream: &UnixStream) -> anyhow::Result<()> {
        stream.set_nonblocking(true)?;
        let said = self.hear(stream)?;
        let waited_s = self.began.elapsed().as_secs();
        let name = &self.name;
        if matches!(Request::read(&said), Ok(Request::Stop { force: true, .. })) {
            tracing::warn!(waited_s, "stopped by force while the array is being opened");
            let notes = vec![
                "it was being opened: as after a crash, it is checked when it is opened again".to_owned(),
            ];
            answer(stream, &Reply::Stopped { unclean: None, notes }).context("answering before the end")?;
            let _ = fs::remove_file(socket_path(name));
            process::exit(1);
        }
        let why = format!(
            "it is being opened, for {waited_s} s so far: a member may hang; see its log. `stripewise stop {name} --force` \
             ends that"
        );
        answer(stream, &Reply::Error(why))
    }

    /// A client's request, as far as it arrives in time and before the end.
    fn hear(&self, mut stream: &UnixStream) -> anyhow::Result<String> {
        let until = Instant::now() + REQUEST_TIMEOUT;
        let mut said = Vec::new();
        let mut part = [0; 4096];
        while !said.ends_with(b"\n")
            && (said.len() as u64) < REQUEST_BYTES_MAX
            && self.wait(Some(stream), Some(until))? == Event::Client
        {
            match stream.read(&mut part)? {
                0 => break,
                count => said.extend(&part[..count]),
            }
        }
        Ok(String::from_utf8(said)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use super::*;

    fn socket() -> (tempfile::TempDir, UnixListener, impl Fn() -> UnixStream) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        (folder, listener, move || UnixStream::connect(&path).unwrap())
    }

    fn answer_to(client: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn clients_are_told_that_the_array_is_being_opened() {
        let (_folder, listener, connect) = socket();
        let _doorman = Doorman::begin_after(Duration::ZERO, "a", &listener).unwrap();
        for _ in 0..2 {
            let mut client = connect();
            client.write_all(Request::Status.line().unwrap().as_bytes()).unwrap();
            assert!(answer_to(&client).contains("being opened"));
        }
    }

    #[test]
    fn neither_the_quiet_nor_a_client_that_says_nothing_delays_the_end() {
        let (_folder, listener, connect) = socket();
        for quiet in [Duration::from_secs(1000), Duration::ZERO] {
            let doorman = Doorman::begin_after(quiet, "a", &listener).unwrap();
            let _client = connect();
            thread::sleep(Duration::from_millis(50));
            let ends = Instant::now();
            drop(doorman);
            assert!(ends.elapsed() < REQUEST_TIMEOUT / 2, "{:?} after {quiet:?}", ends.elapsed());
        }
    }
}
