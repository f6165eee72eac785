//! Inodes: the value of an inode's item.

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::value::ValueError;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawInode {
    pub(crate) mode: U32,
    pub(crate) uid: U32,
    pub(crate) gid: U32,
    pub(crate) links: U32,
    pub(crate) size_bytes: U64,
    pub(crate) blocks: U64,
    pub(crate) accessed_ns: I64,
    pub(crate) modified_ns: I64,
    pub(crate) changed_ns: I64,
    pub(crate) born_ns: I64,
    pub(crate) generation: U32,
    pub(crate) flags: U32,
    pub(crate) device: U64,
    pub(crate) parent: U64,
    pub(crate) next_number: U64,
}

/// The bits of a mode that say what an inode is, as in stat(2).
const TYPE_MASK: u32 = 0o170_000;

/// What an inode is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FileType {
    /// A named pipe.
    Fifo = 0o01,
    /// A character device.
    CharDevice = 0o02,
    /// A folder.
    Folder = 0o04,
    /// A block device.
    BlockDevice = 0o06,
    /// A file.
    File = 0o10,
    /// A symbolic link.
    Link = 0o12,
    /// A socket.
    Socket = 0o14,
}

impl FileType {
    /// All types.
    pub const ALL: [Self; 7] =
        [Self::Fifo, Self::CharDevice, Self::Folder, Self::BlockDevice, Self::File, Self::Link, Self::Socket];

    /// The type of this number: the upper four bits of a mode.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u8 == number)
    }
}

/// What is kept of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Type and permissions, as in stat(2).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names that it has; of a folder, 2 and one for each folder in it.
    pub links: u32,
    /// Its length in bytes; of a folder, the number of its entries.
    pub size_bytes: u64,
    /// Blocks that are taken for it.
    pub blocks: u64,
    /// When it was read last, in nanoseconds since 1970.
    pub accessed_ns: i64,
    /// When its content was changed last.
    pub modified_ns: i64,
    /// When anything of it was changed last.
    pub changed_ns: i64,
    /// When it was made.
    pub born_ns: i64,
    /// Tells it from earlier inodes of this number.
    pub generation: u32,
    /// Flags, as in chattr(1).
    pub flags: u32,
    /// Of a device: its number.
    pub device: u64,
    /// Of a folder: the folder that it is in. Of others: the folder that they were made in.
    pub parent: u64,
    /// Of a folder: the number that its next entry gets.
    pub next_number: u64,
}

impl Inode {
    /// What it is.
    ///
    /// # Errors
    /// [`ValueError::Nonsense`] for a type that there is not.
    pub fn file_type(&self) -> Result<FileType, ValueError> {
        let number = ((self.mode & TYPE_MASK) >> 12) as u8;
        FileType::of(number)
            .ok_or(ValueError::Nonsense { field: "inode's type", found: u64::from(self.mode) })
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let raw = RawInode {
            mode: self.mode.into(),
            uid: self.uid.into(),
            gid: self.gid.into(),
            links: self.links.into(),
            size_bytes: self.size_bytes.into(),
            blocks: self.blocks.into(),
            accessed_ns: self.accessed_ns.into(),
            modified_ns: self.modified_ns.into(),
            changed_ns: self.changed_ns.into(),
            born_ns: self.born_ns.into(),
            generation: self.generation.into(),
            flags: self.flags.into(),
            device: self.device.into(),
            parent: self.parent.into(),
            next_number: self.next_number.into(),
        };
        raw.as_bytes().to_vec()
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let raw = RawInode::ref_from_bytes(value)
            .map_err(|_| ValueError::Length { what: "inode", found: value.len() })?;
        let inode = Self {
            mode: raw.mode.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            links: raw.links.get(),
            size_bytes: raw.size_bytes.get(),
            blocks: raw.blocks.get(),
            accessed_ns: raw.accessed_ns.get(),
            modified_ns: raw.modified_ns.get(),
            changed_ns: raw.changed_ns.get(),
            born_ns: raw.born_ns.get(),
            generation: raw.generation.get(),
            flags: raw.flags.get(),
            device: raw.device.get(),
            parent: raw.parent.get(),
            next_number: raw.next_number.get(),
        };
        if inode.size_bytes > i64::MAX as u64 {
            return Err(ValueError::Nonsense { field: "length of an inode", found: inode.size_bytes });
        }
        inode.file_type().map(|_| inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_read_as_it_was_written_and_must_have_a_type() {
        let inode = Inode {
            mode: 0o100_644,
            uid: 1,
            gid: 2,
            links: 3,
            size_bytes: 4,
            blocks: 5,
            accessed_ns: -6,
            modified_ns: 7,
            changed_ns: 8,
            born_ns: 9,
            generation: 10,
            flags: 11,
            device: 12,
            parent: 13,
            next_number: 14,
        };
        let bytes = inode.encode();
        assert_eq!(Inode::decode(&bytes), Ok(inode));
        assert_eq!(inode.file_type(), Ok(FileType::File));
        let untyped = Inode { mode: 0o644, ..inode };
        let nonsense = ValueError::Nonsense { field: "inode's type", found: 0o644 };
        assert_eq!(Inode::decode(&untyped.encode()), Err(nonsense));
        let longest = Inode { size_bytes: i64::MAX as u64, ..inode };
        assert_eq!(Inode::decode(&longest.encode()), Ok(longest));
        let too_long = Inode { size_bytes: 1 << 63, ..inode };
        let nonsense = ValueError::Nonsense { field: "length of an inode", found: 1 << 63 };
        assert_eq!(Inode::decode(&too_long.encode()), Err(nonsense));
        let short = ValueError::Length { what: "inode", found: 95 };
        assert_eq!(Inode::decode(&bytes[..95]), Err(short));
    }
}
