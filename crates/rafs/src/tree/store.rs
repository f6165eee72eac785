//! Where the tree's nodes come from.

use stripewise_device::{BoxFuture, IoError, SharedBuf};

use crate::shape::BlockNo;

/// What the tree reads its nodes from.
pub trait NodeStore: Send + Sync + 'static {
    /// Reads a block.
    fn read(&self, place: BlockNo) -> BoxFuture<Result<SharedBuf, IoError>>;
}
