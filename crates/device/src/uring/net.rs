//! Stream sockets, for the NBD server and client. A system call of its own moves what can be moved at once,
//! and the ring waits for the rest.

use std::{
    io::IoSlice,
    os::fd::{AsFd, FromRawFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags},
};
use smallvec::{SmallVec, smallvec};

use super::op::{Command, OpHandle, Outcome, Payload};
use crate::{Completion, IoBuf, IoError, IoErrorKind, IoFuture, WriteBufs, bufs_len};

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

    /// Receives what has arrived, at least one byte unless the peer has closed.
    pub fn receive(&self, buf: IoBuf) -> IoFuture<Received> {
        self.receive_as(Command::Receive { all: false }, buf)
    }

    /// Fills `buf`; less only if the peer has closed or the connection broke.
    pub fn receive_all(&self, buf: IoBuf) -> IoFuture<Received> {
        self.receive_as(Command::Receive { all: true }, buf)
    }

    /// How many bytes have arrived and were not received yet.
    pub fn arrived_bytes(&self) -> usize {
        rustix::io::ioctl_fionread(&self.fd).map_or(0, |bytes| bytes as usize)
    }

    /// Takes at once what has arrived; only the rest goes through the ring.
    fn receive_as(&self, command: Command, mut buf: IoBuf) -> IoFuture<Received> {
        if buf.is_empty() {
            return IoFuture::ready(Received { result: Ok(0), buf });
        }
        let received = match rustix::net::recv(&self.fd, &mut buf[..], RecvFlags::DONTWAIT) {
            Ok((_, received)) => Some(received),
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(error) => return IoFuture::ready(Received { result: Err(error_of(error)), buf }),
        };
        match received {
            Some(len) if len == 0 || len == buf.len() || command == (Command::Receive { all: false }) => {
                IoFuture::ready(Received { result: Ok(len), buf })
            }
            part => {
                let payload = Payload::Read(smallvec![buf]);
                let op = OpHandle::submit_rest(&self.fd, command, payload, part.unwrap_or(0));
                IoFuture::uring(op, finish_receive)
            }
        }
    }

    /// Sends all of `bufs`. What the socket has no room for at once goes through the ring. One send at a
    /// time: a second send before this one is done would mix with it.
    pub fn send(&self, bufs: WriteBufs) -> Completion {
        let total = bufs_len(&bufs);
        let sent = match self.send_now(&bufs) {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return IoFuture::ready(Err(error_of(error))),
        };
        if sent == total {
            return IoFuture::ready(Ok(()));
        }
        let op = OpHandle::submit_rest(&self.fd, Command::Send, Payload::Write(bufs), sent);
        IoFuture::uring(op, |outcome| outcome.result.map(drop))
    }

    fn send_now(&self, bufs: &WriteBufs) -> rustix::io::Result<usize> {
        let pieces: SmallVec<[IoSlice<'_>; 8]> = bufs.iter().map(|buf| IoSlice::new(buf)).collect();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.fd, &pieces, &mut SendAncillaryBuffer::default(), flags)
    }

    /// Ends the receiving half: what has arrived can still be received, then the stream is at its end.
    /// Replies can still be sent.
    pub fn shutdown_receive(&self) {
        let _ = rustix::net::shutdown(self.fd.as_fd(), rustix::net::Shutdown::Read);
    }

    /// Ends the connection in both directions: requests in the ring complete with what they have.
    pub fn shutdown(&self) {
        let _ = rustix::net::shutdown(self.fd.as_fd(), rustix::net::Shutdown::Both);
    }
}

fn error_of(errno: Errno) -> IoError {
    IoError::from_errno(errno.raw_os_error())
}

fn finish_receive(outcome: Outcome) -> Received {
    let buf = match outcome.payload {
        Payload::Read(mut bufs) => bufs.pop().expect("a receive lends one buffer"),
        // It went with its runtime.
        _ => IoBuf::with_len(0),
    };
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
