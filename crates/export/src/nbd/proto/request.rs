//! The 28-byte request of the transmission phase.

use thiserror::Error;

use super::{
    codes::{CommandFlags, Cookie, REQUEST_MAGIC},
    wire::{Put, Reader, Short},
};

/// A request's length, without a WRITE's data.
pub const REQUEST_BYTES: usize = 28;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Command {
    /// Bytes of the export.
    Read = 0,
    /// Bytes for the export; they follow the request.
    Write = 1,
    /// Goodbye; has no reply.
    Disconnect = 2,
    /// Make all answered writes durable.
    Flush = 3,
    /// Content no longer needed.
    Trim = 4,
    /// About to be read.
    Cache = 5,
    /// Zeroes without sending them.
    WriteZeroes = 6,
    /// What is allocated.
    BlockStatus = 7,
}

impl Command {
    const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Disconnect,
        Self::Flush,
        Self::Trim,
        Self::Cache,
        Self::WriteZeroes,
        Self::BlockStatus,
    ];

    /// A number from the wire.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The number on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }
}

/// After this the stream has no meaning any more, and the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RequestError {
    /// Not a request at all.
    #[error("a request begins with {0:#010x} instead of {REQUEST_MAGIC:#010x}: the client lost step")]
    BadMagic(u32),
}

/// A request as on the wire: only its form has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Modifiers.
    pub flags: CommandFlags,
    /// The command's number; see [`Command::from_code`].
    pub command: u16,
    /// Whatever the client wants back with the reply.
    pub cookie: Cookie,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub len_bytes: u32,
}

impl Request {
    /// Parses a request.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, RequestError> {
        let mut reader = Reader::new(bytes);
        let magic = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        match Self::read(&mut reader) {
            Ok(request) if magic == REQUEST_MAGIC => Ok(request),
            _ => Err(RequestError::BadMagic(magic)),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, Short> {
        reader.u32()?;
        Ok(Self {
            flags: CommandFlags(reader.u16()?),
            command: reader.u16()?,
            cookie: Cookie(reader.u64()?),
            offset_bytes: reader.u64()?,
            len_bytes: reader.u32()?,
        })
    }

    /// The request as it is sent.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut out = Vec::with_capacity(REQUEST_BYTES);
        out.put_u32(REQUEST_MAGIC);
        out.put_u16(self.flags.0);
        out.put_u16(self.command);
        out.put_u64(self.cookie.0);
        out.put_u64(self.offset_bytes);
        out.put_u32(self.len_bytes);
        let mut bytes = [0; REQUEST_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// The bytes that follow the request, whether it is granted or not.
    pub fn payload_bytes(&self) -> u32 {
        if self.command == Command::Write.code() { self.len_bytes } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn requests_come_back_as_they_went(flags: u16, command: u16, cookie: u64, offset_bytes: u64, len_bytes: u32) {
            let flags = CommandFlags(flags);
            let request = Request { flags, command, cookie: Cookie(cookie), offset_bytes, len_bytes };
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }

        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes: [u8; REQUEST_BYTES]) {
            let _ = Request::decode(&bytes);
        }
    }

    #[test]
    fn the_layout_is_that_of_the_protocol_text() {
        let request = Request {
            flags: CommandFlags::FUA,
            command: Command::Write.code(),
            cookie: Cookie(0x0102_0304_0506_0708),
            offset_bytes: 0x1000,
            len_bytes: 0x200,
        };
        let expected = [
            0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0,
        ];
        assert_eq!(request.encode(), expected);
    }
}
