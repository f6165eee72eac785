//! What can go wrong with a store.

use stripewise_device::IoError;
use thiserror::Error;

use crate::{journal::CommitError, space::SpaceError, tree::TreeError};

/// Why the store did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The space.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The journal.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The volume cannot write.
    #[error("the file system cannot be written: {0}; what was not written stays in memory")]
    Io(#[from] IoError),
    /// No block is left.
    #[error("no space is left: remove files, or take a larger volume")]
    NoSpace,
    /// An anchor could not be written: which tree counts is not known.
    #[error(
        "the file system takes no changes since an anchor could not be written; unmount it, see to the volume, and mount it again"
    )]
    Failed,
}
