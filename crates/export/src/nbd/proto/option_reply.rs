//! Replies to options.

use super::{
    codes::{OPTION_REPLY_MAGIC, TransmissionFlags, info},
    wire::{Put, Reader, Short},
};

/// Magic, option, kind and length in front of a reply's data.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;

/// What a reply to an option says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionReplyKind {
    /// Done.
    Ack,
    /// An export's name and description.
    Server,
    /// A fact about an export.
    Info,
    /// A metadata context.
    MetaContext,
    /// The option is not known.
    ErrUnsupported,
    /// The option is not allowed.
    ErrPolicy,
    /// The option is malformed.
    ErrInvalid,
    /// The export is not known.
    ErrUnknown,
    /// The server is going down.
    ErrShutdown,
    /// The option is too large.
    ErrTooBig,
    /// Anything else.
    Other(u32),
}

const ERROR_BIT: u32 = 1 << 31;

impl OptionReplyKind {
    const KNOWN: [(Self, u32); 10] = [
        (Self::Ack, 1),
        (Self::Server, 2),
        (Self::Info, 3),
        (Self::MetaContext, 4),
        (Self::ErrUnsupported, ERROR_BIT + 1),
        (Self::ErrPolicy, ERROR_BIT + 2),
        (Self::ErrInvalid, ERROR_BIT + 3),
        (Self::ErrUnknown, ERROR_BIT + 6),
        (Self::ErrShutdown, ERROR_BIT + 7),
        (Self::ErrTooBig, ERROR_BIT + 9),
    ];

    /// The number on the wire.
    pub fn code(self) -> u32 {
        match self {
            Self::Other(code) => code,
            known => Self::KNOWN.iter().find(|(kind, _)| *kind == known).map_or(0, |(_, code)| *code),
        }
    }

    /// A number from the wire.
    pub fn from_code(code: u32) -> Self {
        Self::KNOWN.iter().find(|(_, known)| *known == code).map_or(Self::Other(code), |(kind, _)| *kind)
    }

    /// Whether the option failed.
    pub fn is_error(self) -> bool {
        self.code() & ERROR_BIT != 0
    }
}

/// A reply to one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionReply {
    /// The option that this answers.
    pub option: u32,
    /// The kind of reply.
    pub kind: OptionReplyKind,
    /// The data, in the kind's form; for errors a text for people.
    pub data: Vec<u8>,
}

impl OptionReply {
    /// The reply as it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(OPTION_REPLY_HEADER_BYTES + self.data.len());
        out.put_u64(OPTION_REPLY_MAGIC);
        out.put_u32(self.option);
        out.put_u32(self.kind.code());
        out.put_u32(self.data.len() as u32);
        out.put(&self.data);
        out
    }

    /// The data of [`OptionReplyKind::Server`].
    pub fn server_data(name: &str, description: &str) -> Vec<u8> {
        let mut data = Vec::new();
        data.put_counted(name);
        data.put(description.as_bytes());
        data
    }

    /// Name and description out of the data of [`OptionReplyKind::Server`].
    pub fn parse_server(data: &[u8]) -> Option<(String, String)> {
        let mut reader = Reader::new(data);
        let name = reader.counted().ok()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((text(name), text(reader.rest())))
    }

    /// The data of [`OptionReplyKind::MetaContext`].
    pub fn meta_data(id: u32, name: &str) -> Vec<u8> {
        let mut data = Vec::new();
        data.put_u32(id);
        data.put(name.as_bytes());
        data
    }

    /// Identifier and name out of the data of [`OptionReplyKind::MetaContext`].
    pub fn parse_meta(data: &[u8]) -> Option<(u32, String)> {
        let mut reader = Reader::new(data);
        let id = reader.u32().ok()?;
        Some((id, String::from_utf8_lossy(reader.rest()).into_owned()))
    }
}

/// The fixed part of a reply to an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// The option that this answers.
    pub option: u32,
    /// The kind of reply.
    pub kind: OptionReplyKind,
    /// How much data follows.
    pub len_bytes: u32,
}

impl OptionReplyHeader {
    /// Parses a header; none if the magic is wrong.
    pub fn decode(bytes: &[u8; OPTION_REPLY_HEADER_BYTES]) -> Option<Self> {
        Self::read(&mut Reader::new(bytes)).ok().flatten()
    }

    fn read(reader: &mut Reader) -> Result<Option<Self>, Short> {
        if reader.u64()? != OPTION_REPLY_MAGIC {
            return Ok(None);
        }
        let (option, kind) = (reader.u32()?, OptionReplyKind::from_code(reader.u32()?));
        Ok(Some(Self { option, kind, len_bytes: reader.u32()? }))
    }
}

/// A fact about an export, the data of [`OptionReplyKind::Info`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Info {
    /// Size and abilities.
    Export {
        /// The size in bytes.
        size_bytes: u64,
        /// The abilities.
        flags: TransmissionFlags,
    },
    /// The canonical name.
    Name(String),
    /// Text for people.
    Description(String),
    /// Sizes of requests.
    BlockSize {
        /// Unit and alignment of requests.
        min_bytes: u32,
        /// What is fast.
        preferred_bytes: u32,
        /// The largest payload.
        max_bytes: u32,
    },
    /// A fact this codec does not know, or a malformed one: ignore it.
    Unknown(u16),
}

impl Info {
    /// The fact as reply data.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Export { size_bytes, flags } => {
                out.put_u16(info::EXPORT);
                out.put_u64(*size_bytes);
                out.put_u16(flags.0);
            }
            Self::Name(name) => {
                out.put_u16(info::NAME);
                out.put(name.as_bytes());
            }
            Self::Description(text) => {
                out.put_u16(info::DESCRIPTION);
                out.put(text.as_bytes());
            }
            Self::BlockSize { min_bytes, preferred_bytes, max_bytes } => {
                out.put_u16(info::BLOCK_SIZE);
                [min_bytes, preferred_bytes, max_bytes].into_iter().for_each(|bytes| out.put_u32(*bytes));
            }
            Self::Unknown(kind) => out.put_u16(*kind),
        }
        out
    }

    /// Parses reply data.
    pub fn decode(data: &[u8]) -> Option<Self> {
        Self::read(&mut Reader::new(data)).ok()
    }

    fn read(reader: &mut Reader) -> Result<Self, Short> {
        let kind = reader.u16()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match kind {
            info::EXPORT => {
                Self::Export { size_bytes: reader.u64()?, flags: TransmissionFlags(reader.u16()?) }
            }
            info::NAME => Self::Name(text(reader.rest())),
            info::DESCRIPTION => Self::Description(text(reader.rest())),
            info::BLOCK_SIZE => Self::BlockSize {
                min_bytes: reader.u32()?,
                preferred_bytes: reader.u32()?,
                max_bytes: reader.u32()?,
            },
            other => Self::Unknown(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn replies_come_back_as_they_went(option: u32, kind: u32, data: Vec<u8>) {
            let kind = OptionReplyKind::from_code(kind);
            let bytes = OptionReply { option, kind, data: data.clone() }.encode();
            let header = OptionReplyHeader::decode(bytes[..OPTION_REPLY_HEADER_BYTES].try_into().unwrap()).unwrap();
            prop_assert_eq!(header, OptionReplyHeader { option, kind, len_bytes: data.len() as u32 });
            prop_assert_eq!(&bytes[OPTION_REPLY_HEADER_BYTES..], data);
        }

        #[test]
        fn facts_come_back_as_they_went(size_bytes: u64, flags: u16, text in ".{0,50}", sizes: [u32; 3]) {
            let facts = [
                Info::Export { size_bytes, flags: TransmissionFlags(flags) },
                Info::Name(text.clone()),
                Info::Description(text.clone()),
                Info::BlockSize { min_bytes: sizes[0], preferred_bytes: sizes[1], max_bytes: sizes[2] },
                Info::Unknown(flags | 4),
            ];
            for fact in facts {
                prop_assert_eq!(Info::decode(&fact.encode()), Some(fact));
            }
            let server = OptionReply::server_data(&text, "about");
            prop_assert_eq!(OptionReply::parse_server(&server), Some((text.clone(), "about".to_owned())));
            let meta = OptionReply::meta_data(sizes[0], &text);
            prop_assert_eq!(OptionReply::parse_meta(&meta), Some((sizes[0], text)));
        }

        #[test]
        fn any_bytes_are_a_reply_or_none(data: Vec<u8>, header: [u8; OPTION_REPLY_HEADER_BYTES]) {
            let _ = (Info::decode(&data), OptionReply::parse_server(&data), OptionReply::parse_meta(&data));
            let _ = OptionReplyHeader::decode(&header);
        }
    }
}
