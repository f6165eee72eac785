//! One request in the ring: its buffers while the kernel uses them, and the future that waits for it.
//!
//! The buffers live in the reactor's slab from submission to completion, whatever happens to the future. That
//! makes the raw pointers in the ring sound.

use std::{
    future::poll_fn,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use io_uring::{opcode, squeue, types};
use rustix::fs::{AtFlags, StatxFlags, statx};

use super::{executor::Inbox, files::OpenFile, reactor, routed::Routed, waiting::Waiting};
use crate::{IoError, IoErrorKind, ReadBufs, WriteBufs, bufs_len};

/// The buffers that a request lends to the kernel.
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

/// The operation that the kernel performs.
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
    /// `recv` into one buffer: whatever the socket has, or, with `all`, until the buffer is full or the peer
    /// closes.
    Receive { all: bool },
    /// `sendmsg` of everything. A peer that has gone is an error, not a signal.
    Send,
    /// `accept4` with close-on-exec.
    Accept,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    command: Command,
    /// The bytes moved (or the kernel's other non-negative answer).
    pub(crate) result: Result<u32, IoError>,
    pub(crate) payload: Payload,
}

impl Outcome {
    /// The request's runtime has ended, and its buffers with it.
    fn lost() -> Self {
        let result = Err(IoError::new(IoErrorKind::NoRuntime));
        Self { command: Command::Sync, result, payload: Payload::None }
    }

    /// Nobody wants it: a connection that was accepted is closed.
    #[allow(unsafe_code)]
    pub(super) fn discard(self) {
        if let (Command::Accept, Ok(fd)) = (self.command, self.result) {
            // SAFETY: the kernel has just made the descriptor for this request, and no other code knows it.
            drop(unsafe { OwnedFd::from_raw_fd(fd as RawFd) });
        }
    }
}

/// An outcome on its way to another thread. Its future may be dropped there before it arrives.
#[derive(Debug)]
struct Unclaimed(Option<Outcome>);

impl Unclaimed {
    fn claim(mut self) -> Outcome {
        self.0.take().expect("an outcome is claimed once")
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Outcome::discard);
    }
}

/// The file or socket of a request.
pub(super) enum Target {
    /// Kept open until completion, so that a reused descriptor number can never be hit.
    Socket(Arc<OwnedFd>),
    /// Likewise.
    File(Arc<OpenFile>),
    /// Kept open by the worker's table of registered files.
    Registered(RawFd),
}

impl Target {
    #[allow(unsafe_code)]
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(fd) => fd.as_fd(),
            Self::File(file) => file.as_fd(),
            // SAFETY: the worker's table keeps it open while the request, which the table counts, is under
            // way.
            Self::Registered(fd) => unsafe { BorrowedFd::borrow_raw(*fd) },
        }
    }
}

/// A request to a member's file.
pub(crate) struct FileRequest<'a> {
    pub(crate) file: &'a Arc<OpenFile>,
    /// The least size of a regular file: the request fails if the file is shorter. 0: no check.
    pub(crate) file_bytes: u64,
    /// Whether it may go through the polled ring, if the worker has one; false once the kernel has refused.
    pub(crate) can_poll: &'a Arc<AtomicBool>,
    pub(crate) command: Command,
    pub(crate) payload: Payload,
}

impl FileRequest<'_> {
    /// Whether rings may poll for it: a read, or a write that need not be durable when it completes.
    pub(super) fn is_to_be_polled(&self) -> bool {
        matches!(self.command, Command::Read { .. } | Command::Write { rw_flags: 0, .. })
            && self.can_poll.load(Relaxed)
    }
}

/// A slab entry.
pub(super) struct Slot {
    pub(super) waiting: Waiting,
    command: Command,
    payload: Payload,
    target: Target,
    /// The least size of a regular file; 0: no check.
    file_bytes: u64,
    /// For a request in the polled ring: whether its file can be polled.
    polled: Option<Arc<AtomicBool>>,
    iovecs: Vec<libc::iovec>,
    /// Points to them, for a socket.
    message: Option<Box<libc::msghdr>>,
    total_bytes: usize,
    done_bytes: usize,
}

/// The last offset of a file; larger values mean no offset, as for an eventfd.
const SEEK_MAX: u64 = i64::MAX as u64;

/// With MSG_WAITALL the kernel itself continues if the socket took only a part.
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

// SAFETY: the raw pointers in `iovecs` point into `payload`, those in `message` to `iovecs`; the slot owns
// all of them.
#[allow(unsafe_code)]
unsafe impl Send for Slot {}

impl Slot {
    pub(super) fn new(target: Target, command: Command, payload: Payload) -> Self {
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
            target,
            file_bytes: 0,
            polled: None,
            iovecs: Vec::new(),
            message: None,
            total_bytes,
            done_bytes: 0,
        }
    }

    /// The slot of a request to a file, either registered or kept open by the slot.
    pub(super) fn of_file(target: Target, request: FileRequest<'_>, polled: Option<Arc<AtomicBool>>) -> Self {
        let FileRequest { file_bytes, command, payload, .. } = request;
        Self { file_bytes, polled, ..Self::new(target, command, payload) }
    }

    /// The number of its registered file.
    pub(super) fn registered(&self) -> Option<usize> {
        match self.target {
            Target::Registered(fd) => Some(fd as usize),
            _ => None,
        }
    }

    /// The file that it goes to, which the slot keeps open itself.
    pub(super) fn own_file(&self) -> Option<&Arc<OpenFile>> {
        match &self.target {
            Target::File(file) => Some(file),
            _ => None,
        }
    }

    /// Whether it goes through the polled ring.
    pub(super) fn is_polled(&self) -> bool {
        self.polled.is_some()
    }

    /// Prepares the rest of the request for its entry; returns where a read's or write's only buffer begins.
    pub(super) fn prepare(&mut self) -> Option<*const u8> {
        self.fill_iovecs();
        let is_of_file =
            matches!(self.command, Command::Read { offset_bytes: 0..=SEEK_MAX } | Command::Write { .. });
        match &self.iovecs[..] {
            [only] if is_of_file => Some(only.iov_base.cast_const().cast()),
            _ => None,
        }
    }

    /// The submission entry for the rest of the request, after [`Slot::prepare`]. `fixed` is the number under
    /// which the ring has registered the memory of the only buffer.
    pub(super) fn entry(&mut self, fixed: Option<u16>) -> squeue::Entry {
        // A registered file's number is its descriptor.
        let fd = types::Fd(self.target.fd().as_raw_fd());
        let entry = self.entry_to(fd, fixed);
        match &self.target {
            Target::Registered(_) => entry.flags(squeue::Flags::FIXED_FILE),
            // A synchronous attempt may block in the kernel, as for an overloaded FUSE server, and the worker
            // with it.
            Target::File(file) if file.is_served() => entry.flags(squeue::Flags::ASYNC),
            _ => entry,
        }
    }

    fn entry_to(&mut self, fd: types::Fd, fixed: Option<u16>) -> squeue::Entry {
        let count = self.iovecs.len() as u32;
        let at = self.done_bytes as u64;
        match self.command {
            Command::Read { offset_bytes } if count == 1 => {
                let libc::iovec { iov_base, iov_len } = self.iovecs[0];
                let (into, len, offset) = (iov_base.cast(), iov_len as u32, offset_bytes + at);
                match fixed {
                    Some(fixed) => opcode::ReadFixed::new(fd, into, len, fixed).offset(offset).build(),
                    None => opcode::Read::new(fd, into, len).offset(offset).build(),
                }
            }
            Command::Read { offset_bytes } => {
                opcode::Readv::new(fd, self.iovecs.as_ptr(), count).offset(offset_bytes + at).build()
            }
            Command::Write { offset_bytes, rw_flags } if count == 1 => {
                let libc::iovec { iov_base, iov_len } = self.iovecs[0];
                let (from, len, offset) = (iov_base.cast_const().cast(), iov_len as u32, offset_bytes + at);
                match fixed {
                    Some(fixed) => opcode::WriteFixed::new(fd, from, len, fixed)
                        .offset(offset)
                        .rw_flags(rw_flags)
                        .build(),
                    None => opcode::Write::new(fd, from, len).offset(offset).rw_flags(rw_flags).build(),
                }
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

    /// Takes a completion. `None` asks for another submission of the rest.
    pub(super) fn complete(&mut self, res: i32) -> Option<Result<u32, IoError>> {
        if res == -libc::EINTR || res == -libc::EAGAIN {
            return None;
        }
        if res == -libc::EOPNOTSUPP
            && let Some(can_poll) = self.polled.take()
        {
            can_poll.store(false, Relaxed);
            return None;
        }
        if res < 0 {
            return Some(Err(IoError::from_errno(-res)));
        }
        let result = match self.command {
            Command::Read { .. } | Command::Write { .. } | Command::Send => self.advance(res as usize),
            // Before Linux 5.19 the kernel does not continue by itself.
            Command::Receive { all: true } if res > 0 => self.advance(res as usize),
            Command::Receive { .. } => Some(Ok(self.done_bytes as u32 + res as u32)),
            _ => Some(Ok(res as u32)),
        };
        if self.file_is_cut_off() { Some(Err(IoError::new(IoErrorKind::Truncated))) } else { result }
    }

    /// Whether a regular file has lost its end. A write beyond the new end makes the file longer again, and
    /// the gap reads as zeroes without an error. So every request checks this after it was done and before
    /// any caller relies on it. The check uses what the kernel knows: a file server that hangs (FUSE, NFS)
    /// must not block the worker, which serves all members.
    fn file_is_cut_off(&self) -> bool {
        let known =
            || statx(self.target.fd(), "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::SIZE);
        self.file_bytes > 0 && known().is_ok_and(|stat| stat.stx_size < self.file_bytes)
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
        Outcome { command: self.command, result, payload: self.payload }
    }
}

/// Waits for one request. Dropping it leaves the request running; the reactor keeps its buffers.
///
/// A request is asked for on a worker. Its outcome may be awaited on any thread: on another one than that
/// worker the rest of the waiting moves there and the outcome comes back.
#[derive(Debug)]
pub(crate) struct OpHandle {
    worker: u32,
    /// In the worker's slab; [`TOLD`] once the request has left it, or is awaited elsewhere.
    index: u32,
    elsewhere: Option<Box<Elsewhere>>,
}

/// No place in a slab.
const TOLD: u32 = u32::MAX;

/// A request whose outcome does not come from this thread's reactor.
#[derive(Debug)]
enum Elsewhere {
    /// It was asked for where no reactor is.
    Refused(Option<Outcome>),
    /// Its worker waits for it.
    Routed(Routed<Unclaimed>),
}

impl OpHandle {
    /// Queues a request into this worker's ring. On another thread it fails with [`IoErrorKind::NoRuntime`].
    pub(crate) fn submit(fd: &Arc<OwnedFd>, command: Command, payload: Payload) -> Self {
        Self::submit_rest(fd, command, payload, 0)
    }

    /// As [`OpHandle::submit`], for a request whose first `done_bytes` are done.
    pub(crate) fn submit_rest(
        fd: &Arc<OwnedFd>,
        command: Command,
        payload: Payload,
        done_bytes: usize,
    ) -> Self {
        reactor::with_own(|reactor| match reactor {
            Some(reactor) => {
                let slot = Slot::new(Target::Socket(fd.clone()), command, payload);
                let index = reactor.submit(Slot { done_bytes, ..slot });
                Self::queued(reactor.worker(), index)
            }
            None => Self::refused(command, payload),
        })
    }

    /// As [`OpHandle::submit`], for a member's file.
    pub(crate) fn submit_to_file(request: FileRequest<'_>) -> Self {
        reactor::with_own(|reactor| match reactor {
            Some(reactor) => {
                let index = reactor.submit_to_file(request);
                Self::queued(reactor.worker(), index)
            }
            None => Self::refused(request.command, request.payload),
        })
    }

    fn queued(worker: usize, index: usize) -> Self {
        Self { worker: worker as u32, index: index as u32, elsewhere: None }
    }

    #[cold]
    fn refused(command: Command, payload: Payload) -> Self {
        let refused = Outcome { command, result: Err(IoError::new(IoErrorKind::NoRuntime)), payload };
        Self { worker: 0, index: TOLD, elsewhere: Some(Box::new(Elsewhere::Refused(Some(refused)))) }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        if self.elsewhere.is_some() {
            return self.poll_elsewhere(cx);
        }
        let worker = self.worker as usize;
        let polled = reactor::with_own(|reactor| {
            let own = reactor.filter(|reactor| reactor.worker() == worker)?;
            Some(own.poll(self.index as usize, cx.waker()))
        });
        match polled {
            Some(Some(outcome)) => {
                self.index = TOLD;
                Poll::Ready(outcome)
            }
            Some(None) => Poll::Pending,
            None => self.route(cx),
        }
    }

    /// Has the request's worker wait for it.
    #[cold]
    fn route(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let Some(inbox) = Inbox::of_worker(self.worker as usize) else {
            self.index = TOLD;
            return Poll::Ready(Outcome::lost());
        };
        let mut there = Self { worker: self.worker, index: self.index, elsewhere: None };
        self.index = TOLD;
        let waits =
            Routed::spawn(&inbox, poll_fn(move |cx| there.poll(cx).map(|outcome| Unclaimed(Some(outcome)))));
        self.elsewhere = Some(Box::new(Elsewhere::Routed(waits)));
        self.poll_elsewhere(cx)
    }

    #[cold]
    fn poll_elsewhere(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self.elsewhere.as_deref_mut() {
            Some(Elsewhere::Routed(routed)) => {
                routed.poll(cx).map(|outcome| outcome.map_or_else(Outcome::lost, Unclaimed::claim))
            }
            Some(Elsewhere::Refused(refused)) => {
                Poll::Ready(refused.take().expect("a request is polled until it is done"))
            }
            None => unreachable!("it is awaited elsewhere"),
        }
    }
}

impl Drop for OpHandle {
    fn drop(&mut self) {
        if self.index != TOLD {
            reactor::abandon(self.worker as usize, self.index as usize);
        }
    }
}
