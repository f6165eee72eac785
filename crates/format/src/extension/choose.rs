//! Which of the header's two copies counts: the valid one with the higher generation.
//!
//! A copy is valid if magic and CRC are right. A valid copy that this version cannot understand still counts
//! as the newest: falling back to an older one would undo a later version's work.

use thiserror::Error;

use super::header::{Header, HeaderError, verified};
use super::raw::RawHeader;

/// One of the two copies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HeaderCopy {
    /// At the area's start.
    A,
    /// At its end.
    B,
}

impl HeaderCopy {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// How the copy that does not count compares to the one that does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherCopy {
    /// The same, byte for byte.
    Same,
    /// A valid copy from before: an update was interrupted.
    Older {
        /// Its generation.
        generation: u64,
    },
    /// Not valid, for this reason: torn, damaged, or never written.
    Invalid(HeaderError),
}

/// Which copy counts, and whether the other needs writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyState {
    /// The copy that counts.
    pub used: HeaderCopy,
    /// The other one.
    pub other: OtherCopy,
}

impl CopyState {
    /// The copy to write so that both are whole and equal, if one is not.
    #[must_use]
    pub fn to_rewrite(self) -> Option<HeaderCopy> {
        match self.other {
            OtherCopy::Same => None,
            OtherCopy::Older { .. } | OtherCopy::Invalid(_) => Some(self.used.other()),
        }
    }
}

/// Why a member has no usable extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ExtensionError {
    /// Both copies blank: the area was never made. A plain md member.
    #[error("this member has no Stripewise extension area; it is a plain md member")]
    Absent,
    /// Neither copy is whole.
    #[error(
        "both copies of the extension header are damaged (first: {a}; second: {b}); the write-intent bitmap cannot \
         be trusted: the array needs a full resync if it was not stopped cleanly"
    )]
    BothDamaged {
        /// What is wrong with the copy at the start.
        a: HeaderError,
        /// What is wrong with the copy at the end.
        b: HeaderError,
    },
    /// Two whole copies of one generation that differ: no crash makes these.
    #[error(
        "the two copies of the extension header differ in generation {generation}: two programs have written this \
         member; the write-intent bitmap cannot be trusted, do a full resync"
    )]
    Conflict {
        /// The generation of both.
        generation: u64,
    },
    /// The newest copy is whole and cannot be used.
    #[error(transparent)]
    Unusable(HeaderError),
}

/// The header that counts, from the blocks of both copies, and the state of the other copy.
pub fn choose(a: &[u8], b: &[u8]) -> Result<(Header, CopyState), ExtensionError> {
    let (used, other) = match (verified(a), verified(b)) {
        (Err(HeaderError::Blank), Err(HeaderError::Blank)) => return Err(ExtensionError::Absent),
        (Err(a), Err(b)) => return Err(ExtensionError::BothDamaged { a, b }),
        (Ok(_), Err(error)) => (HeaderCopy::A, OtherCopy::Invalid(error)),
        (Err(error), Ok(_)) => (HeaderCopy::B, OtherCopy::Invalid(error)),
        (Ok(first), Ok(second)) => newest(first, second)?,
    };
    let block = match used {
        HeaderCopy::A => a,
        HeaderCopy::B => b,
    };
    let header = Header::decode(block).map_err(ExtensionError::Unusable)?;
    Ok((header, CopyState { used, other }))
}

fn newest(a: &RawHeader, b: &RawHeader) -> Result<(HeaderCopy, OtherCopy), ExtensionError> {
    use zerocopy::IntoBytes;
    match (a.generation.get(), b.generation.get()) {
        (first, second) if first > second => Ok((HeaderCopy::A, OtherCopy::Older { generation: second })),
        (first, second) if first < second => Ok((HeaderCopy::B, OtherCopy::Older { generation: first })),
        _ if a.as_bytes() == b.as_bytes() => Ok((HeaderCopy::A, OtherCopy::Same)),
        (generation, _) => Err(ExtensionError::Conflict { generation }),
    }
}
