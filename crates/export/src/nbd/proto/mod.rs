//! The NBD codec and the server's side of negotiation, sans I/O: bytes in, typed values out, and back.
//!
//! All numbers are big-endian. Nothing here allocates more than its input's size or panics on any input; the
//! fuzz targets `nbd_negotiation` and `nbd_request` check that.
//!
//! * [`codes`]: magic numbers, flags, error numbers. [`option`]: a client's requests before it chooses an
//!   export, [`option_reply`]: the answers. [`negotiation`]: the server's state machine over both.
//! * [`request`]: the 28-byte request. [`mod@check`]: what a request means for an export, or why it is
//!   refused.
//! * [`reply`]: simple replies and structured chunks.

pub mod check;
pub mod codes;
pub mod negotiation;
pub mod option;
pub mod option_reply;
pub mod reply;
pub mod request;
mod wire;

pub(crate) use check::SLOW_ZEROES;
pub use check::{Refusal, Session, Work, check};
pub use codes::{CommandFlags, Cookie, NbdErrno, TransmissionFlags};
pub use negotiation::{ExportFacts, Negotiation, NegotiationError, Step, Then};
pub use option::{ClientOption, InfoRequest, MetaQuery, OptionError};
pub use option_reply::{Info, OptionReply, OptionReplyHeader, OptionReplyKind};
pub use reply::{Chunk, Head, ReplyError, ReplyHeader, StatusExtent};
pub use request::{Command, Request, RequestError};
