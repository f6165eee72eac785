//! What callers see and set of an inode.

use stripewise_format::rafs::inode::{FileType, Inode};

use super::FsError;

/// Bits of a mode that are not its type.
pub(super) const PERMISSIONS: u32 = 0o7777;
/// The bit that gives new entries of a folder its group.
pub(super) const SET_GID: u32 = 0o2000;

/// What stat(2) tells of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub inode: u64,
    /// What it is.
    pub file_type: FileType,
    /// All else. Lengths are those that callers see, whether or not they are durable.
    pub is: Inode,
}

impl Attr {
    pub(super) fn of(number: u64, inode: &Inode) -> Result<Self, FsError> {
        let file_type = inode.file_type().map_err(|error| FsError::Item { inode: number, error })?;
        Ok(Self { inode: number, file_type, is: *inode })
    }
}

/// What a new inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewInode {
    /// What it is.
    pub file_type: FileType,
    /// Its permissions, as chmod(2) takes them.
    pub permissions: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group, unless the folder gives it one.
    pub gid: u32,
    /// Of a device: its number.
    pub device: u64,
}

/// What is set of an inode; what is left out stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permissions.
    pub permissions: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length of a file in bytes. What it gains is zeroes.
    pub size_bytes: Option<u64>,
    /// When it was read last.
    pub accessed_ns: Option<i64>,
    /// When its content was changed last.
    pub modified_ns: Option<i64>,
}

/// An entry of a folder, as reading the folder tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// The inode.
    pub inode: u64,
    /// Reading goes on behind this number. No other entry of the folder ever had it.
    pub number: u64,
    /// What the inode is.
    pub file_type: FileType,
    /// The name.
    pub name: Vec<u8>,
}

/// What statfs(2) tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Blocks for files and metadata.
    pub blocks: u64,
    /// Those that files may still take.
    pub free_blocks: u64,
    /// Inodes.
    pub inodes: u64,
    /// Blocks that are written by clients, and not written out.
    pub buffered_blocks: u64,
}
