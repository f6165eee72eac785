//! The descriptor of `/dev/fuse` that a mount talks by: one read gives one request, and one write takes one reply.

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
};

use rustix::io::{readv, writev};

use crate::{
    Errno,
    protocol::RequestId,
    reply::{error_code, header},
};

/// A write takes so many slices (`UIO_MAXIOV`), and a reply must be a single write.
const SLICES_MAX: usize = 1024;

/// What a read has given.
pub(crate) enum Received {
    /// A request of so many bytes.
    Request(usize),
    /// Nothing this time.
    Nothing,
    /// The mount is gone.
    End,
}

/// An open `/dev/fuse` with a mount.
#[derive(Debug)]
pub(crate) struct Channel {
    fd: OwnedFd,
}

impl Channel {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Waits for a request. Its first bytes go to `head`, and what does not fit there goes to `body`.
    pub(crate) fn receive(&self, head: &mut [u8], body: &mut [u8]) -> Result<Received, Errno> {
        match readv(&self.fd, &mut [IoSliceMut::new(head), IoSliceMut::new(body)]) {
            Ok(len) => Ok(Received::Request(len)),
            // NOENT: the caller gave the request up while it was being read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Received::Nothing),
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Received::End),
            Err(error) => Err(error),
        }
    }

    /// Sends a successful reply whose body is in `parts`.
    ///
    /// What cannot be sent is answered with EIO, so that nobody waits for ever. Who no longer waits, or has gone with
    /// the mount, needs no reply.
    pub(crate) fn send(&self, id: RequestId, parts: &[IoSlice<'_>]) {
        match self.send_parts(id, 0, parts) {
            Ok(()) => {}
            Err(error) if is_gone(error) => {
                tracing::debug!(id = id.0, %error, "nobody waits for a FUSE reply")
            }
            Err(error) => {
                tracing::warn!(id = id.0, %error, "the kernel refuses a FUSE reply; its request fails with EIO");
                self.send_error(id, Errno::IO);
            }
        }
    }

    /// Sends an error.
    pub(crate) fn send_error(&self, id: RequestId, error: Errno) {
        if let Err(error) = self.send_parts(id, error_code(error), &[]) {
            tracing::debug!(id = id.0, %error, "nobody waits for a FUSE reply");
        }
    }

    fn send_parts(&self, id: RequestId, error: i32, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        let body_bytes = parts.iter().map(|part| part.len()).sum();
        let header = header(id, error, body_bytes).ok_or(Errno::MSGSIZE)?;
        let (apart, joined) = parts.split_at(parts.len().min(SLICES_MAX - 2));
        let joined = joined.iter().fold(Vec::new(), |mut all, part| {
            all.extend_from_slice(part);
            all
        });
        let mut slices = Vec::with_capacity(apart.len() + 2);
        slices.push(IoSlice::new(&header));
        slices.extend_from_slice(apart);
        if !joined.is_empty() {
            slices.push(IoSlice::new(&joined));
        }
        rustix::io::retry_on_intr(|| writev(&self.fd, &slices)).map(drop)
    }
}

/// The request, or the whole mount, is gone.
fn is_gone(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NODEV | Errno::CONNABORTED | Errno::PERM)
}
