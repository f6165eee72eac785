//! Flags of requests and replies. Bits that are not named here are kept as they came.

use bitflags::bitflags;

bitflags! {
    /// What kernel and server agree on at INIT (`FUSE_*`). The upper half travels in a field of its own.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub struct InitFlags: u64 {
        /// Reads may be under way at the same time.
        const ASYNC_READ = 1 << 0;
        /// The server keeps POSIX locks.
        const POSIX_LOCKS = 1 << 1;
        /// The server truncates at OPEN with `O_TRUNC`, without a SETATTR.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// The server looks up "." and "..", so that the mount can be exported by NFS.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes may be longer than a page.
        const BIG_WRITES = 1 << 5;
        /// The server applies the umask.
        const DONT_MASK = 1 << 6;
        /// The server keeps `flock` locks.
        const FLOCK_LOCKS = 1 << 10;
        /// The kernel drops cached pages of a file whose attributes have changed.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS is used.
        const DO_READDIRPLUS = 1 << 13;
        /// READDIRPLUS is used where lookups follow, and READDIR else.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Parts of one direct I/O may be under way at the same time.
        const ASYNC_DIO = 1 << 15;
        /// The kernel gathers written data, and writes it later.
        const WRITEBACK_CACHE = 1 << 16;
        /// The kernel takes ENOSYS to OPEN as "no open needed".
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Lookups and readdirs of one folder may be under way at the same time.
        const PARALLEL_DIROPS = 1 << 18;
        /// The server clears set-user-ID, set-group-ID and capabilities.
        const HANDLE_KILLPRIV = 1 << 19;
        /// The server keeps POSIX ACLs.
        const POSIX_ACL = 1 << 20;
        /// A read after an abort gives ECONNABORTED instead of ENODEV.
        const ABORT_ERROR = 1 << 21;
        /// The reply says how many pages a request may have.
        const MAX_PAGES = 1 << 22;
        /// The kernel caches targets of symbolic links.
        const CACHE_SYMLINKS = 1 << 23;
        /// The kernel takes ENOSYS to OPENDIR as "no open needed".
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// The kernel drops cached pages only if told to.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// The server clears set-user-ID, set-group-ID and capabilities, by the rules of the kernel's VFS.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR has a longer struct.
        const SETXATTR_EXT = 1 << 29;
        /// The upper half of the flags counts.
        const INIT_EXT = 1 << 30;
        /// Requests that make an inode carry its security context.
        const SECURITY_CTX = 1 << 32;
        /// Requests that make an inode carry a supplementary group.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// Shared mappings are allowed with direct I/O.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Files may be passed through to other files.
        const PASSTHROUGH = 1 << 37;
        /// The mount cannot be exported.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// The server can have requests sent again.
        const HAS_RESEND = 1 << 39;
        /// Mounts may map user ids.
        const ALLOW_IDMAP = 1 << 40;
        /// Requests may come by io_uring.
        const OVER_IO_URING = 1 << 41;
        /// Requests may have a time limit.
        const REQUEST_TIMEOUT = 1 << 42;
        const _ = !0;
    }
}

impl InitFlags {
    /// From the two halves of the ABI.
    pub(crate) fn from_halves(low: u32, high: u32) -> Self {
        Self::from_bits_retain(u64::from(high) << 32 | u64::from(low))
    }

    /// The lower half, then the upper one.
    pub(crate) fn halves(self) -> (u32, u32) {
        (self.bits() as u32, (self.bits() >> 32) as u32)
    }
}

/// Flags of 32 bits, all of the same kind.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident { $($(#[$flag_doc:ident $($flag_text:tt)*])* $flag:ident = $value:expr;)* })*) => {
        bitflags! {$(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
            pub struct $name: u32 {
                $($(#[$flag_doc $($flag_text)*])* const $flag = $value;)*
                const _ = !0;
            }
        )*}
    };
}

flags! {
    /// How an open file is treated (`FOPEN_*`).
    OpenReplyFlags {
        /// No page cache.
        DIRECT_IO = 1 << 0;
        /// What the page cache has of the file still holds.
        KEEP_CACHE = 1 << 1;
        /// The file has no positions to go to.
        NONSEEKABLE = 1 << 2;
        /// The kernel may cache the folder's entries.
        CACHE_DIR = 1 << 3;
        /// The file is a stream.
        STREAM = 1 << 4;
        /// No FLUSH at close.
        NOFLUSH = 1 << 5;
        /// Direct writes to one file may be under way at the same time.
        PARALLEL_DIRECT_WRITES = 1 << 6;
    }
    /// What an open brings along besides the flags of open(2) (`FUSE_OPEN_*`).
    OpenRequestFlags {
        /// Set-user-ID, and set-group-ID of an executable, are to be cleared.
        KILL_SUIDGID = 1 << 0;
    }
    /// `FUSE_READ_*`.
    ReadFlags {
        /// The lock owner is valid.
        LOCKOWNER = 1 << 1;
    }
    /// `FUSE_WRITE_*`.
    WriteFlags {
        /// Written from the page cache; the handle may be another one of the same file.
        CACHE = 1 << 0;
        /// The lock owner is valid.
        LOCKOWNER = 1 << 1;
        /// Set-user-ID and set-group-ID are to be cleared.
        KILL_SUIDGID = 1 << 2;
    }
    /// `FUSE_FSYNC_*`.
    FsyncFlags {
        /// Only data, and what is needed to read them.
        DATA_ONLY = 1 << 0;
    }
    /// `FUSE_RELEASE_*`.
    ReleaseFlags {
        /// A flush is to be done, too.
        FLUSH = 1 << 0;
        /// The `flock` lock of the lock owner is to be released.
        FLOCK_UNLOCK = 1 << 1;
    }
    /// `FUSE_ATTR_*`.
    AttributeFlags {
        /// The root of a mount below this one.
        SUBMOUNT = 1 << 0;
        /// The file is accessed directly in memory.
        DAX = 1 << 1;
    }
    /// Flags of renameat2(2), `RENAME_*`.
    RenameFlags {
        /// The new name must not exist.
        NOREPLACE = 1 << 0;
        /// Both names exist, and are exchanged.
        EXCHANGE = 1 << 1;
        /// A whiteout takes the place of the old name.
        WHITEOUT = 1 << 2;
    }
    /// Flags of setxattr(2), `XATTR_*`.
    XattrFlags {
        /// The attribute must not exist.
        CREATE = 1 << 0;
        /// The attribute must exist.
        REPLACE = 1 << 1;
    }
    /// Modes of fallocate(2), `FALLOC_FL_*`. Without any, space is reserved and the file grows.
    FallocateMode {
        /// The length stays.
        KEEP_SIZE = 1 << 0;
        /// Frees the range, which then reads as zeroes.
        PUNCH_HOLE = 1 << 1;
        /// Takes the range out; what is behind it moves down.
        COLLAPSE_RANGE = 1 << 3;
        /// The range reads as zeroes, and its space is reserved.
        ZERO_RANGE = 1 << 4;
        /// Makes room; what is behind it moves up.
        INSERT_RANGE = 1 << 5;
        /// Shared blocks become the file's own.
        UNSHARE_RANGE = 1 << 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_survive_their_halves() {
        let flags = InitFlags::from_bits_retain(0xdead_beef_1234_5678);
        let (low, high) = flags.halves();
        assert_eq!(InitFlags::from_halves(low, high), flags);
    }
}
