//! What may be wrong in a file system.

use stripewise_format::rafs::{key::Key, value::ValueError};
use thiserror::Error;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// A node cannot be read, or is none.
    #[error("the tree's node in block {place} is lost: {why}")]
    Node {
        /// Its place.
        place: u64,
        /// Why.
        why: String,
    },
    /// A node has two parents.
    #[error("the tree's node in block {place} has two parents")]
    NodeTwice {
        /// Its place.
        place: u64,
    },
    /// An item is none.
    #[error("{key:?}: {error}")]
    Item {
        /// Its key.
        key: Key,
        /// What is wrong with it.
        error: ValueError,
    },
    /// An item belongs to an inode that is not there.
    #[error("{key:?} belongs to no inode")]
    NoInode {
        /// Its key.
        key: Key,
    },
    /// A number of an inode does not agree with what there is.
    #[error("inode {inode} says {told} for its {what}, and has {found}")]
    Count {
        /// The inode.
        inode: u64,
        /// What is counted.
        what: &'static str,
        /// What the inode says.
        told: u64,
        /// What there is.
        found: u64,
    },
    /// A name leads nowhere.
    #[error("{name} in folder {folder} leads to inode {inode}, which is not there")]
    NameLeadsNowhere {
        /// The folder.
        folder: u64,
        /// The name.
        name: String,
        /// Where it leads.
        inode: u64,
    },
    /// The two entries of a name are not the same.
    #[error("{name} in folder {folder} is entered once, and not twice")]
    NameOnce {
        /// The folder.
        folder: u64,
        /// The name.
        name: String,
    },
    /// An entry is found by the wrong hash or number.
    #[error("{name} in folder {folder} is entered where it is not looked for")]
    NameMisplaced {
        /// The folder.
        folder: u64,
        /// The name.
        name: String,
    },
    /// The type of an entry is not that of its inode.
    #[error("{name} in folder {folder} has another type than inode {inode}")]
    NameType {
        /// The folder.
        folder: u64,
        /// The name.
        name: String,
        /// The inode.
        inode: u64,
    },
    /// No way leads from the root to an inode.
    #[error("inode {inode} is not reached from the root")]
    Unreached {
        /// The inode.
        inode: u64,
    },
    /// A folder's parent is another one.
    #[error("folder {inode} says that it lies in folder {told}, and lies in {found}")]
    Parent {
        /// The folder.
        inode: u64,
        /// What it says.
        told: u64,
        /// Where it is.
        found: u64,
    },
    /// An inode has items that its type does not have.
    #[error("inode {inode} has {what}, which its type does not have")]
    WrongItem {
        /// The inode.
        inode: u64,
        /// What.
        what: &'static str,
    },
    /// Two extents of a file have the same block of it.
    #[error("block {block} of inode {inode} has two places")]
    TwoPlaces {
        /// The file.
        inode: u64,
        /// The block in the file.
        block: u64,
    },
    /// A block belongs to two.
    #[error("block {block} of the volume belongs to inodes {inode} and {other} (0: the tree)")]
    TwoOwners {
        /// The block.
        block: u64,
        /// One.
        inode: u64,
        /// The other.
        other: u64,
    },
    /// A block belongs to an inode, and may be given to another one.
    #[error(
        "block {block} of the volume belongs to inode {inode} (0: the tree), and is free by its stripe group"
    )]
    NotTaken {
        /// The block.
        block: u64,
        /// Whose.
        inode: u64,
    },
    /// Blocks belong to nobody, and are not free.
    #[error("{blocks} blocks belong to nobody, and are not free")]
    Leaked {
        /// How many.
        blocks: u64,
    },
    /// The anchor counts other inodes.
    #[error("there are {found} inodes, and the anchor says {told}")]
    Inodes {
        /// What there is.
        found: u64,
        /// What it says.
        told: u64,
    },
}
