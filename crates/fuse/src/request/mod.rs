//! Parses what the kernel sends.
//!
//! Every length is checked against the bytes that came, and every name against its terminating zero. Bytes behind
//! the known part of a body are ignored: later minor versions append fields.

mod arguments;
mod cursor;
mod decode;
mod error;
mod operation;
#[cfg(test)]
mod tests;

use zerocopy::FromBytes;

pub use self::{
    arguments::{
        CopyFileRange, Create, Fallocate, Forgets, Fsync, Init, Link, Lseek, Mkdir, Mknod, Open, Read,
        ReadDirectory, Release, Rename, SetTime, Setattr, Setxattr, Statx, Symlink, Whence, Write,
    },
    error::{ParseError, ParseErrorKind},
    operation::Operation,
};
use crate::protocol::{NodeId, Opcode, RequestId, input::InHeader};

/// A request of the kernel. Names and data lie in the bytes that it was parsed from.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    /// Its number.
    pub id: RequestId,
    /// The inode or folder that it concerns. Zero for what concerns the whole session.
    pub node: NodeId,
    /// For whom it is done.
    pub caller: Caller,
    /// What is asked for.
    pub operation: Operation<'a>,
    /// Extensions of requests that make an inode (`struct fuse_ext_header`). Empty, unless they were negotiated.
    pub extensions: &'a [u8],
}

/// Who asks. Requests that the kernel makes for itself, such as those of its write-back, have zeroes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User id, as the namespace of the mount has it.
    pub uid: u32,
    /// Group id, likewise.
    pub gid: u32,
    /// Thread id, likewise; zero if the caller's process is in another namespace.
    pub pid: u32,
}

/// Parses a request from all of its bytes.
///
/// # Errors
/// If they are not exactly one request. An opcode that is not known is no error: see [`Operation::Unknown`].
pub fn parse(bytes: &[u8]) -> Result<Request<'_>, ParseError> {
    parse_split(bytes, &[])
}

/// Parses a request whose last bytes, the data of a WRITE, lie elsewhere: in `data`, which may be empty.
///
/// # Errors
/// As [`parse`]. Also if `data` belongs to a request that is no WRITE, or `head` has data as well.
pub fn parse_split<'a>(head: &'a [u8], data: &'a [u8]) -> Result<Request<'a>, ParseError> {
    let (header, body) = header(head, data.len())?;
    let fail = |kind| ParseError::new(&header, kind);
    let (body, extensions) = split_extensions(&header, body).map_err(fail)?;
    if !data.is_empty() && Opcode::from_code(header.opcode) != Some(Opcode::Write) {
        return Err(fail(ParseErrorKind::UnexpectedData));
    }
    let operation = decode::operation(header.opcode, body, data).map_err(fail)?;
    Ok(Request {
        id: RequestId::of(&header),
        node: NodeId(header.nodeid),
        caller: Caller::of(&header),
        operation,
        extensions,
    })
}

impl Caller {
    fn of(header: &InHeader) -> Self {
        Self { uid: header.uid, gid: header.gid, pid: header.pid }
    }
}

/// The header and what follows it in `head`.
fn header(head: &[u8], data_bytes: usize) -> Result<(InHeader, &[u8]), ParseError> {
    let Ok((header, body)) = InHeader::read_from_prefix(head) else {
        return Err(ParseError::without_header(head.len()));
    };
    let found_bytes = head.len().saturating_add(data_bytes);
    if usize::try_from(header.len) != Ok(found_bytes) {
        let kind = ParseErrorKind::WrongLength { stated_bytes: header.len, found_bytes };
        return Err(ParseError::new(&header, kind));
    }
    Ok((header, body))
}

/// Extensions are the end of a body.
fn split_extensions<'a>(header: &InHeader, body: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), ParseErrorKind> {
    let bytes = usize::from(header.total_extlen) * 8;
    let short = ParseErrorKind::Short { needed_bytes: bytes, found_bytes: body.len() };
    body.len().checked_sub(bytes).and_then(|at| body.split_at_checked(at)).ok_or(short)
}
