//! The table of locked rows, and what it keeps of a client's write that waits to be gathered.

use stripewise_device::WriteFlags;

use crate::{compute::Data, error::ArrayError, life::detached::Promise, locks};

/// The table of the rows that writes hold. Gathered writes wait in it.
pub(crate) type RowLocks = locks::RowLocks<Part>;
/// Rows of a stripe, locked.
pub(crate) type RowGuard<'a> = locks::RowGuard<'a, Part>;

/// A write that waits with others.
pub(crate) struct Part {
    pub(super) data: Data,
    pub(super) flags: WriteFlags,
    pub(super) promise: Promise<Result<(), ArrayError>>,
}
