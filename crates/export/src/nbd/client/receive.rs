//! The client's receiving task: matches replies, in any order, to their requests.

use std::cmp::min;

use stripewise_device::{IoError, IoErrorKind, uring::net::Stream};
use thiserror::Error;

use super::{
    Inner,
    pending::{Pending, ReadInto},
};
use crate::nbd::{
    inlet::{Inlet, InletError},
    limits::READ_AHEAD_BYTES,
    proto::{Chunk, Cookie, NbdErrno, ReplyError, ReplyHeader},
};

/// Why the connection cannot go on.
#[derive(Debug, Error)]
enum Lost {
    #[error("{0}")]
    Inlet(#[from] InletError),
    #[error("{0}")]
    Reply(#[from] ReplyError),
    #[error("a reply to no request under way")]
    NoSuchRequest,
    #[error("a reply that does not fit its request: {0}")]
    Misfit(&'static str),
}

pub(super) async fn receive_replies(inner: &Inner, stream: &Stream, mut inlet: Inlet) {
    let lost = loop {
        if let Err(lost) = receive_reply(inner, &mut inlet).await {
            break lost;
        }
    };
    match lost {
        Lost::Inlet(InletError::Closed) => tracing::debug!(name = inner.info.name, "connection ended"),
        reason => tracing::warn!(name = inner.info.name, %reason, "connection lost"),
    }
    inner.lose();
    stream.shutdown();
}

async fn receive_reply(inner: &Inner, inlet: &mut Inlet) -> Result<(), Lost> {
    inlet.ensure(4).await?;
    let magic = inlet.available().first_chunk().copied().unwrap_or_default();
    let len = ReplyHeader::len_from_magic(magic)?;
    inlet.ensure(len).await?;
    let header = ReplyHeader::decode(&inlet.available()[..len])?;
    inlet.consume(len);
    match header {
        ReplyHeader::Simple { cookie, error } => simple(inner, inlet, cookie, error).await,
        ReplyHeader::Chunk { .. } if !inner.export.structured => {
            Err(Lost::Misfit("a structured reply without having been asked for"))
        }
        ReplyHeader::Chunk { cookie, done, kind, len_bytes } => {
            if header.is_data() {
                data(inner, inlet, cookie, len_bytes).await?;
            } else {
                small(inner, inlet, cookie, kind, len_bytes).await?;
            }
            if done { finish(inner, cookie) } else { Ok(()) }
        }
    }
}

async fn simple(
    inner: &Inner,
    inlet: &mut Inlet,
    cookie: Cookie,
    error: Option<NbdErrno>,
) -> Result<(), Lost> {
    let mut pending = inner.requests.take(cookie).ok_or(Lost::NoSuchRequest)?;
    if let Pending::Read(read) = &mut pending
        && error.is_none()
    {
        let (offset, len) = (read.offset_bytes, read.len_bytes());
        let result = receive_into(inlet, read, offset, len).await;
        if let Err(lost) = result {
            pending.finish(Err(IoError::new(IoErrorKind::Gone)));
            return Err(lost);
        }
    }
    // The receiver holds the request, so only the place in the list is freed.
    let _ = inner.requests.remove(cookie);
    let honest = pending.finish(error.map_or(Ok(()), |errno| Err(from_errno(errno))));
    if honest { Ok(()) } else { Err(Lost::Misfit("success without an answer")) }
}

fn from_errno(errno: NbdErrno) -> IoError {
    let kind = match errno {
        NbdErrno::Io => IoErrorKind::Medium,
        NbdErrno::NoSpace => IoErrorKind::NoSpace,
        NbdErrno::Shutdown => IoErrorKind::Gone,
        NbdErrno::NoMemory => IoErrorKind::Other,
        NbdErrno::Perm | NbdErrno::Invalid | NbdErrno::Overflow | NbdErrno::NotSupported => {
            IoErrorKind::Refused
        }
    };
    IoError { kind, errno: errno.code() as i32 }
}

/// A chunk of a read's data, received in place.
async fn data(inner: &Inner, inlet: &mut Inlet, cookie: Cookie, chunk_bytes: u32) -> Result<(), Lost> {
    let head = inlet.take::<8>().await?;
    let len =
        chunk_bytes.checked_sub(8).filter(|len| *len > 0).ok_or(Lost::Misfit("a data chunk without data"))?;
    let mut pending = inner.requests.take(cookie).ok_or(Lost::NoSuchRequest)?;
    let received = match &mut pending {
        Pending::Read(read) => receive_into(inlet, read, u64::from_be_bytes(head), u64::from(len)).await,
        _ => Err(Lost::Misfit("data for a request that is no read")),
    };
    match received {
        Ok(()) => inner.requests.give_back(cookie, pending),
        Err(_) => drop(pending.finish(Err(IoError::new(IoErrorKind::Gone)))),
    }
    received
}

/// Receives `len_bytes` of the export at `offset_bytes` into the buffers for that range.
async fn receive_into(
    inlet: &mut Inlet,
    read: &mut ReadInto,
    offset_bytes: u64,
    len_bytes: u64,
) -> Result<(), Lost> {
    if len_bytes == 0 {
        return Ok(());
    }
    let start =
        read.claim(offset_bytes, len_bytes).ok_or(Lost::Misfit("data outside of the read, or twice"))?;
    let (mut skip, mut left) = (start as usize, len_bytes as usize);
    for place in &mut read.bufs {
        let skipped = min(skip, place.len());
        skip -= skipped;
        let now = min(left, place.len() - skipped);
        if now == 0 {
            continue;
        }
        let mut part = place.split_off(skipped);
        let tail = part.split_off(now);
        let mut part = inlet.read_into(part, || {}).await?;
        left -= now;
        part.unsplit(tail).and_then(|()| place.unsplit(part)).expect("the parts were split from one buffer");
    }
    Ok(())
}

/// A chunk without data to receive in place: holes, extents, errors, nothing.
async fn small(
    inner: &Inner,
    inlet: &mut Inlet,
    cookie: Cookie,
    kind: u16,
    len_bytes: u32,
) -> Result<(), Lost> {
    if len_bytes as usize > STATUS_CHUNK_BYTES_MAX {
        return Err(Lost::Misfit("a chunk larger than any that was asked for"));
    }
    let payload = read_payload(inlet, len_bytes as usize).await?;
    let chunk = Chunk::decode(kind, &payload, len_bytes)?;
    let mut pending = inner.requests.take(cookie).ok_or(Lost::NoSuchRequest)?;
    let accepted = accept(inner, cookie, &mut pending, chunk);
    match accepted {
        Ok(()) => inner.requests.give_back(cookie, pending),
        Err(_) => drop(pending.finish(Err(IoError::new(IoErrorKind::Gone)))),
    }
    accepted
}

/// The longest such chunk: the protocol advises servers to report at most 2^20 extents in one.
const STATUS_CHUNK_BYTES_MAX: usize = 4 + (8 << 20);

async fn read_payload(inlet: &mut Inlet, len: usize) -> Result<Vec<u8>, Lost> {
    let mut payload = Vec::new();
    while payload.len() < len {
        let now = min(len - payload.len(), READ_AHEAD_BYTES);
        payload.extend(inlet.take_vec(now).await?);
    }
    Ok(payload)
}

fn accept(inner: &Inner, cookie: Cookie, pending: &mut Pending, chunk: Chunk) -> Result<(), Lost> {
    match (chunk, pending) {
        (Chunk::None, _) => {}
        (Chunk::Error { errno, message } | Chunk::ErrorOffset { errno, message, .. }, _) => {
            tracing::debug!(name = inner.info.name, ?errno, message, "the server failed a request");
            inner.requests.note_error(cookie, from_errno(errno));
        }
        (Chunk::OffsetHole { offset_bytes, len_bytes }, Pending::Read(read)) => {
            let start = read.claim(offset_bytes, u64::from(len_bytes));
            let start = start.ok_or(Lost::Misfit("a hole outside of the read, or twice"))?;
            zero(read, start as usize, len_bytes as usize);
        }
        (Chunk::BlockStatus { context, extents }, Pending::Status(gathered, _)) => {
            if Some(context) == inner.export.allocation {
                gathered.extend(extents);
            }
        }
        _ => return Err(Lost::Misfit("a chunk of another kind of request")),
    }
    Ok(())
}

fn zero(read: &mut ReadInto, start: usize, len: usize) {
    let (mut skip, mut left) = (start, len);
    for place in &mut read.bufs {
        let skipped = min(skip, place.len());
        skip -= skipped;
        let now = min(left, place.len() - skipped);
        place[skipped..skipped + now].fill(0);
        left -= now;
    }
}

fn finish(inner: &Inner, cookie: Cookie) -> Result<(), Lost> {
    let pending = inner.requests.take(cookie).ok_or(Lost::NoSuchRequest)?;
    let result = inner.requests.remove(cookie);
    if pending.finish(result) { Ok(()) } else { Err(Lost::Misfit("success without an answer")) }
}
