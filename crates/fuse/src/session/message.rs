//! A request with the memory that it lies in, so that it can be handed to a task.

use smallvec::SmallVec;
use stripewise_device::IoBuf;

use crate::{
    protocol::WRITE_HEAD_BYTES,
    request::{ParseError, Request, parse_split},
};

/// Requests of up to so many bytes need no memory of their own. Most have a struct and a short name.
const INLINE_BYTES: usize = 160;
/// The opcode's place in the header.
const OPCODE_AT: usize = 4;
/// Data of a WRITE that fill less than this share of the buffer they came in are copied to one that fits. Whoever
/// keeps the data keeps the buffer, so at most seven eighths of such memory lie idle, and a copy has at most an
/// eighth of the largest request: 128 KiB of 1 MiB.
const KEPT_SHARE: usize = 8;

/// A request as it came. It has been checked, and owns its bytes.
#[derive(Debug)]
pub struct Message {
    head: SmallVec<[u8; INLINE_BYTES]>,
    data: IoBuf,
}

impl Message {
    /// Makes a message of a request of `len` bytes. Its first bytes lie in `head`, the others in `body`. A large
    /// body is taken, and another of the same length put in its place.
    pub(super) fn take(
        head: &[u8; WRITE_HEAD_BYTES],
        body: &mut IoBuf,
        len: usize,
    ) -> Result<Self, ParseError> {
        let behind = len.saturating_sub(WRITE_HEAD_BYTES).min(body.len());
        let mut message =
            Self { head: SmallVec::from_slice(&head[..len.min(WRITE_HEAD_BYTES)]), data: IoBuf::with_len(0) };
        if is_plain_write(head) {
            message.data = take_data(body, behind);
        } else {
            message.head.extend_from_slice(&body[..behind]);
        }
        message.parse().map(drop)?;
        Ok(message)
    }

    fn parse(&self) -> Result<Request<'_>, ParseError> {
        parse_split(&self.head, &self.data)
    }

    /// The request. It is parsed at each call, which costs about as much as copying it.
    pub fn request(&self) -> Request<'_> {
        self.parse().expect("only bytes that can be parsed become a message")
    }

    /// The opcode's number.
    pub(super) fn opcode(&self) -> u32 {
        let bytes = self.head.get(OPCODE_AT..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// The data of a WRITE, for the server to keep; nothing for other requests. Their memory begins at a multiple of 4096
    /// bytes. What else the request says is to be taken from it before.
    pub fn into_data(self) -> IoBuf {
        self.data
    }
}

/// A WRITE, without extensions at its end.
fn is_plain_write(head: &[u8; WRITE_HEAD_BYTES]) -> bool {
    const EXTENSIONS_AT: usize = 36;
    let opcode = crate::protocol::Opcode::Write.code().to_ne_bytes();
    head[OPCODE_AT..OPCODE_AT + 4] == opcode && head[EXTENSIONS_AT..EXTENSIONS_AT + 2] == [0, 0]
}

fn take_data(body: &mut IoBuf, len: usize) -> IoBuf {
    if len < body.len() / KEPT_SHARE {
        return IoBuf::copy_of(&body[..len]);
    }
    let fresh = IoBuf::with_len(body.len());
    let mut data = std::mem::replace(body, fresh);
    data.truncate(len);
    data
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;
    use crate::{
        protocol::input::{InHeader, WriteIn},
        request::Operation,
    };

    fn head(opcode: u32, len: usize, size: u32) -> [u8; WRITE_HEAD_BYTES] {
        let header = InHeader { len: len as u32, opcode, unique: 2, nodeid: 1, ..InHeader::default() };
        let write = WriteIn { size, ..WriteIn::default() };
        let mut bytes = [0; WRITE_HEAD_BYTES];
        bytes[..40].copy_from_slice(header.as_bytes());
        bytes[40..].copy_from_slice(write.as_bytes());
        bytes
    }

    /// Whether the data of a WRITE of this size stay where they came.
    fn stays(size: usize) -> bool {
        let mut body = IoBuf::with_len(1 << 20);
        body[..size].fill(7);
        let place = body.as_ptr();
        let len = WRITE_HEAD_BYTES + size;
        let message = Message::take(&head(16, len, size as u32), &mut body, len).unwrap();
        assert_eq!(body.len(), 1 << 20);
        let Operation::Write(write) = message.request().operation else { panic!("no write") };
        assert!(write.data.len() == size && write.data.iter().all(|byte| *byte == 7));
        let data = message.into_data();
        assert_eq!(data.len(), size);
        assert_eq!(data.as_ptr().addr() % 4096, 0);
        data.as_ptr() == place
    }

    #[test]
    fn large_data_stay_where_they_came_and_small_ones_do_not_keep_the_buffer() {
        assert!(stays(1 << 20) && stays(128 << 10));
        assert!(!stays(4096) && !stays(0));
    }

    #[test]
    fn what_is_no_write_is_joined() {
        let mut body = IoBuf::zeroed(8192);
        let len = WRITE_HEAD_BYTES + 100;
        body[..99].fill(b'x');
        let mut bytes = head(1, len, 0);
        bytes[40..].fill(b'x');
        let message = Message::take(&bytes, &mut body, len).unwrap();
        let Operation::Lookup { name } = message.request().operation else { panic!("no lookup") };
        assert_eq!(name, [b'x'; 139]);
    }

    #[test]
    fn a_length_that_is_not_what_came_is_refused() {
        let mut body = IoBuf::zeroed(8192);
        assert!(Message::take(&head(16, 5000, 10), &mut body, WRITE_HEAD_BYTES + 10).is_err());
        assert!(Message::take(&head(16, 3, 10), &mut body, 3).is_err());
    }
}
