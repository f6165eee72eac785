//! One request in the ring: its buffers while the kernel uses them, and the future that waits for it.
//!
//! The buffers live in the reactor's slab from submission to completion, whatever happens to the future. That is
//! what makes the raw pointers in the ring sound.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use io_uring::{opcode, squeue, types};

use super::reactor;
use crate::{IoError, IoErrorKind, ReadBufs, WriteBufs, bufs_len};

/// What a request lends to the kernel.
#[derive(Debug, Default)]
pub(crate) enum Payload {
    #[default]
    None,
    Read(ReadBufs),
    Write(WriteBufs),
}

impl Payload {
    fn pieces(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Read(bufs) => bufs.len(),
            Self::Write(bufs) => bufs.len(),
        }
    }
}

/// What the kernel is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Scatter read at an offset.
    Read { offset_bytes: u64 },
    /// Gather write at an offset, with `RWF_*` flags.
    Write { offset_bytes: u64, rw_flags: i32 },
    /// `fdatasync`.
    Sync,
    /// `fallocate` with a mode.
    Allocate { offset_bytes: u64, len_bytes: u64, mode: i32 },
    /// `recv` into one buffer: whatever the socket has, or, with `all`, until the buffer is full or the peer closes.
    Receive { all: bool },
    /// `sendmsg` of everything. A peer that has gone is an error, not a signal.
    Send,
    /// `accept4` with close-on-exec.
    Accept,
}

/// How a request ended.
pub(crate) struct Outcome {
    /// The bytes moved (or the kernel's other non-negative answer).
    pub(crate) result: Result<u32, IoError>,
    pub(crate) payload: Payload,
}

pub(super) enum Waiting {
    /// Somebody may wait; the waker is theirs.
    Task(Option<Waker>),
    /// The kernel is done and nobody has fetched the outcome yet.
    Done(Result<u32, IoError>),
    /// The future was dropped: the slot is freed when the kernel is done.
    Orphan,
}

/// A slab entry.
pub(super) struct Slot {
    pub(super) waiting: Waiting,
    command: Command,
    payload: Payload,
    /// Kept alive until completion, so that a reused descriptor number can never be hit.
    fd: Arc<OwnedFd>,
    /// What a regular file has at least; 0 where that is not to be looked at.
    file_bytes: u64,
    iovecs: Vec<libc::iovec>,
    /// What points to them, for a socket.
    message: Option<Box<libc::msghdr>>,
    total_bytes: usize,
    done_bytes: usize,
}

/// With MSG_WAITALL the kernel itself goes on where the socket took a part.
const SEND_FLAGS: u32 = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;

/// A message of these pieces, without address and control data.
#[allow(unsafe_code)]
fn message_of(iovecs: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: zeroes are a valid message: no address, no pieces, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = iovecs.as_mut_ptr();
    message.msg_iovlen = iovecs.len() as _;
    message
}

// SAFETY: the raw pointers in `iovecs` point into `payload`, those in `message` to `iovecs`; the slot owns all of them.
#[allow(unsafe_code)]
unsafe impl Send for Slot {}

impl Slot {
    pub(super) fn new(fd: Arc<OwnedFd>, file_bytes: u64, command: Command, payload: Payload) -> Self {
        let total_bytes = match &payload {
            Payload::None => 0,
            Payload::Read(bufs) => bufs_len(bufs),
            Payload::Write(bufs) => bufs_len(bufs),
        };
        let waiting = Waiting::Task(None);
        Self {
            waiting,
            command,
            payload,
            fd,
            file_bytes,
            iovecs: Vec::new(),
            message: None,
            total_bytes,
            done_bytes: 0,
        }
    }

    /// The submission entry for what is left of the request.
    pub(super) fn entry(&mut self) -> squeue::Entry {
        self.fill_iovecs();
        let fd = types::Fd(self.fd.as_raw_fd());
        let count = self.iovecs.len() as u32;
        let at = self.done_bytes as u64;
        match self.command {
            Command::Read { offset_bytes } if count == 1 => {
                let v = self.iovecs[0];
                opcode::Read::new(fd, v.iov_base.cast(), v.iov_len as u32).offset(offset_bytes + at).build()
            }
            Command::Read { offset_bytes } => {
                opcode::Readv::new(fd, self.iovecs.as_ptr(), count).offset(offset_bytes + at).build()
            }
            Command::Write { offset_bytes, rw_flags } if count == 1 => {
                let v = self.iovecs[0];
                opcode::Write::new(fd, v.iov_base.cast(), v.iov_len as u32)
                    .offset(offset_bytes + at)
                    .rw_flags(rw_flags)
                    .build()
            }
            Command::Write { offset_bytes, rw_flags } => opcode::Writev::new(fd, self.iovecs.as_ptr(), count)
                .offset(offset_bytes + at)
                .rw_flags(rw_flags)
                .build(),
            Command::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Command::Allocate { offset_bytes, len_bytes, mode } => {
                opcode::Fallocate::new(fd, len_bytes).offset(offset_bytes).mode(mode).build()
            }
            Command::Receive { all } => {
                let v = self.iovecs[0];
                let flags = if all { libc::MSG_WAITALL } else { 0 };
                opcode::Recv::new(fd, v.iov_base.cast(), v.iov_len as u32).flags(flags).build()
            }
            Command::Send => {
                let message = self.message.insert(Box::new(message_of(&mut self.iovecs)));
                opcode::SendMsg::new(fd, &raw const **message).flags(SEND_FLAGS).build()
            }
            Command::Accept => opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build(),
        }
    }

    fn fill_iovecs(&mut self) {
        self.iovecs.clear();
        self.iovecs.reserve_exact(self.payload.pieces());
        let mut skip = self.done_bytes;
        let mut add = |base: *mut u8, len: usize| {
            let skipped = skip.min(len);
            skip -= skipped;
            if len > skipped {
                let iov_base = base.wrapping_add(skipped).cast();
                self.iovecs.push(libc::iovec { iov_base, iov_len: len - skipped });
            }
        };
        match &mut self.payload {
            Payload::None => {}
            Payload::Read(bufs) => bufs.iter_mut().for_each(|b| add(b.as_mut_ptr(), b.len())),
            Payload::Write(bufs) => bufs.iter().for_each(|b| add(b.as_ptr().cast_mut(), b.len())),
        }
    }

    /// Takes a completion. `None` asks for another submission of what is left.
    pub(super) fn complete(&mut self, res: i32) -> Option<Result<u32, IoError>> {
        if res == -libc::EINTR || res == -libc::EAGAIN {
            return None;
        }
        if res < 0 {
            return Some(Err(IoError::from_errno(-res)));
        }
        let result = match self.command {
            Command::Read { .. } | Command::Write { .. } | Command::Send => self.advance(res as usize),
            Command::Receive { .. } => Some(Ok(self.done_bytes as u32 + res as u32)),
            _ => Some(Ok(res as u32)),
        };
        if self.file_is_cut_off() { Some(Err(IoError::new(IoErrorKind::Truncated))) } else { result }
    }

    /// Whether a regular file has lost its end. A write beyond its new end makes it longer again, and the gap reads
    /// as zeroes without an error: so every request looks, after it was done and before anybody relies on it.
    fn file_is_cut_off(&self) -> bool {
        self.file_bytes > 0
            && rustix::fs::fstat(&self.fd).is_ok_and(|stat| (stat.st_size as u64) < self.file_bytes)
    }

    fn advance(&mut self, bytes: usize) -> Option<Result<u32, IoError>> {
        self.done_bytes += bytes;
        if self.done_bytes == self.total_bytes {
            return Some(Ok(self.total_bytes as u32));
        }
        if bytes == 0 {
            return Some(Err(IoError::new(IoErrorKind::Truncated)));
        }
        None
    }

    pub(super) fn into_outcome(self, result: Result<u32, IoError>) -> Outcome {
        Outcome { result, payload: self.payload }
    }
}

/// Waits for one request. Dropping it leaves the request running; the reactor keeps its buffers.
#[derive(Debug)]
pub(crate) struct OpHandle {
    worker: usize,
    index: usize,
    finished: bool,
}

impl OpHandle {
    /// Queues a request into this worker's ring.
    pub(crate) fn submit(fd: &Arc<OwnedFd>, command: Command, payload: Payload) -> Self {
        Self::submit_to_file(fd, 0, command, payload)
    }

    /// As [`OpHandle::submit`], of which the first `done_bytes` are done.
    pub(crate) fn submit_rest(
        fd: &Arc<OwnedFd>,
        command: Command,
        payload: Payload,
        done_bytes: usize,
    ) -> Self {
        Self::submit_slot(Slot { done_bytes, ..Slot::new(fd.clone(), 0, command, payload) })
    }

    /// As [`OpHandle::submit`], for a regular file of at least this size: the request fails if it is shorter.
    pub(crate) fn submit_to_file(
        fd: &Arc<OwnedFd>,
        file_bytes: u64,
        command: Command,
        payload: Payload,
    ) -> Self {
        Self::submit_slot(Slot::new(fd.clone(), file_bytes, command, payload))
    }

    fn submit_slot(slot: Slot) -> Self {
        let (worker, index) = reactor::with(|reactor| (reactor.worker(), reactor.submit(slot)));
        Self { worker, index, finished: false }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = reactor::with(|reactor| {
            assert_eq!(reactor.worker(), self.worker, "an I/O is awaited on the worker that submitted it");
            reactor.poll(self.index, cx.waker())
        });
        match outcome {
            Some(outcome) => {
                self.finished = true;
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for OpHandle {
    fn drop(&mut self) {
        if !self.finished {
            reactor::abandon(self.worker, self.index);
        }
    }
}
