//! Talking to an array's daemon.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

use crate::{
    protocol::{ArrayStatus, Reply, Request},
    rundir::socket_path,
};

/// The longest that a command may take to be answered: detaching waits for writes to drain.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// The longest that a daemon may take to end after it has answered that it stopped.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends one request and returns the daemon's answer; its error becomes ours.
pub(crate) fn ask(name: &str, request: &Request) -> anyhow::Result<Reply> {
    let path = socket_path(name);
    let mut stream = UnixStream::connect(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("{name}: no such array is running; `stripewise status` lists those that are"),
        ErrorKind::ConnectionRefused => {
            anyhow!("{name}: its daemon has died; assemble the array again: it resyncs only what was being written")
        }
        _ => anyhow!("{name}: {}: {error}", path.display()),
    })?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream)
        .read_line(&mut answer)
        .with_context(|| format!("{name}: no answer from its daemon"))?;
    if answer.is_empty() {
        bail!("{name}: its daemon ended before it answered; see its log");
    }
    match serde_json::from_str(&answer).with_context(|| format!("{name}: an answer of another version"))? {
        Reply::Error(message) => Err(anyhow!("{name}: {message}")),
        reply => Ok(reply),
    }
}

/// Stops an array and waits for its daemon's end: until then name and members are still taken.
pub(crate) fn stop(name: &str, force: bool) -> anyhow::Result<()> {
    let pid = Pid::from_raw(status(name)?.pid.cast_signed());
    // Taken before, so that it can never be another process. None where the daemon's process cannot be seen from here.
    let daemon = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    ask(name, &Request::Stop { force })?;
    if let Some(daemon) = daemon {
        let mut ended = [PollFd::new(&daemon, PollFlags::IN)];
        let limit = Timespec { tv_sec: END_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
        if poll(&mut ended, Some(&limit))? == 0 {
            bail!(
                "{name}: it was stopped, but its daemon is still there after {} s; see its log",
                limit.tv_sec
            );
        }
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
