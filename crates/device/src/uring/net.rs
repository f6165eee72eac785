//! Stream sockets on the ring, for the NBD server and client.

use std::{
    os::fd::{AsFd, FromRawFd, OwnedFd},
    sync::Arc,
};

use smallvec::smallvec;

use super::op::{Command, OpHandle, Outcome, Payload};
use crate::{Completion, IoBuf, IoError, IoErrorKind, IoFuture, WriteBufs};

/// A connected stream socket (unix or TCP). Clones share the connection.
#[derive(Debug, Clone)]
pub struct Stream {
    fd: Arc<OwnedFd>,
}

/// What a receive brought: the number of bytes (0: the peer has closed), and the buffer handed back.
#[derive(Debug)]
pub struct Received {
    /// Bytes put at the start of the buffer.
    pub result: Result<usize, IoError>,
    /// The buffer that was lent.
    pub buf: IoBuf,
}

impl Stream {
    /// Takes over a connected socket in blocking mode.
    pub fn new(fd: impl Into<OwnedFd>) -> Self {
        Self { fd: Arc::new(fd.into()) }
    }

    /// Receives what is there, at least one byte unless the peer has closed.
    pub fn receive(&self, buf: IoBuf) -> IoFuture<Received> {
        let op = OpHandle::submit(&self.fd, Command::Receive, Payload::Read(smallvec![buf]));
        IoFuture::uring(op, finish_receive)
    }

    /// Sends all of `bufs`.
    pub fn send(&self, bufs: WriteBufs) -> Completion {
        let op = OpHandle::submit(&self.fd, Command::Send, Payload::Write(bufs));
        IoFuture::uring(op, |outcome| outcome.result.map(drop))
    }

    /// Ends the receiving half: what has arrived can still be received, then the stream is at its end. Replies can
    /// still be sent.
    pub fn shutdown_receive(&self) {
        let _ = rustix::net::shutdown(self.fd.as_fd(), rustix::net::Shutdown::Read);
    }

    /// Ends the connection in both directions: requests in the ring complete with what they have.
    pub fn shutdown(&self) {
        let _ = rustix::net::shutdown(self.fd.as_fd(), rustix::net::Shutdown::Both);
    }
}

fn finish_receive(outcome: Outcome) -> Received {
    let Payload::Read(mut bufs) = outcome.payload else { unreachable!("a receive lends a read buffer") };
    let buf = bufs.pop().expect("a receive lends one buffer");
    Received { result: outcome.result.map(|n| n as usize), buf }
}

/// A listening stream socket.
#[derive(Debug, Clone)]
pub struct Listener {
    fd: Arc<OwnedFd>,
}

impl Listener {
    /// Takes over a listening socket in blocking mode.
    pub fn new(fd: impl Into<OwnedFd>) -> Self {
        Self { fd: Arc::new(fd.into()) }
    }

    /// Waits for the next connection.
    pub fn accept(&self) -> IoFuture<Result<OwnedFd, IoError>> {
        let op = OpHandle::submit(&self.fd, Command::Accept, Payload::None);
        IoFuture::uring(op, |outcome| outcome.result.and_then(own_fd))
    }

    /// Makes waiting and future accepts fail.
    pub fn shutdown(&self) {
        let _ = rustix::net::shutdown(self.fd.as_fd(), rustix::net::Shutdown::Both);
    }
}

#[allow(unsafe_code)]
fn own_fd(raw: u32) -> Result<OwnedFd, IoError> {
    let raw = i32::try_from(raw).map_err(|_| IoError::new(IoErrorKind::Other))?;
    // SAFETY: accept has just returned this descriptor, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}
