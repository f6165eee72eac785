//! Options: a client's requests before it chooses an export.

use thiserror::Error;

use super::{
    codes::OPTION_MAGIC,
    wire::{Put, Reader, Short},
};
use crate::nbd::limits::STRING_BYTES_MAX;

/// Magic, code and length in front of an option's data.
pub const OPTION_HEADER_BYTES: usize = 16;

/// Option codes on the wire.
pub mod code {
    /// Choose an export, the old way.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Begin TLS.
    pub const STARTTLS: u32 = 5;
    /// Tell about an export.
    pub const INFO: u32 = 6;
    /// Choose an export.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Why an option's data is refused; the negotiation continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OptionError {
    /// The data does not have the option's form.
    #[error("malformed option: {0}")]
    Invalid(&'static str),
    /// A string is longer than the protocol allows.
    #[error("a string of the option is longer than {STRING_BYTES_MAX} bytes")]
    TooBig,
}

impl From<Short> for OptionError {
    fn from(_: Short) -> Self {
        Self::Invalid("a field reaches beyond the option's end")
    }
}

/// The data of INFO and GO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoRequest {
    /// The export; empty for the default one.
    pub export: String,
    /// The [`codes::info`](super::codes::info) numbers asked for.
    pub wanted: Vec<u16>,
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaQuery {
    /// The export; empty for the default one.
    pub export: String,
    /// Context names or patterns.
    pub queries: Vec<String>,
}

/// An option with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOption {
    /// Enter transmission with this export, or be disconnected.
    ExportName(String),
    /// Leave.
    Abort,
    /// Name all exports.
    List,
    /// Begin TLS.
    StartTls,
    /// Tell about an export.
    Info(InfoRequest),
    /// Enter transmission with this export.
    Go(InfoRequest),
    /// Use structured replies.
    StructuredReply,
    /// List the contexts.
    ListMetaContext(MetaQuery),
    /// Use these contexts.
    SetMetaContext(MetaQuery),
    /// An option this codec does not know.
    Unknown(u32),
}

impl ClientOption {
    /// Parses an option's data.
    pub fn decode(option: u32, data: &[u8]) -> Result<Self, OptionError> {
        match option {
            code::EXPORT_NAME => string(data).map(Self::ExportName),
            // The protocol text says to ignore data behind ABORT.
            code::ABORT => Ok(Self::Abort),
            code::LIST => without_data(data, Self::List),
            code::STARTTLS => without_data(data, Self::StartTls),
            code::INFO => InfoRequest::decode(data).map(Self::Info),
            code::GO => InfoRequest::decode(data).map(Self::Go),
            code::STRUCTURED_REPLY => without_data(data, Self::StructuredReply),
            code::LIST_META_CONTEXT => MetaQuery::decode(data).map(Self::ListMetaContext),
            code::SET_META_CONTEXT => MetaQuery::decode(data).map(Self::SetMetaContext),
            other => Ok(Self::Unknown(other)),
        }
    }

    /// The option's number on the wire.
    pub fn code(&self) -> u32 {
        match self {
            Self::ExportName(_) => code::EXPORT_NAME,
            Self::Abort => code::ABORT,
            Self::List => code::LIST,
            Self::StartTls => code::STARTTLS,
            Self::Info(_) => code::INFO,
            Self::Go(_) => code::GO,
            Self::StructuredReply => code::STRUCTURED_REPLY,
            Self::ListMetaContext(_) => code::LIST_META_CONTEXT,
            Self::SetMetaContext(_) => code::SET_META_CONTEXT,
            Self::Unknown(other) => *other,
        }
    }

    /// The whole option as it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let data = self.data();
        let mut out = Vec::with_capacity(OPTION_HEADER_BYTES + data.len());
        out.put_u64(OPTION_MAGIC);
        out.put_u32(self.code());
        out.put_u32(data.len() as u32);
        out.put(&data);
        out
    }

    fn data(&self) -> Vec<u8> {
        match self {
            Self::ExportName(name) => name.as_bytes().to_vec(),
            Self::Info(request) | Self::Go(request) => request.encode(),
            Self::ListMetaContext(query) | Self::SetMetaContext(query) => query.encode(),
            _ => Vec::new(),
        }
    }
}

impl InfoRequest {
    fn decode(data: &[u8]) -> Result<Self, OptionError> {
        let mut reader = Reader::new(data);
        let export = string(reader.counted()?)?;
        let count = reader.u16()?;
        let wanted = (0..count).map(|_| reader.u16()).collect::<Result<_, _>>()?;
        end(&reader)?;
        Ok(Self { export, wanted })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_counted(&self.export);
        out.put_u16(self.wanted.len() as u16);
        self.wanted.iter().for_each(|wanted| out.put_u16(*wanted));
        out
    }
}

impl MetaQuery {
    fn decode(data: &[u8]) -> Result<Self, OptionError> {
        let mut reader = Reader::new(data);
        let export = string(reader.counted()?)?;
        let count = reader.u32()?;
        let mut queries = Vec::new();
        // A huge count ends at the first missing query: it reserves no capacity.
        for _ in 0..count {
            queries.push(string(reader.counted()?)?);
        }
        end(&reader)?;
        Ok(Self { export, queries })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_counted(&self.export);
        out.put_u32(self.queries.len() as u32);
        self.queries.iter().for_each(|query| out.put_counted(query));
        out
    }
}

fn string(bytes: &[u8]) -> Result<String, OptionError> {
    if bytes.len() > STRING_BYTES_MAX {
        return Err(OptionError::TooBig);
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| OptionError::Invalid("a string is not UTF-8"))
}

fn without_data(data: &[u8], option: ClientOption) -> Result<ClientOption, OptionError> {
    if data.is_empty() { Ok(option) } else { Err(OptionError::Invalid("this option takes no data")) }
}

fn end(reader: &Reader) -> Result<(), OptionError> {
    if reader.is_empty() { Ok(()) } else { Err(OptionError::Invalid("bytes behind the last field")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_info() -> impl Strategy<Value = InfoRequest> {
        (".{0,40}", proptest::collection::vec(any::<u16>(), 0..5))
            .prop_map(|(export, wanted)| InfoRequest { export, wanted })
    }

    fn any_meta() -> impl Strategy<Value = MetaQuery> {
        (".{0,40}", proptest::collection::vec(".{0,20}", 0..5))
            .prop_map(|(export, queries)| MetaQuery { export, queries })
    }

    fn any_option() -> impl Strategy<Value = ClientOption> {
        prop_oneof![
            ".{0,40}".prop_map(ClientOption::ExportName),
            Just(ClientOption::Abort),
            Just(ClientOption::List),
            Just(ClientOption::StartTls),
            any_info().prop_map(ClientOption::Info),
            any_info().prop_map(ClientOption::Go),
            Just(ClientOption::StructuredReply),
            any_meta().prop_map(ClientOption::ListMetaContext),
            any_meta().prop_map(ClientOption::SetMetaContext),
            (11u32..).prop_map(ClientOption::Unknown),
        ]
    }

    proptest! {
        #[test]
        fn options_come_back_as_they_went(option in any_option()) {
            let bytes = option.encode();
            prop_assert_eq!(bytes.len() - OPTION_HEADER_BYTES, u32::from_be_bytes(bytes[12..16].try_into().unwrap()) as usize);
            prop_assert_eq!(ClientOption::decode(option.code(), &bytes[OPTION_HEADER_BYTES..]), Ok(option));
        }

        #[test]
        fn any_bytes_are_an_option_or_an_error(option in 0u32..12, data: Vec<u8>) {
            let _ = ClientOption::decode(option, &data);
        }
    }

    #[test]
    fn lengths_beyond_the_end_and_long_names_are_refused() {
        let beyond = [0xff; 10];
        assert!(matches!(ClientOption::decode(code::GO, &beyond), Err(OptionError::Invalid(_))));
        let long = vec![b'a'; STRING_BYTES_MAX + 1];
        assert_eq!(ClientOption::decode(code::EXPORT_NAME, &long), Err(OptionError::TooBig));
        let many_queries = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert!(ClientOption::decode(code::SET_META_CONTEXT, &many_queries).is_err());
    }
}
