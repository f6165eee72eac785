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
    /// A record has an inode that no mount gives.
    #[error("a record of the journal has an inode {inode}, which no mount gives; run fsck")]
    Inode {
        /// Its number.
        inode: u64,
    },
    /// No block is left.
    #[error("no space is left: remove files, or take a larger volume")]
    NoSpace,
    /// The anchor counts other blocks than the groups have.
    #[error("{found} blocks are taken by the stripe groups, and {wanted} by the anchor; run fsck")]
    Used {
        /// Those of the groups.
        found: u64,
        /// Those of the anchor.
        wanted: u64,
    },
    /// Places were taken for nodes, and gave other nodes to write, without end.
    #[error("the tree does not settle: its groups change with every place that is taken for it; run fsck")]
    Unsettled,
    /// What is on the volume is not known: an anchor could not be written, or writes were left alone.
    #[error(
        "the file system takes no changes since it could not be told what was written; unmount it, see to the volume, and mount it again"
    )]
    Failed,
}
