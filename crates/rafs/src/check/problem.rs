//! What may be wrong in a file system.

use stripewise_format::rafs::{key::Key, value::ValueError};
use thiserror::Error;

use crate::space::SpaceError;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// Copies of a superblock are damaged.
    #[error("{bad} copies of the superblock from block {place} on are damaged")]
    Superblock {
        /// The first of the copies.
        place: u64,
        /// How many.
        bad: u32,
    },
    /// All copies of an anchor are damaged.
    #[error("the anchor in block {place} is lost: {why}")]
    Anchor {
        /// Its place.
        place: u64,
        /// Why.
        why: String,
    },
    /// Some copies of an anchor are damaged: a crash that takes a member along can do that.
    #[error("{bad} copies of the anchor from block {place} on are damaged, and others are good")]
    AnchorCopies {
        /// The first of the copies.
        place: u64,
        /// How many.
        bad: u32,
    },
    /// The anchor that is lost was the newer one.
    #[error("no anchor leads to the newest tree, which is of generation {generation}")]
    NewerTree {
        /// Its generation.
        generation: u64,
    },
    /// A record of the journal is whole, and holds a change that this program does not know.
    #[error(
        "record {sequence} of the journal is whole, and holds a change that this program does not know ({error}); a repair drops it and all after it"
    )]
    UnknownRecord {
        /// Its number.
        sequence: u64,
        /// What is wrong with the change.
        error: ValueError,
    },
    /// Records of the journal are lost.
    #[error("records {sequence} to {later} of the journal, or those before the last one, are lost: {why}")]
    Journal {
        /// The first that is lost.
        sequence: u64,
        /// One behind it that is valid, and does not count without it.
        later: u64,
        /// Why.
        why: String,
    },
    /// What records, or groups, say of the space does not go together.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The anchor counts other blocks.
    #[error("{found} blocks are taken by the stripe groups, and {told} by the anchor")]
    Used {
        /// Those of the groups.
        found: u64,
        /// Those of the anchor.
        told: u64,
    },
    /// The number that the next inode would get is given already.
    #[error("the next inode would get number {told}, and {found} is given")]
    NextInode {
        /// What the anchor says.
        told: u64,
        /// The highest number.
        found: u64,
    },
    /// There is no root, or it is no folder.
    #[error("the root folder is missing")]
    NoRoot,
    /// An inode is missing, of which other items are left.
    #[error("inode {inode} is missing, and its content is there")]
    InodeLost {
        /// The inode.
        inode: u64,
    },
    /// Attributes are found by the wrong hash.
    #[error("inode {inode} has attributes where they are not looked for")]
    XattrMisplaced {
        /// The inode.
        inode: u64,
    },
    /// Two entries of a folder have one name.
    #[error("{name} is twice in folder {folder}")]
    NameTwice {
        /// The folder.
        folder: u64,
        /// The name.
        name: String,
    },
    /// Two entries of a folder have one number.
    #[error("{name} in folder {folder} has the number of another entry")]
    NumberTwice {
        /// The folder.
        folder: u64,
        /// The name.
        name: String,
    },
    /// A folder has two names.
    #[error("{name} in folder {folder} leads to folder {inode}, which lies elsewhere")]
    FolderNamedTwice {
        /// The folder.
        folder: u64,
        /// The name.
        name: String,
        /// Where it leads.
        inode: u64,
    },
    /// An inode that is said to have no name has one.
    #[error("inode {inode} has a name, and is said to have none")]
    OrphanNamed {
        /// The inode.
        inode: u64,
    },
    /// An extent lies where none can lie.
    #[error(
        "block {block} of inode {inode} is said to lie in block {place}, which is in no stripe group, or in several"
    )]
    OutOfRange {
        /// The file.
        inode: u64,
        /// The block in the file.
        block: u64,
        /// Where it is said to lie.
        place: u64,
    },
    /// A file does not have the bytes that its extent leads to.
    #[error(
        "{blocks} blocks of inode {inode}, from its block {block} on, are not its own or cannot be read; they become a hole"
    )]
    Hole {
        /// The file.
        inode: u64,
        /// The extent's first block in the file.
        block: u64,
        /// How many are lost.
        blocks: u64,
    },
    /// A node cannot be read, or is none.
    #[error("the tree's node in block {place} is lost: {why}")]
    Node {
        /// Its place.
        place: u64,
        /// Why.
        why: String,
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
        /// The first such block of a run.
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

impl Problem {
    /// Its kind: the variant's name.
    #[must_use]
    pub fn kind(&self) -> String {
        let text = format!("{self:?}");
        text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
    }
}
