//! Errors that clients and operators of an array see.

use stripewise_device::{IoError, IoErrorKind};
use thiserror::Error;

use crate::{
    cache::CacheError,
    sizes::{format_compared_sizes, format_size},
};

/// An array request or command that failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The range leaves the array or is not on logical blocks.
    #[error(
        "bytes {offset_bytes}+{len_bytes}: requests must be multiples of {block_bytes} bytes within the array's \
         {capacity_bytes}"
    )]
    Range {
        /// The offset as requested.
        offset_bytes: u64,
        /// The length as requested.
        len_bytes: u64,
        /// The array's logical block.
        block_bytes: u32,
        /// The array's size.
        capacity_bytes: u64,
    },
    /// A request for whole rows or blocks of a stripe is not one.
    #[error("stripe {stripe}: {problem}")]
    Blocks {
        /// The stripe.
        stripe: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// More members are lost than the level tolerates.
    #[error(
        "the array has lost more members than its level tolerates; nothing more is written. Bring members back, stop it, \
         and assemble it again"
    )]
    Failed,
    /// These bytes cannot be read or reconstructed.
    #[error(
        "bytes at {offset_bytes} cannot be read: the member failed there and redundancy cannot make up for it"
    )]
    Unreadable {
        /// Where in the array: for a read the first such byte, otherwise the block or the start of its
        /// stripe.
        offset_bytes: u64,
    },
    /// The array is being stopped.
    #[error("the array is being stopped")]
    Closed,
    /// The array is open for reading only.
    #[error("the array is open read-only")]
    ReadOnly,
    /// No such member, or the member is in the wrong state.
    #[error("{member}: {problem}")]
    Member {
        /// The member as given.
        member: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A member is too small to join.
    #[error(
        "{member}: {} of data fit on it and {} are needed; give a larger one",
        format_compared_sizes(*have_bytes, *need_bytes)[0], format_compared_sizes(*have_bytes, *need_bytes)[1]
    )]
    TooSmall {
        /// The member.
        member: String,
        /// The bytes that it offers.
        have_bytes: u64,
        /// The bytes that the array uses of each member.
        need_bytes: u64,
    },
    /// The caller is a worker of the array's own host and would wait for itself.
    #[error(
        "a worker of the array's host cannot wait for a request: await it there, or wait on another thread"
    )]
    OnWorker,
    /// Another background job is under way.
    #[error("a {0} is under way; wait for it or stop it first")]
    Busy(&'static str),
    /// The level has no such operation.
    #[error("{0}")]
    Unsupported(String),
    /// The array cannot have such a cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The array cannot be stopped without losing writes that are in its cache only.
    #[error(
        "{} of acknowledged writes are in the cache only, and members do not take them: {why}. So the array stays open, and \
         they can be read and copied off; a stop by force loses them",
        format_size(*bytes)
    )]
    Unwritten {
        /// How much, in whole blocks.
        bytes: u64,
        /// Why members do not take them.
        why: Box<ArrayError>,
    },
    /// A member I/O failed in an operation without redundancy to fall back on.
    #[error("{member}: {error}")]
    Io {
        /// The member.
        member: String,
        /// The error it reported.
        error: IoError,
    },
}

impl From<ArrayError> for IoError {
    fn from(error: ArrayError) -> Self {
        match error {
            ArrayError::Range { .. }
            | ArrayError::Blocks { .. }
            | ArrayError::Unsupported(_)
            | ArrayError::OnWorker
            | ArrayError::Cache(_) => Self::new(IoErrorKind::Refused),
            ArrayError::Unreadable { .. } => Self::new(IoErrorKind::Medium),
            ArrayError::Io { error, .. } => error,
            ArrayError::Closed | ArrayError::Failed => Self::new(IoErrorKind::Gone),
            ArrayError::ReadOnly => Self::new(IoErrorKind::Refused),
            ArrayError::Member { .. }
            | ArrayError::TooSmall { .. }
            | ArrayError::Unwritten { .. }
            | ArrayError::Busy(_) => Self::new(IoErrorKind::Other),
        }
    }
}

/// Whether a failed request means that the whole member is lost, rather than some of its blocks.
pub(crate) fn is_member_gone(error: &IoError) -> bool {
    matches!(error.kind, IoErrorKind::Gone | IoErrorKind::Silent | IoErrorKind::Truncated)
}
