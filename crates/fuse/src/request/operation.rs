//! What a request asks for.

use super::arguments::{
    CopyFileRange, Create, Fallocate, Forgets, Fsync, Init, Link, Lseek, Mkdir, Mknod, Open, Read,
    ReadDirectory, Release, Rename, Setattr, Setxattr, Statx, Symlink, Write,
};
use crate::protocol::{FileHandle, RequestId};

/// What a request asks for. Names are bytes without a zero or a slash, in no particular encoding.
///
/// The node is that of the [`Request`](super::Request). What each is answered with is said where it is not just
/// success.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Begins a session; the session answers it.
    Init(Init),
    /// Looks a name up. Answered with an entry.
    Lookup {
        /// The name.
        name: &'a [u8],
    },
    /// The kernel lets go of lookups of the node. Not answered.
    Forget {
        /// How many: each entry that was answered counted one.
        lookups: u64,
    },
    /// The same for several nodes. Not answered.
    BatchForget(Forgets<'a>),
    /// Answered with attributes.
    Getattr {
        /// The open file that was asked, if any.
        handle: Option<FileHandle>,
    },
    /// Changes attributes. Answered with the new ones.
    Setattr(Setattr),
    /// Answered with the target's bytes.
    Readlink,
    /// Answered with an entry.
    Symlink(Symlink<'a>),
    /// Answered with an entry.
    Mknod(Mknod<'a>),
    /// Answered with an entry.
    Mkdir(Mkdir<'a>),
    /// Removes a name that is no folder's.
    Unlink {
        /// The name.
        name: &'a [u8],
    },
    /// Removes a folder.
    Rmdir {
        /// Its name.
        name: &'a [u8],
    },
    /// RENAME and RENAME2.
    Rename(Rename<'a>),
    /// Adds a name. Answered with an entry.
    Link(Link<'a>),
    /// Answered with a handle.
    Open(Open),
    /// Answered with bytes; fewer than asked for only at the end of the file.
    Read(Read),
    /// Answered with the number of bytes written.
    Write(Write<'a>),
    /// Answered with the file system's figures.
    Statfs,
    /// The last use of an open file has ended. Nobody sees the answer's error.
    Release(Release),
    /// Makes a file durable.
    Fsync(Fsync),
    /// Sets an extended attribute.
    Setxattr(Setxattr<'a>),
    /// Answered with the value; with its length if `size_bytes` is zero; with ERANGE if it is longer than that.
    Getxattr {
        /// The attribute's name.
        name: &'a [u8],
        /// Room for the value.
        size_bytes: u32,
    },
    /// Answered with names that each end with a zero, else as `Getxattr`.
    Listxattr {
        /// Room for the names.
        size_bytes: u32,
    },
    /// Removes an extended attribute.
    Removexattr {
        /// Its name.
        name: &'a [u8],
    },
    /// A descriptor of an open file is closed. Its error is that of close(2).
    Flush {
        /// The open file.
        handle: FileHandle,
        /// Whose POSIX locks end.
        lock_owner: u64,
    },
    /// Answered with a handle.
    Opendir(Open),
    /// Answered with entries.
    Readdir(ReadDirectory),
    /// Answered with entries and their attributes. Each, except "." and "..", counts as a lookup.
    Readdirplus(ReadDirectory),
    /// The last use of an open folder has ended.
    Releasedir(Release),
    /// Makes a folder durable.
    Fsyncdir(Fsync),
    /// Whether the caller may access the file; not asked with `default_permissions`.
    Access {
        /// `R_OK`, `W_OK` and `X_OK` of access(2).
        mask: u32,
    },
    /// Makes a file and opens it. Answered with entry and handle.
    Create(Create<'a>),
    /// The caller of a request no longer wants to wait. It may be answered early, with EINTR. Not answered itself.
    Interrupt {
        /// That request.
        request: RequestId,
    },
    /// The session ends. Only mounts on a block device send it, and unmounting waits for its answer.
    Destroy,
    /// Reserves or frees space.
    Fallocate(Fallocate),
    /// Answered with an offset, or ENXIO beyond the last.
    Lseek(Lseek),
    /// Answered with the number of bytes copied.
    CopyFileRange(CopyFileRange),
    /// Makes the file system durable. Only mounts on a block device send it (`docs/design/fuse.md`).
    Syncfs,
    /// Makes a file without a name, in this folder's file system, and opens it. Answered as `Create`.
    Tmpfile(Create<'a>),
    /// Attributes with the time of birth. After ENOSYS the kernel sends `Getattr` instead.
    Statx(Statx),
    /// An opcode that is not known; the session answers it with ENOSYS.
    Unknown(u32),
}
