//! Attributes, entries, and the small replies.

use std::time::Duration;

use crate::protocol::{
    AttributeFlags, FileHandle, NodeId, OpenReplyFlags, Timestamp,
    output::{
        Attr, AttrOut, CreateOut, EntryOut, GetxattrOut, LseekOut, OpenOut, StatfsOut, Statx, StatxOut,
        SxTime, WriteOut,
    },
};

/// The bits of statx(2) that FUSE has besides the basic ones: the time of birth (`STATX_BTIME`).
const STATX_BASIC: u32 = 0x7ff;
const STATX_BTIME: u32 = 0x800;

/// Attributes of an inode, as stat(2) shows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The inode's number that is shown; the kernel itself goes by [`NodeId`].
    pub inode: u64,
    /// Length.
    pub size_bytes: u64,
    /// Space in use, in units of 512 bytes.
    pub blocks_512: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of content.
    pub modified: Timestamp,
    /// Last change of attributes.
    pub changed: Timestamp,
    /// Type and permissions.
    pub mode: u32,
    /// Names of the inode.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The number of a device.
    pub rdev: u32,
    /// The size of I/O that suits the file, in bytes.
    pub block_bytes: u32,
    /// Whatever else.
    pub flags: AttributeFlags,
}

impl Attributes {
    fn raw(&self) -> Attr {
        Attr {
            ino: self.inode,
            size: self.size_bytes,
            blocks: self.blocks_512,
            atime: self.accessed.seconds,
            mtime: self.modified.seconds,
            ctime: self.changed.seconds,
            atimensec: self.accessed.nanoseconds,
            mtimensec: self.modified.nanoseconds,
            ctimensec: self.changed.nanoseconds,
            mode: self.mode,
            nlink: self.links,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            blksize: self.block_bytes,
            flags: self.flags.bits(),
        }
    }
}

/// A name's inode. Each that is answered counts as a lookup of its node, until it is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The node. Zero says that there is no such name, and that this may be cached.
    pub node: NodeId,
    /// With the node unique for as long as the file system exists.
    pub generation: u64,
    /// How long the kernel may trust the name.
    pub entry_valid: Duration,
    /// How long it may trust the attributes.
    pub attributes_valid: Duration,
    /// The attributes.
    pub attributes: Attributes,
}

impl Entry {
    /// The answer that a name does not exist, for the kernel to cache.
    pub fn absent(entry_valid: Duration) -> Self {
        Self {
            node: NodeId(0),
            generation: 0,
            entry_valid,
            attributes_valid: Duration::ZERO,
            attributes: Attributes::default(),
        }
    }

    pub(crate) fn raw(&self) -> EntryOut {
        EntryOut {
            nodeid: self.node.0,
            generation: self.generation,
            entry_valid: self.entry_valid.as_secs(),
            attr_valid: self.attributes_valid.as_secs(),
            entry_valid_nsec: self.entry_valid.subsec_nanos(),
            attr_valid_nsec: self.attributes_valid.subsec_nanos(),
            attr: self.attributes.raw(),
        }
    }
}

/// An open file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// What the server calls it by.
    pub handle: FileHandle,
    /// How it is treated.
    pub flags: OpenReplyFlags,
}

impl Opened {
    pub(crate) fn raw(&self) -> OpenOut {
        OpenOut { fh: self.handle.0, open_flags: self.flags.bits(), padding: 0 }
    }
}

/// How full a file system is, as statvfs(3) shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileSystemFigures {
    /// Blocks of `fragment_bytes`.
    pub blocks: u64,
    /// Those that are free.
    pub blocks_free: u64,
    /// Those that are free for users who are not root.
    pub blocks_available: u64,
    /// Inodes.
    pub files: u64,
    /// Those that are free.
    pub files_free: u64,
    /// The size of I/O that suits the file system, in bytes.
    pub block_bytes: u32,
    /// The longest name, in bytes.
    pub name_bytes_max: u32,
    /// The unit of `blocks`, in bytes.
    pub fragment_bytes: u32,
}

impl FileSystemFigures {
    pub(crate) fn raw(&self) -> StatfsOut {
        StatfsOut {
            blocks: self.blocks,
            bfree: self.blocks_free,
            bavail: self.blocks_available,
            files: self.files,
            ffree: self.files_free,
            bsize: self.block_bytes,
            namelen: self.name_bytes_max,
            frsize: self.fragment_bytes,
            ..StatfsOut::default()
        }
    }
}

/// Attributes with what statx(2) shows besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatxAttributes {
    /// What stat(2) shows, too.
    pub attributes: Attributes,
    /// When the inode was made, if that is known.
    pub born: Option<Timestamp>,
    /// `STATX_ATTR_*` that hold.
    pub attribute_bits: u64,
    /// `STATX_ATTR_*` that are known.
    pub attribute_mask: u64,
}

/// GETATTR and SETATTR.
pub(crate) fn attributes(attributes: &Attributes, valid: Duration) -> AttrOut {
    AttrOut {
        attr_valid: valid.as_secs(),
        attr_valid_nsec: valid.subsec_nanos(),
        dummy: 0,
        attr: attributes.raw(),
    }
}

/// CREATE and TMPFILE.
pub(crate) fn created(entry: &Entry, opened: &Opened) -> CreateOut {
    CreateOut { entry: entry.raw(), open: opened.raw() }
}

/// WRITE and COPY_FILE_RANGE.
pub(crate) fn written(size_bytes: u32) -> WriteOut {
    WriteOut { size: size_bytes, padding: 0 }
}

/// GETXATTR and LISTXATTR without room.
pub(crate) fn xattr_size(size_bytes: u32) -> GetxattrOut {
    GetxattrOut { size: size_bytes, padding: 0 }
}

/// LSEEK.
pub(crate) fn position(offset_bytes: u64) -> LseekOut {
    LseekOut { offset: offset_bytes }
}

/// STATX.
pub(crate) fn statx(all: &StatxAttributes, valid: Duration) -> StatxOut {
    let attributes = &all.attributes;
    let birth = if all.born.is_some() { STATX_BTIME } else { 0 };
    let stat = Statx {
        mask: STATX_BASIC | birth,
        blksize: attributes.block_bytes,
        attributes: all.attribute_bits,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        // Type and permissions are its lower 16 bits.
        mode: attributes.mode as u16,
        ino: attributes.inode,
        size: attributes.size_bytes,
        blocks: attributes.blocks_512,
        attributes_mask: all.attribute_mask,
        atime: time(attributes.accessed),
        btime: all.born.map(time).unwrap_or_default(),
        ctime: time(attributes.changed),
        mtime: time(attributes.modified),
        rdev_major: rustix::fs::major(u64::from(attributes.rdev)),
        rdev_minor: rustix::fs::minor(u64::from(attributes.rdev)),
        ..Statx::default()
    };
    StatxOut {
        attr_valid: valid.as_secs(),
        attr_valid_nsec: valid.subsec_nanos(),
        stat,
        ..StatxOut::default()
    }
}

fn time(time: Timestamp) -> SxTime {
    SxTime { tv_sec: time.seconds, tv_nsec: time.nanoseconds, reserved: 0 }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn attributes_lie_where_the_kernel_looks() {
        let changed = Timestamp { seconds: -1, nanoseconds: 5 };
        let attributes =
            Attributes { inode: 9, size_bytes: 10, mode: 0o100_600, changed, ..Attributes::default() };
        let entry = Entry { attributes, ..Entry::absent(Duration::from_millis(1500)) };
        let raw = entry.raw();
        let bytes = raw.as_bytes();
        assert_eq!(bytes[16..24], 1_u64.to_ne_bytes(), "entry_valid");
        assert_eq!(bytes[32..36], 500_000_000_u32.to_ne_bytes(), "entry_valid_nsec");
        assert_eq!(bytes[40..48], 9_u64.to_ne_bytes(), "attr.ino");
        assert_eq!(bytes[80..88], (-1_i64).to_ne_bytes(), "attr.ctime");
        assert_eq!(bytes[100..104], 0o100_600_u32.to_ne_bytes(), "attr.mode");
    }
}
