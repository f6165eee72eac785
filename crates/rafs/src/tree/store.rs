//! Where the tree's nodes come from.

use stripewise_device::{BoxFuture, IoError, SharedBuf};

use crate::shape::BlockNo;

/// Tells whether bytes are what they should be.
pub type IsRight = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What the tree reads its nodes from.
pub trait NodeStore: Send + Sync + 'static {
    /// Reads a block.
    fn read(&self, place: BlockNo) -> BoxFuture<Result<SharedBuf, IoError>>;

    /// A block that is not what it should be, as redundancy has it, if that is. An error: it may be there another time.
    fn find(&self, _place: BlockNo, _is_right: IsRight) -> BoxFuture<Result<Option<SharedBuf>, IoError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
