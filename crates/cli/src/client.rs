//! Talking to an array's daemon.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};

use crate::{
    protocol::{ArrayStatus, Reply, Request},
    rundir::socket_path,
};

/// The longest that a command may take to be answered: detaching waits for writes to drain.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

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

/// An array's status.
pub(crate) fn status(name: &str) -> anyhow::Result<ArrayStatus> {
    match ask(name, &Request::Status)? {
        Reply::Status(status) => Ok(*status),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}
