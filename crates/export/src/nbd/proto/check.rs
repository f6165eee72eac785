//! What a request means for an export, or why it is refused: everything between parsing and the device.

use super::{
    codes::{CommandFlags, NbdErrno, TransmissionFlags},
    request::{Command, Request},
};
use crate::nbd::limits::REQUEST_BYTES_MAX;

/// The result of a connection's negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Which of the server's exports.
    pub export: usize,
    /// The export's size, a multiple of its block.
    pub size_bytes: u64,
    /// The export's logical block: 512 or 4096.
    pub block_bytes: u32,
    /// The flags advertised.
    pub flags: TransmissionFlags,
    /// Structured replies were negotiated.
    pub structured: bool,
    /// The context `base:allocation` was negotiated.
    pub allocation: bool,
    /// Zeroes are faster than writes here.
    pub fast_zero: bool,
}

/// A granted request. Ranges lie within the export and are aligned to its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Read a range and answer with a part of it: for a request that is not aligned, the enclosing blocks are
    /// read.
    Read {
        /// Start of the blocks.
        offset_bytes: u64,
        /// Length of the blocks.
        len_bytes: u32,
        /// Where in the blocks the requested part begins.
        skip_bytes: u32,
        /// The length of the requested part.
        take_bytes: u32,
    },
    /// Write the payload.
    Write {
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u32,
        /// Durable before the answer.
        fua: bool,
    },
    /// Flush.
    Flush,
    /// Discard; may be empty after rounding inwards.
    Trim {
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
        /// Durable before the answer.
        fua: bool,
    },
    /// Zero.
    Zeroes {
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
        /// Holes are welcome.
        may_unmap: bool,
        /// Only if it costs less than writing.
        fast_only: bool,
        /// Durable before the answer.
        fua: bool,
    },
    /// Report the extents from `skip_bytes` into the range on.
    Status {
        /// Start of the blocks.
        offset_bytes: u64,
        /// Length of the blocks.
        len_bytes: u64,
        /// Where in the blocks the requested part begins.
        skip_bytes: u32,
        /// The length of the requested part.
        take_bytes: u32,
        /// One extent only.
        one: bool,
    },
    /// Nothing to do but to answer: an empty request, or a hint that we do not use.
    Nothing,
    /// Answer the requests under way and close.
    Disconnect,
}

/// A request whose answer is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The error's number.
    pub errno: NbdErrno,
    /// The error in words, sent where structured replies allow it.
    pub reason: &'static str,
}

/// Refuses fast zeroes. Whether zeroes are fast may change with an array's members, so the device decides,
/// too.
pub(crate) const SLOW_ZEROES: Refusal =
    Refusal { errno: NbdErrno::NotSupported, reason: "zeroes are no faster than writes here" };

const fn refuse<T>(errno: NbdErrno, reason: &'static str) -> Result<T, Refusal> {
    Err(Refusal { errno, reason })
}

/// Judges a request. Pure: the same request in the same session always has the same result.
pub fn check(request: &Request, session: &Session) -> Result<Work, Refusal> {
    let Some(command) = Command::from_code(request.command) else {
        return refuse(NbdErrno::Invalid, "unknown command");
    };
    check_flags(request.flags, command, session)?;
    match command {
        Command::Disconnect => return Ok(Work::Disconnect),
        Command::Flush => return Ok(Work::Flush),
        _ => {}
    }
    check_access(request, command, session)?;
    match command {
        Command::Read => Ok(read(request, session)),
        Command::Write => write(request, session),
        Command::WriteZeroes => zeroes(request, session),
        Command::Trim => Ok(trim(request, session)),
        Command::BlockStatus => status(request, session),
        Command::Cache | Command::Disconnect | Command::Flush => Ok(Work::Nothing),
    }
}

/// FUA is allowed everywhere, as the protocol text demands; the other flags where they mean something.
fn check_flags(flags: CommandFlags, command: Command, session: &Session) -> Result<(), Refusal> {
    let special = match command {
        Command::Read => CommandFlags::when(session.structured, CommandFlags::DF),
        Command::WriteZeroes => CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO,
        Command::BlockStatus => CommandFlags::REQ_ONE,
        _ => CommandFlags(0),
    };
    if flags.beyond(special | CommandFlags::FUA) == CommandFlags(0) {
        Ok(())
    } else {
        refuse(NbdErrno::Invalid, "a flag that this command does not have")
    }
}

fn check_access(request: &Request, command: Command, session: &Session) -> Result<(), Refusal> {
    let changes = matches!(command, Command::Write | Command::WriteZeroes | Command::Trim);
    if changes && session.flags.contains(TransmissionFlags::READ_ONLY) {
        return refuse(NbdErrno::Perm, "the export is read-only");
    }
    let end = request.offset_bytes.checked_add(u64::from(request.len_bytes));
    if end.is_none_or(|end| end > session.size_bytes) {
        let writes = matches!(command, Command::Write | Command::WriteZeroes);
        let errno = if writes { NbdErrno::NoSpace } else { NbdErrno::Invalid };
        return refuse(errno, "the range ends beyond the export");
    }
    match command {
        Command::Read if request.len_bytes > REQUEST_BYTES_MAX => {
            refuse(NbdErrno::Overflow, "a read longer than the advertised maximum")
        }
        Command::Write if request.len_bytes > REQUEST_BYTES_MAX => {
            refuse(NbdErrno::Invalid, "a write longer than the advertised maximum")
        }
        _ => Ok(()),
    }
}

/// The blocks around a request: their start, their length, and the request's offset within them.
fn enclosing(request: &Request, session: &Session) -> (u64, u64, u32) {
    let block = u64::from(session.block_bytes);
    let skip = request.offset_bytes % block;
    let start = request.offset_bytes - skip;
    let end = (request.offset_bytes + u64::from(request.len_bytes)).next_multiple_of(block);
    (start, end - start, skip as u32)
}

fn is_aligned(request: &Request, session: &Session) -> bool {
    let block = u64::from(session.block_bytes);
    request.offset_bytes.is_multiple_of(block) && u64::from(request.len_bytes).is_multiple_of(block)
}

fn read(request: &Request, session: &Session) -> Work {
    if request.len_bytes == 0 {
        return Work::Nothing;
    }
    let (offset_bytes, len_bytes, skip_bytes) = enclosing(request, session);
    Work::Read { offset_bytes, len_bytes: len_bytes as u32, skip_bytes, take_bytes: request.len_bytes }
}

/// Unaligned writes are refused rather than read, merged and written: two of them to one block could lose an
/// update, and a client that writes less than the advertised block has a bug that silence would hide.
fn write(request: &Request, session: &Session) -> Result<Work, Refusal> {
    if !is_aligned(request, session) {
        return refuse(NbdErrno::Invalid, "a write not aligned to the advertised minimum block");
    }
    if request.len_bytes == 0 {
        return Ok(Work::Nothing);
    }
    let fua = request.flags.contains(CommandFlags::FUA);
    Ok(Work::Write { offset_bytes: request.offset_bytes, len_bytes: request.len_bytes, fua })
}

fn zeroes(request: &Request, session: &Session) -> Result<Work, Refusal> {
    if !is_aligned(request, session) {
        return refuse(NbdErrno::Invalid, "zeroes not aligned to the advertised minimum block");
    }
    if request.flags.contains(CommandFlags::FAST_ZERO) && !session.fast_zero {
        return Err(SLOW_ZEROES);
    }
    if request.len_bytes == 0 {
        return Ok(Work::Nothing);
    }
    Ok(Work::Zeroes {
        offset_bytes: request.offset_bytes,
        len_bytes: u64::from(request.len_bytes),
        may_unmap: !request.flags.contains(CommandFlags::NO_HOLE),
        fast_only: request.flags.contains(CommandFlags::FAST_ZERO),
        fua: request.flags.contains(CommandFlags::FUA),
    })
}

/// A hint: partial blocks are left alone.
fn trim(request: &Request, session: &Session) -> Work {
    let block = u64::from(session.block_bytes);
    let start = request.offset_bytes.next_multiple_of(block);
    let end = (request.offset_bytes + u64::from(request.len_bytes)) / block * block;
    if start >= end {
        return Work::Nothing;
    }
    let fua = request.flags.contains(CommandFlags::FUA);
    Work::Trim { offset_bytes: start, len_bytes: end - start, fua }
}

fn status(request: &Request, session: &Session) -> Result<Work, Refusal> {
    if !session.allocation {
        return refuse(NbdErrno::Invalid, "block status without a negotiated context");
    }
    if request.len_bytes == 0 {
        return refuse(NbdErrno::Invalid, "block status of nothing");
    }
    let (offset_bytes, len_bytes, skip_bytes) = enclosing(request, session);
    let one = request.flags.contains(CommandFlags::REQ_ONE);
    Ok(Work::Status { offset_bytes, len_bytes, skip_bytes, take_bytes: request.len_bytes, one })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nbd::proto::Cookie;

    const SESSION: Session = Session {
        export: 0,
        size_bytes: 1 << 20,
        block_bytes: 4096,
        flags: TransmissionFlags::HAS_FLAGS,
        structured: true,
        allocation: true,
        fast_zero: false,
    };

    fn request(command: Command, flags: CommandFlags, offset_bytes: u64, len_bytes: u32) -> Request {
        Request { flags, command: command.code(), cookie: Cookie(1), offset_bytes, len_bytes }
    }

    fn errno(request: Request, session: &Session) -> Option<NbdErrno> {
        check(&request, session).err().map(|refusal| refusal.errno)
    }

    #[test]
    fn refusals_have_the_numbers_the_protocol_text_gives_them() {
        let none = CommandFlags(0);
        let read_only = Session { flags: TransmissionFlags::READ_ONLY, ..SESSION };
        let huge = Session { size_bytes: 1 << 40, ..SESSION };
        let plain = Session { structured: false, allocation: false, ..SESSION };
        let table = [
            (request(Command::Read, none, 1 << 20, 1), &SESSION, NbdErrno::Invalid),
            (request(Command::Read, none, u64::MAX, 4096), &SESSION, NbdErrno::Invalid),
            (request(Command::Write, none, 1 << 20, 4096), &SESSION, NbdErrno::NoSpace),
            (request(Command::Write, CommandFlags::FUA, u64::MAX - 4095, 4096), &SESSION, NbdErrno::NoSpace),
            (request(Command::Write, none, 512, 4096), &SESSION, NbdErrno::Invalid),
            (request(Command::Write, none, 0, 4096), &read_only, NbdErrno::Perm),
            (request(Command::Trim, none, 0, 4096), &read_only, NbdErrno::Perm),
            (request(Command::WriteZeroes, none, 0, 4096), &read_only, NbdErrno::Perm),
            (
                request(Command::WriteZeroes, CommandFlags::FAST_ZERO, 0, 4096),
                &SESSION,
                NbdErrno::NotSupported,
            ),
            (request(Command::Read, none, 0, REQUEST_BYTES_MAX + 1), &huge, NbdErrno::Overflow),
            (request(Command::Write, none, 0, u32::MAX), &huge, NbdErrno::Invalid),
            (request(Command::Read, CommandFlags::NO_HOLE, 0, 4096), &SESSION, NbdErrno::Invalid),
            (request(Command::Read, CommandFlags::DF, 0, 4096), &plain, NbdErrno::Invalid),
            (request(Command::BlockStatus, none, 0, 4096), &plain, NbdErrno::Invalid),
            (Request { command: 99, ..request(Command::Read, none, 0, 0) }, &SESSION, NbdErrno::Invalid),
        ];
        for (request, session, expected) in table {
            assert_eq!(errno(request, session), Some(expected), "{request:?}");
        }
    }

    #[test]
    fn zeroes_that_must_be_fast_are_asked_for_as_such() {
        let fast = Session { fast_zero: true, ..SESSION };
        let fast_only = |flags| match check(&request(Command::WriteZeroes, flags, 0, 4096), &fast) {
            Ok(Work::Zeroes { fast_only, .. }) => fast_only,
            other => panic!("{other:?}"),
        };
        assert!(fast_only(CommandFlags::FAST_ZERO) && !fast_only(CommandFlags(0)));
    }

    #[test]
    fn an_unaligned_read_takes_the_blocks_around_it() {
        let work = check(&request(Command::Read, CommandFlags(0), 4000, 200), &SESSION);
        assert_eq!(
            work,
            Ok(Work::Read { offset_bytes: 0, len_bytes: 8192, skip_bytes: 4000, take_bytes: 200 })
        );
    }

    #[test]
    fn an_unaligned_trim_shrinks_to_whole_blocks() {
        let work = check(&request(Command::Trim, CommandFlags(0), 100, 8192), &SESSION);
        assert_eq!(work, Ok(Work::Trim { offset_bytes: 4096, len_bytes: 4096, fua: false }));
        assert_eq!(check(&request(Command::Trim, CommandFlags(0), 100, 4096), &SESSION), Ok(Work::Nothing));
    }

    proptest! {
        #[test]
        fn granted_work_lies_within_the_export(command in 0u16..9, flags in 0u16..32, offset in 0u64..2 << 20, len in 0u32..2 << 20) {
            let request = Request { flags: CommandFlags(flags), command, cookie: Cookie(0), offset_bytes: offset, len_bytes: len };
            let range = match check(&request, &SESSION) {
                Ok(Work::Read { offset_bytes, len_bytes, skip_bytes, take_bytes }) => {
                    prop_assert!(skip_bytes + take_bytes <= len_bytes);
                    (offset_bytes, u64::from(len_bytes))
                }
                Ok(Work::Write { offset_bytes, len_bytes, .. }) => (offset_bytes, u64::from(len_bytes)),
                Ok(Work::Trim { offset_bytes, len_bytes, .. } | Work::Zeroes { offset_bytes, len_bytes, .. }
                    | Work::Status { offset_bytes, len_bytes, .. }) => (offset_bytes, len_bytes),
                _ => return Ok(()),
            };
            prop_assert!(range.0 % 4096 == 0 && range.1 % 4096 == 0 && range.1 > 0);
            prop_assert!(range.0 + range.1 <= SESSION.size_bytes);
        }
    }
}
