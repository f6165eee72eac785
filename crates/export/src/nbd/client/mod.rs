//! The NBD client: a connection that is a [`Device`], with many requests in flight.
//!
//! It belongs to the worker it was connected on, where two tasks send and receive; its futures can be awaited
//! on any worker, and outside of workers too. Data of a read is received into the buffers that the caller
//! lent. When the connection is lost, all requests under way and all later ones fail with
//! [`IoErrorKind::Gone`]; the owner decides what to do.
//!
//! The server is not trusted: its bytes are parsed within bounds, and a reply that does not fit its request
//! ends the connection. The client waits for replies for ever;
//! [`Deadline`](stripewise_device::wrap::Deadline) around it does not.

mod connect;
mod pending;
mod receive;
mod split;

use std::sync::{Arc, atomic::Ordering};

use stripewise_device::{
    Device, DeviceInfo, EnvHandle, Extent, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone,
    WriteBufs, WriteFlags, ZeroFlags, bufs_len, uring::net::Stream,
};

pub use self::connect::ConnectError;
use self::pending::{Answer, Pending, Requests};
use super::{
    NbdAddress,
    limits::REQUEST_BYTES_MAX,
    mailbox::Mailbox,
    outlet::{Message, send_all},
    proto::{
        Command, CommandFlags, Cookie, Head, Request, TransmissionFlags, codes::STATE_HOLE, codes::STATE_ZERO,
    },
};

/// The length of one TRIM or WRITE_ZEROES: it must fit 32 bits and be aligned to any block.
const COMMAND_STEP_BYTES: u64 = 1 << 30;
/// Zeroes are sent in pieces of this size to a server that has no WRITE_ZEROES.
const ZERO_PIECE_BYTES: u64 = 1 << 20;

/// What the server told about the export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// What it can do.
    pub flags: TransmissionFlags,
    /// The size of I/O that it calls fast, in bytes.
    pub preferred_bytes: u32,
    /// The largest request, in bytes.
    pub max_bytes: u32,
    /// Structured replies are on.
    pub structured: bool,
    /// `base:allocation` is on, under this identifier.
    pub allocation: Option<u32>,
}

/// The state shared by the client and its tasks.
struct Inner {
    info: DeviceInfo,
    export: ExportInfo,
    outgoing: Mailbox<Message<()>>,
    requests: Requests,
}

/// A connection to an export. Dropping it says goodbye once the requests under way have been answered.
pub struct NbdClient {
    inner: Arc<Inner>,
}

impl NbdClient {
    /// Connects. Await it on a worker of the runtime whose environment `env` is.
    ///
    /// # Errors
    /// If there is no server, no such export, or no common protocol.
    pub async fn connect(env: &EnvHandle, address: &NbdAddress) -> Result<Self, ConnectError> {
        let connected = connect::connect(env, address).await?;
        let inner = Arc::new(Inner {
            info: connected.info,
            export: connected.export,
            outgoing: Mailbox::default(),
            requests: Requests::default(),
        });
        let (sender, receiver, stream) = (inner.clone(), inner.clone(), connected.stream);
        let sending = stream.clone();
        env.spawn(Box::pin(async move { send_requests(&sender, &sending).await }));
        env.spawn(Box::pin(
            async move { receive::receive_replies(&receiver, &stream, connected.inlet).await },
        ));
        Ok(Self { inner })
    }

    /// What the server told about the export.
    pub fn export(&self) -> &ExportInfo {
        &self.inner.export
    }

    /// Whether the connection still stands.
    pub fn is_connected(&self) -> bool {
        !self.inner.requests.gone.load(Ordering::SeqCst)
    }
}

impl Drop for NbdClient {
    fn drop(&mut self) {
        let request = Inner::request(Command::Disconnect, CommandFlags(0), 0, 0, Cookie(0));
        drop(self.inner.outgoing.push(request));
        self.inner.outgoing.close();
    }
}

/// Ends with the mailbox, or with the connection. After DISC the server closes, which ends the receiver.
async fn send_requests(inner: &Inner, stream: &Stream) {
    if send_all(stream, &inner.outgoing, |_| {}).await.is_err() {
        inner.lose();
        stream.shutdown();
    }
}

impl Inner {
    fn request(
        command: Command,
        flags: CommandFlags,
        offset_bytes: u64,
        len_bytes: u32,
        cookie: Cookie,
    ) -> Message<()> {
        let request = Request { flags, command: command.code(), cookie, offset_bytes, len_bytes };
        Message { head: Head::request(request.encode()), payload: WriteBufs::new(), _keep: () }
    }

    /// Queues a request; the answer arrives through the value in `pending`.
    fn submit(
        &self,
        command: Command,
        flags: CommandFlags,
        range: (u64, u32),
        payload: WriteBufs,
        pending: Pending,
    ) {
        let Some(cookie) = self.requests.insert(pending) else { return };
        let mut message = Self::request(command, flags, range.0, range.1, cookie);
        message.payload = payload;
        if self.outgoing.push(message).is_err() {
            self.requests.fail(cookie, IoError::new(IoErrorKind::Gone));
        }
    }

    fn submit_plain(
        &self,
        command: Command,
        flags: CommandFlags,
        range: (u64, u32),
        payload: WriteBufs,
    ) -> Answer<Result<(), IoError>> {
        let answer = Answer::default();
        self.submit(command, flags, range, payload, Pending::Plain(answer.clone()));
        answer
    }

    /// The connection is lost: nothing is sent any more, and every waiting request fails.
    fn lose(&self) {
        self.requests.lose();
        drop(self.outgoing.close_and_clear());
    }

    fn can(&self, flag: TransmissionFlags) -> bool {
        self.export.flags.contains(flag)
    }

    fn is_read_only(&self) -> bool {
        self.can(TransmissionFlags::READ_ONLY)
    }

    fn flush(&self) -> Option<Answer<Result<(), IoError>>> {
        let can = self.can(TransmissionFlags::SEND_FLUSH);
        can.then(|| self.submit_plain(Command::Flush, CommandFlags(0), (0, 0), WriteBufs::new()))
    }

    /// One command over a range of any length, in steps that are all queued at once.
    fn stepped(
        &self,
        command: Command,
        flags: CommandFlags,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Vec<Answer<Result<(), IoError>>> {
        let steps = (0..len_bytes).step_by(COMMAND_STEP_BYTES as usize);
        let step = |at| {
            let len = COMMAND_STEP_BYTES.min(len_bytes - at) as u32;
            self.submit_plain(command, flags, (offset_bytes + at, len), WriteBufs::new())
        };
        steps.map(step).collect()
    }

    fn write(
        &self,
        offset_bytes: u64,
        from: WriteBufs,
        flags: CommandFlags,
    ) -> Vec<Answer<Result<(), IoError>>> {
        let pieces = split::split_writes(from, self.export.max_bytes as usize);
        let mut at = offset_bytes;
        let submit = |piece: WriteBufs| {
            let (offset, len) = (at, bufs_len(&piece) as u32);
            at += u64::from(len);
            self.submit_plain(Command::Write, flags, (offset, len), piece)
        };
        pieces.into_iter().map(submit).collect()
    }
}

/// Waits for all and reports the first failure.
async fn all(answers: Vec<Answer<Result<(), IoError>>>) -> Result<(), IoError> {
    let mut result = Ok(());
    for answer in answers {
        result = result.and(answer.wait().await);
    }
    result
}

fn refused<T: Send + 'static>() -> IoFuture<Result<T, IoError>> {
    let read_only = IoError { kind: IoErrorKind::Refused, errno: rustix::io::Errno::PERM.raw_os_error() };
    IoFuture::ready(Err(read_only))
}

impl Device for NbdClient {
    fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let (shapes, pieces) = split::split_reads(into, self.inner.export.max_bytes as usize);
        let mut at = offset_bytes;
        let submit = |bufs: ReadBufs| {
            let (answer, offset, len) = (Answer::default(), at, bufs_len(&bufs) as u32);
            at += u64::from(len);
            let pending = Pending::Read(pending::ReadInto::new(offset, bufs, answer.clone()));
            self.inner.submit(Command::Read, CommandFlags(0), (offset, len), WriteBufs::new(), pending);
            answer
        };
        let answers: Vec<Answer<ReadDone>> = pieces.into_iter().map(submit).collect();
        IoFuture::boxed(async move {
            let (mut result, mut parts) = (Ok(()), ReadBufs::new());
            for answer in answers {
                let done = answer.wait().await;
                result = result.and(done.result);
                parts.extend(done.bufs);
            }
            ReadDone { result, bufs: split::join_reads(&shapes, parts) }
        })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> IoFuture<Result<(), IoError>> {
        if self.inner.is_read_only() {
            return refused();
        }
        let has_fua = self.inner.can(TransmissionFlags::SEND_FUA);
        let answers =
            self.inner.write(offset_bytes, from, CommandFlags::when(flags.fua && has_fua, CommandFlags::FUA));
        let flush_with = (flags.fua && !has_fua).then(|| self.inner.clone());
        IoFuture::boxed(async move {
            all(answers).await?;
            match flush_with.and_then(|inner| inner.flush()) {
                Some(flushed) => flushed.wait().await,
                None => Ok(()),
            }
        })
    }

    fn flush(&self) -> IoFuture<Result<(), IoError>> {
        match self.inner.flush() {
            Some(flushed) => IoFuture::boxed(flushed.wait()),
            // A server without FLUSH promises that its answered writes are as durable as they will ever be.
            None => IoFuture::ready(Ok(())),
        }
    }

    fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> IoFuture<Result<(), IoError>> {
        if self.inner.is_read_only() {
            return refused();
        }
        if flags.fast_only && !self.inner.can(TransmissionFlags::SEND_FAST_ZERO) {
            return refused();
        }
        if self.inner.can(TransmissionFlags::SEND_WRITE_ZEROES) {
            let how = CommandFlags::when(!flags.may_unmap, CommandFlags::NO_HOLE)
                | CommandFlags::when(flags.fast_only, CommandFlags::FAST_ZERO);
            let zeroed = self.inner.stepped(Command::WriteZeroes, how, offset_bytes, len_bytes);
            return IoFuture::boxed(all(zeroed));
        }
        let zeroes = IoBuf::zeroed(ZERO_PIECE_BYTES.min(len_bytes) as usize).freeze();
        let inner = self.inner.clone();
        IoFuture::boxed(async move {
            let mut at = 0;
            while at < len_bytes {
                let now = ZERO_PIECE_BYTES.min(len_bytes - at);
                let piece = smallvec::smallvec![zeroes.slice(0..now as usize)];
                all(inner.write(offset_bytes + at, piece, CommandFlags(0))).await?;
                at += now;
            }
            Ok(())
        })
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<(), IoError>> {
        if self.inner.is_read_only() {
            return refused();
        }
        if !self.inner.can(TransmissionFlags::SEND_TRIM) {
            return IoFuture::ready(Ok(()));
        }
        IoFuture::boxed(all(self.inner.stepped(Command::Trim, CommandFlags(0), offset_bytes, len_bytes)))
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        if self.inner.export.allocation.is_none() {
            return IoFuture::ready(Ok(vec![Extent { len_bytes, is_hole: false }]));
        }
        let (answer, len) = (Answer::default(), len_bytes.min(COMMAND_STEP_BYTES) as u32);
        let pending = Pending::Status(Vec::new(), answer.clone());
        self.inner.submit(
            Command::BlockStatus,
            CommandFlags(0),
            (offset_bytes, len),
            WriteBufs::new(),
            pending,
        );
        IoFuture::boxed(async move {
            let found = answer.wait().await?;
            // The last extent may reach beyond the requested range.
            let mut left = u64::from(len);
            let cut = |len_bytes: u32| {
                let now = u64::from(len_bytes).min(left);
                left -= now;
                now
            };
            let lens: Vec<u64> = found.iter().map(|e| e.len_bytes).map(cut).collect();
            let is_hole = |status: u32| status & (STATE_HOLE | STATE_ZERO) == STATE_HOLE | STATE_ZERO;
            let extents = lens.iter().zip(&found).filter(|(len, _)| **len > 0);
            Ok(extents.map(|(len, e)| Extent { len_bytes: *len, is_hole: is_hole(e.status) }).collect())
        })
    }
}

/// The largest request to a server that gave no limit.
const fn max_request_bytes(told: Option<u32>, block_bytes: u32) -> u32 {
    match told {
        Some(max) if max < REQUEST_BYTES_MAX && max >= block_bytes => max / block_bytes * block_bytes,
        _ => REQUEST_BYTES_MAX,
    }
}
