//! The server's side of the handshake as a state machine: it takes the bytes received and returns the bytes
//! to send.

use std::sync::Arc;

use thiserror::Error;

use super::{
    check::Session,
    codes::{
        BASE_ALLOCATION, BASE_ALLOCATION_ID, ClientFlags, HandshakeFlags, NBD_MAGIC, OPTION_MAGIC,
        TransmissionFlags, info,
    },
    option::{ClientOption, InfoRequest, MetaQuery, OPTION_HEADER_BYTES, OptionError, code},
    option_reply::{Info, OptionReply, OptionReplyKind},
    wire::{Put, Reader, Short},
};
use crate::nbd::limits::{OPTION_BYTES_MAX, OPTIONS_MAX, REQUEST_BYTES_MAX};

/// What clients may learn about an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFacts {
    /// The name by which clients choose it.
    pub name: String,
    /// Text for people; may be empty.
    pub description: String,
    /// The size, a multiple of the block.
    pub size_bytes: u64,
    /// The least unit of writes.
    pub block_bytes: u32,
    /// The size of I/O that is fast.
    pub preferred_bytes: u32,
    /// Abilities; clients that take structured replies also see `SEND_DF`.
    pub flags: TransmissionFlags,
    /// Zeroes are faster than writes.
    pub fast_zero: bool,
}

/// What breaks off a negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NegotiationError {
    /// The protocol demands that we hang up on unknown flags.
    #[error("unknown handshake flags {0:#x}")]
    BadFlags(u32),
    /// Not an option.
    #[error("an option begins with {0:#018x}: this is no NBD client, or it lost step")]
    BadMagic(u64),
    /// More data than any option needs.
    #[error("an option of {0} bytes; the limit is {OPTION_BYTES_MAX}")]
    OptionTooLong(u32),
    /// A client that never chooses an export.
    #[error("more than {OPTIONS_MAX} options")]
    TooManyOptions,
    /// `NBD_OPT_EXPORT_NAME` cannot be refused in any other way.
    #[error("the export chosen by NBD_OPT_EXPORT_NAME does not exist")]
    NoSuchExport,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// At least this many bytes are needed at once; never more than [`OPTION_BYTES_MAX`] and a header.
    Need(usize),
    /// Some input was used up.
    Took {
        /// How much.
        consumed: usize,
        /// What to send.
        reply: Vec<u8>,
        /// What to do after that.
        then: Then,
    },
}

/// What to do after sending a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Continue negotiating.
    Continue,
    /// Close the connection.
    Close,
    /// Serve requests.
    Transmit(Session),
}

/// A negotiation under way.
#[derive(Debug, Clone)]
pub struct Negotiation {
    exports: Arc<[ExportFacts]>,
    /// None until the client's flags came.
    client_flags: Option<ClientFlags>,
    options: u32,
    structured: bool,
    /// The export for which `base:allocation` was chosen.
    allocation_of: Option<usize>,
}

impl Negotiation {
    /// A negotiation about these exports. The export named "" is the default, else the first.
    pub fn new(exports: Arc<[ExportFacts]>) -> Self {
        Self { exports, client_flags: None, options: 0, structured: false, allocation_of: None }
    }

    /// What the server sends first.
    pub fn greeting() -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(NBD_MAGIC);
        out.put_u64(OPTION_MAGIC);
        out.put_u16((HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES).0);
        out
    }

    /// Takes the next step, given all bytes received and not yet consumed.
    pub fn advance(&mut self, input: &[u8]) -> Result<Step, NegotiationError> {
        match self.client_flags {
            None => self.take_flags(input),
            Some(flags) => self.take_option(input, flags),
        }
    }

    fn take_flags(&mut self, input: &[u8]) -> Result<Step, NegotiationError> {
        let Ok(bits) = Reader::new(input).u32() else { return Ok(Step::Need(4)) };
        let flags = ClientFlags(bits);
        if flags.beyond(ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES) != ClientFlags(0) {
            return Err(NegotiationError::BadFlags(bits));
        }
        self.client_flags = Some(flags);
        Ok(Step::Took { consumed: 4, reply: Vec::new(), then: Then::Continue })
    }

    fn take_option(&mut self, input: &[u8], flags: ClientFlags) -> Result<Step, NegotiationError> {
        let Ok((magic, option, len)) = option_header(input) else {
            return Ok(Step::Need(OPTION_HEADER_BYTES));
        };
        if magic != OPTION_MAGIC {
            return Err(NegotiationError::BadMagic(magic));
        }
        if len as usize > OPTION_BYTES_MAX {
            return Err(NegotiationError::OptionTooLong(len));
        }
        let consumed = OPTION_HEADER_BYTES + len as usize;
        let Some(data) = input.get(OPTION_HEADER_BYTES..consumed) else { return Ok(Step::Need(consumed)) };
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(NegotiationError::TooManyOptions);
        }
        let (reply, then) = self.answer(option, data, flags)?;
        Ok(Step::Took { consumed, reply, then })
    }

    fn answer(
        &mut self,
        option: u32,
        data: &[u8],
        flags: ClientFlags,
    ) -> Result<(Vec<u8>, Then), NegotiationError> {
        let mut replies = Replies { option, out: Vec::new() };
        // SET_META_CONTEXT drops earlier contexts even when it fails.
        if option == code::SET_META_CONTEXT {
            self.allocation_of = None;
        }
        let then = match ClientOption::decode(option, data) {
            Ok(ClientOption::ExportName(name)) => return self.export_name(&name, flags),
            Err(_) if option == code::EXPORT_NAME => return Err(NegotiationError::NoSuchExport),
            Ok(option) => self.answer_option(&option, &mut replies),
            Err(error) => replies.refuse(error),
        };
        Ok((replies.out, then))
    }

    fn answer_option(&mut self, option: &ClientOption, replies: &mut Replies) -> Then {
        match option {
            ClientOption::Abort => {
                replies.ack();
                return Then::Close;
            }
            ClientOption::List => self.list(replies),
            ClientOption::StructuredReply => {
                self.structured = true;
                replies.ack();
            }
            ClientOption::Info(request) => drop(self.info(request, replies)),
            ClientOption::Go(request) => {
                return self
                    .info(request, replies)
                    .map_or(Then::Continue, |index| Then::Transmit(self.session(index)));
            }
            ClientOption::ListMetaContext(query) => self.list_meta(query, replies),
            ClientOption::SetMetaContext(query) => self.set_meta(query, replies),
            ClientOption::StartTls => replies.error(OptionReplyKind::ErrPolicy, "this server speaks no TLS"),
            ClientOption::Unknown(_) | ClientOption::ExportName(_) => {
                replies.error(OptionReplyKind::ErrUnsupported, "unknown option");
            }
        }
        Then::Continue
    }

    fn find(&self, name: &str) -> Option<usize> {
        let exact = self.exports.iter().position(|export| export.name == name);
        exact.or_else(|| (name.is_empty() && !self.exports.is_empty()).then_some(0))
    }

    fn export_name(&self, name: &str, flags: ClientFlags) -> Result<(Vec<u8>, Then), NegotiationError> {
        let session = self.session(self.find(name).ok_or(NegotiationError::NoSuchExport)?);
        let mut out = Vec::new();
        out.put_u64(session.size_bytes);
        out.put_u16(session.flags.0);
        if !flags.contains(ClientFlags::NO_ZEROES) {
            out.put(&[0; 124]);
        }
        Ok((out, Then::Transmit(session)))
    }

    fn list(&self, replies: &mut Replies) {
        for export in self.exports.iter() {
            replies
                .push(OptionReplyKind::Server, OptionReply::server_data(&export.name, &export.description));
        }
        replies.ack();
    }

    /// Every client learns size and block sizes, the rest only on request. Returns the export if there is
    /// one.
    fn info(&self, request: &InfoRequest, replies: &mut Replies) -> Option<usize> {
        let Some(index) = self.find(&request.export) else {
            replies.error(OptionReplyKind::ErrUnknown, "no such export");
            return None;
        };
        let (export, session) = (&self.exports[index], self.session(index));
        replies.info(&Info::Export { size_bytes: session.size_bytes, flags: session.flags });
        replies.info(&Info::BlockSize {
            min_bytes: export.block_bytes,
            preferred_bytes: export.preferred_bytes,
            max_bytes: REQUEST_BYTES_MAX,
        });
        if request.wanted.contains(&info::NAME) {
            replies.info(&Info::Name(export.name.clone()));
        }
        if request.wanted.contains(&info::DESCRIPTION) && !export.description.is_empty() {
            replies.info(&Info::Description(export.description.clone()));
        }
        replies.ack();
        Some(index)
    }

    /// The export of a metadata query; none if the error reply has been added.
    fn meta_export(&self, query: &MetaQuery, replies: &mut Replies) -> Option<usize> {
        if !self.structured {
            replies.error(OptionReplyKind::ErrInvalid, "metadata contexts need structured replies first");
            return None;
        }
        let found = self.find(&query.export);
        if found.is_none() {
            replies.error(OptionReplyKind::ErrUnknown, "no such export");
        }
        found
    }

    fn list_meta(&self, query: &MetaQuery, replies: &mut Replies) {
        if self.meta_export(query, replies).is_none() {
            return;
        }
        let matches = |query: &String| query == BASE_ALLOCATION || query == "base:";
        if query.queries.is_empty() || query.queries.iter().any(matches) {
            replies.push(OptionReplyKind::MetaContext, OptionReply::meta_data(0, BASE_ALLOCATION));
        }
        replies.ack();
    }

    fn set_meta(&mut self, query: &MetaQuery, replies: &mut Replies) {
        let Some(index) = self.meta_export(query, replies) else { return };
        if query.queries.iter().any(|query| query == BASE_ALLOCATION) {
            self.allocation_of = Some(index);
            replies.push(
                OptionReplyKind::MetaContext,
                OptionReply::meta_data(BASE_ALLOCATION_ID, BASE_ALLOCATION),
            );
        }
        replies.ack();
    }

    fn session(&self, index: usize) -> Session {
        let export = &self.exports[index];
        Session {
            export: index,
            size_bytes: export.size_bytes,
            block_bytes: export.block_bytes,
            flags: export.flags | TransmissionFlags::when(self.structured, TransmissionFlags::SEND_DF),
            structured: self.structured,
            allocation: self.allocation_of == Some(index),
            fast_zero: export.fast_zero,
        }
    }
}

fn option_header(input: &[u8]) -> Result<(u64, u32, u32), Short> {
    let mut reader = Reader::new(input);
    Ok((reader.u64()?, reader.u32()?, reader.u32()?))
}

/// The replies to one option.
struct Replies {
    option: u32,
    out: Vec<u8>,
}

impl Replies {
    fn push(&mut self, kind: OptionReplyKind, data: Vec<u8>) {
        self.out.put(&OptionReply { option: self.option, kind, data }.encode());
    }

    fn ack(&mut self) {
        self.push(OptionReplyKind::Ack, Vec::new());
    }

    fn info(&mut self, info: &Info) {
        self.push(OptionReplyKind::Info, info.encode());
    }

    fn error(&mut self, kind: OptionReplyKind, message: &str) {
        self.push(kind, message.as_bytes().to_vec());
    }

    fn refuse(&mut self, error: OptionError) -> Then {
        let kind = match error {
            OptionError::Invalid(_) => OptionReplyKind::ErrInvalid,
            OptionError::TooBig => OptionReplyKind::ErrTooBig,
        };
        self.error(kind, &error.to_string());
        Then::Continue
    }
}

#[cfg(test)]
mod tests;
