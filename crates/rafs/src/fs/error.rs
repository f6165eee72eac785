//! What can go wrong in the file system, and the error number that a kernel knows it by.

use stripewise_device::IoError;
use stripewise_format::rafs::{names::NAME_MAX, value::ValueError};
use thiserror::Error;

use crate::{store::StoreError, tree::TreeError, volume::is_lost};

/// Why an operation was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FsError {
    /// The folder has no entry of this name.
    #[error("there is no such file or folder")]
    NotFound,
    /// The folder has an entry of this name.
    #[error("there is a file or folder of this name")]
    Exists,
    /// A folder is needed.
    #[error("this is no folder")]
    NotFolder,
    /// A folder does not do.
    #[error("this is a folder")]
    IsFolder,
    /// The folder has entries.
    #[error("the folder is not empty")]
    NotEmpty,
    /// What was asked makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// No name of a file.
    #[error("a name has 1 to {NAME_MAX} bytes, and neither / nor zero")]
    Name,
    /// The file would be too large.
    #[error("a file has up to {0} bytes")]
    TooLarge(u64),
    /// The inode is gone.
    #[error("inode {0} is gone")]
    Stale(u64),
    /// Too many names for one inode.
    #[error("the inode has as many names as it can")]
    Links,
    /// No attribute of this name.
    #[error("there is no such attribute")]
    NoAttribute,
    /// The attribute's value is too long.
    #[error(
        "an attribute of {bytes} bytes with its name, and those whose names have its hash, take up to {max}"
    )]
    AttributeTooLong {
        /// What it would take.
        bytes: usize,
        /// What fits.
        max: usize,
    },
    /// Names of one hash fill an item.
    #[error("too many names of this folder have one hash; take another name")]
    Collisions,
    /// No block is left.
    #[error("no space is left: remove files, or take a larger volume")]
    NoSpace,
    /// It was mounted to be read.
    #[error("the file system is mounted read-only")]
    ReadOnly,
    /// A change could not be carried out as a whole.
    #[error(
        "the file system takes no changes since one could not be ended; what was synced before is safe: unmount it, see to the \
         volume, and mount it again"
    )]
    Broken,
    /// Block of a file that is not what was written.
    #[error(
        "block {block} of inode {inode} is damaged: its CRC does not match what was written; restore the file from a copy"
    )]
    Damaged {
        /// The file.
        inode: u64,
        /// The block in the file.
        block: u64,
    },
    /// The volume.
    #[error("the volume cannot be read or written: {0}; see to its members, then try again")]
    Io(#[from] IoError),
    /// An item of the tree is none.
    #[error("inode {inode}: {error}")]
    Item {
        /// Whose item.
        inode: u64,
        /// What is wrong with it.
        error: ValueError,
    },
    /// The store.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for FsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSpace => Self::NoSpace,
            StoreError::Io(error) => Self::Io(error),
            StoreError::Failed => Self::Broken,
            other => Self::Store(other),
        }
    }
}

impl From<TreeError> for FsError {
    fn from(error: TreeError) -> Self {
        Self::Store(error.into())
    }
}

impl FsError {
    /// Whether it comes again with every try: what is needed is damaged, or the medium has lost it.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Item { .. } => true,
            Self::Store(StoreError::Tree(TreeError::Unreadable { source, .. })) => is_lost(source),
            Self::Store(StoreError::Tree(_)) => true,
            _ => false,
        }
    }

    /// The error number for it, as errno(3) numbers them on Linux.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => 2,
            Self::Exists => 17,
            Self::NotFolder => 20,
            Self::IsFolder => 21,
            Self::Invalid(_) => 22,
            Self::TooLarge(_) => 27,
            Self::NoSpace | Self::Collisions => 28,
            Self::ReadOnly | Self::Broken => 30,
            Self::Links => 31,
            Self::Name => 36,
            Self::NotEmpty => 39,
            Self::NoAttribute => 61,
            Self::AttributeTooLong { .. } => 7,
            Self::Stale(_) => 116,
            Self::Damaged { .. } | Self::Io(_) | Self::Item { .. } | Self::Store(_) => 5,
        }
    }
}
