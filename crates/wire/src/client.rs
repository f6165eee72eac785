//! A small client: it asks a daemon by types, and waits for the answer. It knows no run directory and prints
//! nothing.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    sockopt::{Timeout, set_socket_timeout},
};
use thiserror::Error;

use crate::{Reply, Request, WireError, protocol_of};

/// The longest that a request may take to be answered: a detach waits for writes to drain. All that a daemon
/// waits for ends before.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// The control socket of an array, in a run directory.
pub fn socket_in(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.sock"))
}

/// Why a request has no answer, or not the one that was wanted.
#[derive(Debug, Error)]
pub enum AskError {
    /// There is no daemon, or it could not be talked to. One that does not answer in time is
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    #[error("the daemon cannot be asked: {0}")]
    Io(#[from] io::Error),
    /// It ended the connection first.
    #[error("the daemon ended the connection before it answered")]
    Closed,
    /// Its answer is of a release that has other answers.
    #[error("the daemon's answer is of another release: {0}")]
    Answer(#[from] WireError),
    /// The request has an option that the daemon would pass over. Nothing was asked.
    #[error(
        "the daemon speaks protocol {speaks} of the control socket, and an option of the request is of {needs}"
    )]
    Older {
        /// The protocol that the daemon speaks.
        speaks: u32,
        /// The least that knows the option.
        needs: u32,
    },
    /// It did not do it, and says why.
    #[error("{0}")]
    Refused(String),
}

/// Asks one thing on a connection of its own. A request with options of a later protocol is sent only to a
/// daemon that knows them.
///
/// # Errors
/// [`AskError`]; a [`Reply::Error`] is one, too.
pub fn ask(socket: &Path, request: &Request) -> Result<Reply, AskError> {
    let needs = request.needs();
    if needs > 0 {
        let speaks = protocol_of(&Connection::open(socket)?.exchange(&Request::Status)?);
        if speaks < needs {
            return Err(AskError::Older { speaks, needs });
        }
    }
    Connection::open(socket)?.ask(request)
}

/// A connection to a daemon. What goes on there for it ends with it.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects; that, and each answer, may take [`ANSWER_TIMEOUT`].
    ///
    /// # Errors
    /// As [`Connection::open_within`].
    pub fn open(socket: &Path) -> io::Result<Self> {
        Self::open_within(socket, ANSWER_TIMEOUT)
    }

    /// As [`Connection::open`], with a limit of its own for the connecting: that waits while as many connections as the daemon's
    /// queue has room for are not accepted, as of a daemon that stands still.
    ///
    /// # Errors
    /// `NotFound` where no such array runs, and `ConnectionRefused` where its daemon was killed; `WouldBlock` at the limit, and
    /// `Interrupted` at a signal before; else as the system has it.
    pub fn open_within(socket: &Path, limit: Duration) -> io::Result<Self> {
        let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // A connect waits as long as a send, and with a limit no signal begins it anew.
        set_socket_timeout(&stream, Timeout::Send, Some(limit))?;
        connect(&stream, &SocketAddrUnix::new(socket)?)?;
        set_socket_timeout(&stream, Timeout::Send, None)?;
        let stream = UnixStream::from(stream);
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks one thing.
    ///
    /// # Errors
    /// [`AskError`], but never [`AskError::Older`]: a caller that uses options first finds out, by [`protocol_of`],
    /// whether the daemon knows them.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, AskError> {
        match Reply::read(&self.exchange(request)?)? {
            Reply::Error(why) => Err(AskError::Refused(why)),
            reply => Ok(reply),
        }
    }

    fn exchange(&mut self, request: &Request) -> Result<String, AskError> {
        let sent = self.send(request);
        match self.receive()? {
            Some(line) => Ok(line),
            // A daemon that takes no more may have said so before it was asked.
            None => sent.map_err(AskError::Io).and(Err(AskError::Closed)),
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// As a write to a socket.
    pub fn send(&mut self, request: &Request) -> io::Result<()> {
        self.stream.get_mut().write_all(request.line()?.as_bytes())
    }

    /// The next line that the daemon says; none once it has ended the connection.
    ///
    /// # Errors
    /// As a read from a socket; `WouldBlock` after [`ANSWER_TIMEOUT`].
    pub fn receive(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        Ok((self.stream.read_line(&mut line)? > 0).then_some(line))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use super::*;
    use crate::{ArrayStatus, DiscardChoice, ServeLimits};

    /// Asks a daemon that gives these answers, one on each connection.
    fn asked(request: &Request, answers: &[String]) -> (Result<Reply, AskError>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let socket = socket_in(folder.path(), "a");
        let listener = UnixListener::bind(&socket).unwrap();
        thread::scope(|scope| {
            let daemon = scope.spawn(|| {
                let serve = |answer: &String| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut line = String::new();
                    BufReader::new(&stream).read_line(&mut line).unwrap();
                    stream.write_all(answer.as_bytes()).unwrap();
                    line
                };
                answers.iter().map(serve).collect()
            });
            (ask(&socket, request), daemon.join().unwrap())
        })
    }

    #[test]
    fn an_answer_is_a_reply_or_why_there_is_none() {
        let status = ArrayStatus { name: "a".to_owned(), ..ArrayStatus::default() };
        let answer = Reply::Status(Box::new(status)).line().unwrap();
        let (reply, heard) = asked(&Request::Status, &[answer]);
        assert!(matches!(reply, Ok(Reply::Status(status)) if status.name == "a"));
        assert!(heard[0].starts_with(r#"{"command":"status","protocol":"#), "{heard:?}");
        let (refused, _) = asked(&Request::Status, &[Reply::Error("no".to_owned()).line().unwrap()]);
        assert!(matches!(refused, Err(AskError::Refused(why)) if why == "no"));
        assert!(matches!(asked(&Request::Status, &[String::new()]).0, Err(AskError::Closed)));
        assert!(matches!(asked(&Request::Status, &["{}\n".to_owned()]).0, Err(AskError::Answer(_))));
        let nobody = ask("/nonexistent/a.sock".as_ref(), &Request::Status);
        assert!(matches!(nobody, Err(AskError::Io(error)) if error.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn connecting_has_a_limit_where_nothing_is_accepted() {
        const LIMIT: Duration = Duration::from_millis(50);
        let folder = tempfile::tempdir().unwrap();
        let socket = socket_in(folder.path(), "a");
        let listener = UnixListener::bind(&socket).unwrap();
        // The connections that were given up stay in the queue until they are accepted.
        let refused = (0..100_000).find_map(|_| Connection::open_within(&socket, LIMIT).err()).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "{refused}");
        drop(listener);
        let dead = Connection::open_within(&socket, LIMIT).unwrap_err();
        assert_eq!(dead.kind(), io::ErrorKind::ConnectionRefused, "{dead}");
    }

    #[test]
    fn a_daemon_is_not_asked_for_what_it_would_pass_over() {
        let request = Request::Serve {
            address: "/x".to_owned(),
            read_only: false,
            discard: DiscardChoice::Off,
            limits: ServeLimits::default(),
        };
        let old = "{\"status\":{}}\n".to_owned();
        let (refused, heard) = asked(&request, &[old]);
        assert!(matches!(refused, Err(AskError::Older { speaks: 0, needs: 2 })), "{refused:?}");
        assert_eq!(heard.len(), 1, "asked for its status only");
        let new = Reply::Status(Box::default()).line().unwrap();
        let done = Reply::Export("nbd+unix:///a?socket=/x".to_owned()).line().unwrap();
        let (served, heard) = asked(&request, &[new, done]);
        assert!(
            matches!(served, Ok(Reply::Export(_))) && heard[1].contains(r#""discard":"off""#),
            "{heard:?}"
        );
    }
}
