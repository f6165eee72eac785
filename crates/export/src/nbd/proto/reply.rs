//! Replies of the transmission phase: simple ones, and the chunks of structured ones.

use thiserror::Error;

use super::{
    codes::{Cookie, NbdErrno, REPLY_FLAG_DONE, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC},
    wire::{Put, Reader, Short},
};

/// A simple reply's length, without a READ's data.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// A chunk header's length.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// The longest head: a request, or a data chunk with its offset.
const HEAD_BYTES_MAX: usize = 28;

const TYPE_NONE: u16 = 0;
const TYPE_OFFSET_DATA: u16 = 1;
const TYPE_OFFSET_HOLE: u16 = 2;
const TYPE_BLOCK_STATUS: u16 = 5;
const TYPE_ERROR: u16 = (1 << 15) + 1;
const TYPE_ERROR_OFFSET: u16 = (1 << 15) + 2;

/// The few bytes in front of a message's payload, without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl Head {
    /// No head: the payload is the whole message.
    pub const fn empty() -> Self {
        Self { bytes: [0; HEAD_BYTES_MAX], len: 0 }
    }

    /// A request.
    pub fn request(bytes: [u8; 28]) -> Self {
        Self { bytes, len: 28 }
    }

    /// A simple reply. If it answers a READ without error, exactly the requested bytes must follow.
    pub fn simple(cookie: Cookie, error: Option<NbdErrno>) -> Self {
        let mut head = Self::empty();
        head.put_u32(SIMPLE_REPLY_MAGIC);
        head.put_u32(error.map_or(0, NbdErrno::code));
        head.put_u64(cookie.0);
        head
    }

    /// The only and last chunk of a READ's reply; `len_bytes` of data must follow.
    pub fn data_chunk(cookie: Cookie, offset_bytes: u64, len_bytes: u32) -> Self {
        let mut head = Self::empty();
        put_chunk_header(&mut head, REPLY_FLAG_DONE, TYPE_OFFSET_DATA, cookie, len_bytes + 8);
        head.put_u64(offset_bytes);
        head
    }

    /// A last chunk without content: success.
    pub fn done_chunk(cookie: Cookie) -> Self {
        let mut head = Self::empty();
        put_chunk_header(&mut head, REPLY_FLAG_DONE, TYPE_NONE, cookie, 0);
        head
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Put for Head {
    fn put(&mut self, bytes: &[u8]) {
        let start = usize::from(self.len);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }
}

fn put_chunk_header(out: &mut impl Put, flags: u16, kind: u16, cookie: Cookie, len_bytes: u32) {
    out.put_u32(STRUCTURED_REPLY_MAGIC);
    out.put_u16(flags);
    out.put_u16(kind);
    out.put_u64(cookie.0);
    out.put_u32(len_bytes);
}

/// A reply that makes no sense: the server is out of step, and the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// Neither kind of reply.
    #[error("a reply begins with {0:#010x}, which is no reply's magic")]
    BadMagic(u32),
    /// A chunk whose payload does not have its type's form.
    #[error("a chunk of type {0} with a malformed payload")]
    Malformed(u16),
    /// A type of chunk that was not negotiated.
    #[error("a chunk of the unknown type {0}")]
    UnknownType(u16),
}

/// The beginning of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyHeader {
    /// A simple reply.
    Simple {
        /// The request's.
        cookie: Cookie,
        /// What went wrong.
        error: Option<NbdErrno>,
    },
    /// A chunk of a structured reply.
    Chunk {
        /// The request's.
        cookie: Cookie,
        /// No chunk of this reply follows.
        done: bool,
        /// The type of chunk.
        kind: u16,
        /// The payload's length.
        len_bytes: u32,
    },
}

impl ReplyHeader {
    /// The length of the header that begins with these four bytes.
    pub fn len_from_magic(magic: [u8; 4]) -> Result<usize, ReplyError> {
        match u32::from_be_bytes(magic) {
            SIMPLE_REPLY_MAGIC => Ok(SIMPLE_REPLY_BYTES),
            STRUCTURED_REPLY_MAGIC => Ok(CHUNK_HEADER_BYTES),
            other => Err(ReplyError::BadMagic(other)),
        }
    }

    /// Parses a whole header.
    pub fn decode(bytes: &[u8]) -> Result<Self, ReplyError> {
        Self::read(&mut Reader::new(bytes)).unwrap_or(Err(ReplyError::BadMagic(0)))
    }

    fn read(reader: &mut Reader) -> Result<Result<Self, ReplyError>, Short> {
        Ok(match reader.u32()? {
            SIMPLE_REPLY_MAGIC => {
                let code = reader.u32()?;
                let error = (code != 0).then(|| NbdErrno::from_code(code));
                Ok(Self::Simple { cookie: Cookie(reader.u64()?), error })
            }
            STRUCTURED_REPLY_MAGIC => {
                let (flags, kind) = (reader.u16()?, reader.u16()?);
                let cookie = Cookie(reader.u64()?);
                Ok(Self::Chunk { cookie, done: flags & REPLY_FLAG_DONE != 0, kind, len_bytes: reader.u32()? })
            }
            other => Err(ReplyError::BadMagic(other)),
        })
    }

    /// Whether this is a chunk with data to receive in place behind its 8-byte offset.
    pub fn is_data(&self) -> bool {
        matches!(self, Self::Chunk { kind: TYPE_OFFSET_DATA, .. })
    }
}

/// A run of blocks of one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusExtent {
    /// Its length.
    pub len_bytes: u32,
    /// Status bits of the context.
    pub status: u32,
}

/// A chunk with its payload; for a READ's data, only its announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// No content.
    None,
    /// Data follows.
    OffsetData {
        /// Where in the export.
        offset_bytes: u64,
        /// How much.
        len_bytes: u32,
    },
    /// Zeroes.
    OffsetHole {
        /// Where in the export.
        offset_bytes: u64,
        /// How much.
        len_bytes: u32,
    },
    /// Extents of a context, in order, from the request's offset on.
    BlockStatus {
        /// The context.
        context: u32,
        /// The extents.
        extents: Vec<StatusExtent>,
    },
    /// The request failed.
    Error {
        /// The error's number.
        errno: NbdErrno,
        /// The error in words.
        message: String,
    },
    /// The request failed at an offset.
    ErrorOffset {
        /// The error's number.
        errno: NbdErrno,
        /// The error in words.
        message: String,
        /// Where in the export.
        offset_bytes: u64,
    },
}

impl Chunk {
    fn kind(&self) -> u16 {
        match self {
            Self::None => TYPE_NONE,
            Self::OffsetData { .. } => TYPE_OFFSET_DATA,
            Self::OffsetHole { .. } => TYPE_OFFSET_HOLE,
            Self::BlockStatus { .. } => TYPE_BLOCK_STATUS,
            Self::Error { .. } => TYPE_ERROR,
            Self::ErrorOffset { .. } => TYPE_ERROR_OFFSET,
        }
    }

    /// Header and payload as they are sent; behind [`Chunk::OffsetData`] the data itself must follow.
    pub fn encode(&self, cookie: Cookie, done: bool) -> Vec<u8> {
        let payload = self.payload();
        let follows = if let Self::OffsetData { len_bytes, .. } = self { *len_bytes } else { 0 };
        let mut out = Vec::with_capacity(CHUNK_HEADER_BYTES + payload.len());
        let flags = if done { REPLY_FLAG_DONE } else { 0 };
        put_chunk_header(&mut out, flags, self.kind(), cookie, payload.len() as u32 + follows);
        out.put(&payload);
        out
    }

    fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::None => {}
            Self::OffsetData { offset_bytes, .. } => out.put_u64(*offset_bytes),
            Self::OffsetHole { offset_bytes, len_bytes } => {
                out.put_u64(*offset_bytes);
                out.put_u32(*len_bytes);
            }
            Self::BlockStatus { context, extents } => {
                out.put_u32(*context);
                extents.iter().flat_map(|e| [e.len_bytes, e.status]).for_each(|word| out.put_u32(word));
            }
            Self::Error { errno, message } => put_error(&mut out, *errno, message),
            Self::ErrorOffset { errno, message, offset_bytes } => {
                put_error(&mut out, *errno, message);
                out.put_u64(*offset_bytes);
            }
        }
        out
    }

    /// Parses a chunk's payload; for a data chunk, its first eight bytes, with the length from the header.
    pub fn decode(kind: u16, payload: &[u8], header_len_bytes: u32) -> Result<Self, ReplyError> {
        let mut reader = Reader::new(payload);
        match Self::read(kind, &mut reader, header_len_bytes) {
            Ok(Some(chunk)) if reader.is_empty() => Ok(chunk),
            Ok(None) => Err(ReplyError::UnknownType(kind)),
            _ => Err(ReplyError::Malformed(kind)),
        }
    }

    fn read(kind: u16, reader: &mut Reader, header_len_bytes: u32) -> Result<Option<Self>, Short> {
        Ok(Some(match kind {
            TYPE_NONE => Self::None,
            TYPE_OFFSET_DATA => {
                let len_bytes = header_len_bytes.checked_sub(8).filter(|len| *len > 0).ok_or(Short)?;
                Self::OffsetData { offset_bytes: reader.u64()?, len_bytes }
            }
            TYPE_OFFSET_HOLE => {
                let offset_bytes = reader.u64()?;
                let len_bytes = Some(reader.u32()?).filter(|len| *len > 0).ok_or(Short)?;
                Self::OffsetHole { offset_bytes, len_bytes }
            }
            TYPE_BLOCK_STATUS => Self::BlockStatus { context: reader.u32()?, extents: read_extents(reader)? },
            TYPE_ERROR_OFFSET => {
                let (errno, message) = read_error(reader)?;
                Self::ErrorOffset { errno, message, offset_bytes: reader.u64()? }
            }
            // Bit 15 marks error types that we do not know; they all begin alike.
            _ if kind & 0x8000 != 0 => {
                let (errno, message) = read_error(reader)?;
                if kind != TYPE_ERROR {
                    reader.rest();
                }
                Self::Error { errno, message }
            }
            _ => return Ok(None),
        }))
    }
}

fn put_error(out: &mut Vec<u8>, errno: NbdErrno, message: &str) {
    let len = u16::try_from(message.len()).unwrap_or(0);
    out.put_u32(errno.code());
    out.put_u16(len);
    out.put(&message.as_bytes()[..usize::from(len)]);
}

fn read_error(reader: &mut Reader) -> Result<(NbdErrno, String), Short> {
    let errno = NbdErrno::from_code(reader.u32()?);
    let len = reader.u16()?;
    Ok((errno, String::from_utf8_lossy(reader.bytes(usize::from(len))?).into_owned()))
}

/// At least one extent, each at least one byte long.
fn read_extents(reader: &mut Reader) -> Result<Vec<StatusExtent>, Short> {
    let mut extents = Vec::new();
    while extents.is_empty() || !reader.is_empty() {
        let extent = StatusExtent { len_bytes: reader.u32()?, status: reader.u32()? };
        if extent.len_bytes == 0 {
            return Err(Short);
        }
        extents.push(extent);
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_errno() -> impl Strategy<Value = NbdErrno> {
        any::<u8>().prop_map(|code| NbdErrno::from_code(u32::from(code)))
    }

    fn any_extent() -> impl Strategy<Value = StatusExtent> {
        (1u32.., any::<u32>()).prop_map(|(len_bytes, status)| StatusExtent { len_bytes, status })
    }

    fn any_chunk() -> impl Strategy<Value = Chunk> {
        prop_oneof![
            Just(Chunk::None),
            (any::<u64>(), 1u32..1 << 30)
                .prop_map(|(offset_bytes, len_bytes)| Chunk::OffsetData { offset_bytes, len_bytes }),
            (any::<u64>(), 1u32..)
                .prop_map(|(offset_bytes, len_bytes)| Chunk::OffsetHole { offset_bytes, len_bytes }),
            (any::<u32>(), proptest::collection::vec(any_extent(), 1..9))
                .prop_map(|(context, extents)| Chunk::BlockStatus { context, extents }),
            (any_errno(), ".{0,30}").prop_map(|(errno, message)| Chunk::Error { errno, message }),
            (any_errno(), ".{0,30}", any::<u64>()).prop_map(|(errno, message, offset_bytes)| {
                Chunk::ErrorOffset { errno, message, offset_bytes }
            }),
        ]
    }

    proptest! {
        #[test]
        fn chunks_come_back_as_they_went(chunk in any_chunk(), cookie: u64, is_last: bool) {
            let bytes = chunk.encode(Cookie(cookie), is_last);
            let magic = bytes[..4].try_into().unwrap();
            prop_assert_eq!(ReplyHeader::len_from_magic(magic), Ok(CHUNK_HEADER_BYTES));
            let header = ReplyHeader::decode(&bytes[..CHUNK_HEADER_BYTES]).unwrap();
            let ReplyHeader::Chunk { cookie: back, done, kind, len_bytes } = header else { panic!("{header:?}") };
            prop_assert_eq!((back.0, done), (cookie, is_last));
            prop_assert_eq!(Chunk::decode(kind, &bytes[CHUNK_HEADER_BYTES..], len_bytes), Ok(chunk));
        }

        #[test]
        fn any_bytes_are_a_reply_or_an_error(bytes: Vec<u8>, kind in prop_oneof![0u16..8, 0x8000u16..0x8004], len: u32) {
            let _ = ReplyHeader::decode(&bytes);
            let _ = Chunk::decode(kind, &bytes, len);
        }
    }

    #[test]
    fn quick_heads_say_what_the_chunks_say() {
        let cookie = Cookie(7);
        let data = Chunk::OffsetData { offset_bytes: 4096, len_bytes: 512 };
        assert_eq!(Head::data_chunk(cookie, 4096, 512).as_bytes(), data.encode(cookie, true));
        assert_eq!(Head::done_chunk(cookie).as_bytes(), Chunk::None.encode(cookie, true));
        let simple = Head::simple(cookie, Some(NbdErrno::NoSpace));
        let error = Some(NbdErrno::NoSpace);
        assert_eq!(ReplyHeader::decode(simple.as_bytes()), Ok(ReplyHeader::Simple { cookie, error }));
    }
}
