//! Arguments of requests.

use zerocopy::FromBytes;

use crate::protocol::{
    FallocateMode, FileHandle, FsyncFlags, InitFlags, NodeId, OpenRequestFlags, ReadFlags, ReleaseFlags,
    RenameFlags, Timestamp, WriteFlags, XattrFlags, input::ForgetOne,
};

/// INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Init {
    /// The kernel's major version of the protocol.
    pub major: u32,
    /// Its minor version.
    pub minor: u32,
    /// The most that it would read ahead, in bytes.
    pub readahead_bytes_max: u32,
    /// What it offers.
    pub flags: InitFlags,
}

/// Nodes to forget, and how many lookups of each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Forgets<'a>(pub(super) &'a [u8]);

impl Forgets<'_> {
    /// Each node with the lookups that the kernel lets go of.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let ones = self.0.chunks_exact(size_of::<ForgetOne>());
        ones.filter_map(|one| ForgetOne::read_from_bytes(one).ok())
            .map(|one| (NodeId(one.nodeid), one.nlookup))
    }
}

impl std::fmt::Debug for Forgets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The server's own.
    Now,
    /// This one.
    To(Timestamp),
}

/// SETATTR: what is `None` stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Setattr {
    /// The open file by which it was asked.
    pub handle: Option<FileHandle>,
    /// Type and permissions.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The length: shorter cuts, longer adds zeroes.
    pub size_bytes: Option<u64>,
    /// Time of the last access.
    pub accessed: Option<SetTime>,
    /// Time of the last change of content.
    pub modified: Option<SetTime>,
    /// Time of the last change of attributes; only a kernel that writes back says it.
    pub changed: Option<Timestamp>,
    /// For mandatory locks.
    pub lock_owner: Option<u64>,
    /// Set-user-ID, and set-group-ID of an executable, are to be cleared. Only if negotiated.
    pub kills_suidgid: bool,
}

/// SYMLINK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symlink<'a> {
    /// The link's name.
    pub name: &'a [u8],
    /// What it says.
    pub target: &'a [u8],
}

/// MKNOD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mknod<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Type and permissions; the umask is applied already.
    pub mode: u32,
    /// The device's number, as makedev(3) packs 32 bits.
    pub rdev: u32,
    /// The caller's umask.
    pub umask: u32,
}

/// MKDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mkdir<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Permissions; the umask is applied already. The type may be missing.
    pub mode: u32,
    /// The caller's umask.
    pub umask: u32,
}

/// RENAME and RENAME2. The request's node is the folder of the old name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rename<'a> {
    /// The old name.
    pub name: &'a [u8],
    /// The folder of the new name.
    pub new_parent: NodeId,
    /// The new name.
    pub new_name: &'a [u8],
    /// None for RENAME.
    pub flags: RenameFlags,
}

/// LINK. The request's node is the folder of the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    /// The inode that gets another name.
    pub node: NodeId,
    /// That name.
    pub name: &'a [u8],
}

/// OPEN and OPENDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Flags of open(2), without `O_CREAT`, `O_EXCL` and `O_NOCTTY`.
    pub flags: u32,
    /// What else the kernel says.
    pub open_flags: OpenRequestFlags,
}

/// CREATE and TMPFILE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Create<'a> {
    /// The name. For TMPFILE it has no meaning.
    pub name: &'a [u8],
    /// Flags of open(2).
    pub flags: u32,
    /// Type and permissions; the umask is applied already.
    pub mode: u32,
    /// The caller's umask.
    pub umask: u32,
    /// What else the kernel says.
    pub open_flags: OpenRequestFlags,
}

/// READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The open file.
    pub handle: FileHandle,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u32,
    /// What the kernel says of the read.
    pub read_flags: ReadFlags,
    /// For mandatory locks.
    pub lock_owner: u64,
    /// Flags of open(2).
    pub flags: u32,
}

/// WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    /// The open file.
    pub handle: FileHandle,
    /// Where. The end of the data is below 2^64.
    pub offset_bytes: u64,
    /// What.
    pub data: &'a [u8],
    /// What the kernel says of the write.
    pub write_flags: WriteFlags,
    /// For mandatory locks.
    pub lock_owner: u64,
    /// Flags of open(2).
    pub flags: u32,
}

/// READDIR and READDIRPLUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadDirectory {
    /// The open folder.
    pub handle: FileHandle,
    /// Zero for the beginning, else what an entry was given as its position: it goes on behind that entry.
    pub offset: u64,
    /// Room for entries.
    pub size_bytes: u32,
}

/// RELEASE and RELEASEDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// What is no longer open.
    pub handle: FileHandle,
    /// Flags of open(2).
    pub flags: u32,
    /// What is to be done besides.
    pub release_flags: ReleaseFlags,
    /// Whose lock is meant there.
    pub lock_owner: u64,
}

/// FSYNC and FSYNCDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fsync {
    /// The open file or folder.
    pub handle: FileHandle,
    /// How much is meant.
    pub flags: FsyncFlags,
}

/// SETXATTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setxattr<'a> {
    /// The attribute's name, with its namespace, as `user.note`.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Whether it must, or must not, exist.
    pub flags: XattrFlags,
}

/// FALLOCATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallocate {
    /// The open file.
    pub handle: FileHandle,
    /// Where the range begins. Its end is below 2^64.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
    /// What is done.
    pub mode: FallocateMode,
}

/// What LSEEK looks for. The kernel does the other kinds itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    /// Data (`SEEK_DATA`).
    Data,
    /// A hole (`SEEK_HOLE`). There is one at the end of each file.
    Hole,
}

/// LSEEK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lseek {
    /// The open file.
    pub handle: FileHandle,
    /// From where on.
    pub offset_bytes: u64,
    /// What is looked for.
    pub whence: Whence,
}

/// COPY_FILE_RANGE. The request's node is the file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyFileRange {
    /// The open file that is read.
    pub handle: FileHandle,
    /// From where on.
    pub offset_bytes: u64,
    /// The file that is written.
    pub to_node: NodeId,
    /// It, opened.
    pub to_handle: FileHandle,
    /// From where on.
    pub to_offset_bytes: u64,
    /// How much.
    pub length_bytes: u64,
    /// Flags of copy_file_range(2): none are defined.
    pub flags: u64,
}

/// STATX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statx {
    /// The open file that was asked, if any.
    pub handle: Option<FileHandle>,
    /// `AT_STATX_*` of statx(2).
    pub flags: u32,
    /// Which fields are wanted: `STATX_*`.
    pub mask: u32,
}
