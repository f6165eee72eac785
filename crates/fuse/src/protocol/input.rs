//! What the kernel sends: the structs `fuse_*_in`, by their names in `fuse.h`.

use super::abi;

abi! {
    /// Begins every request.
    InHeader: 40 {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16,
    }
    /// INIT up to minor 35.
    InitIn: 16 { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    /// What minor 36 has added to INIT.
    InitInExtension: 48 { flags2: u32, unused: [u32; 11] }
    ForgetIn: 8 { nlookup: u64 }
    BatchForgetIn: 8 { count: u32, dummy: u32 }
    ForgetOne: 16 { nodeid: u64, nlookup: u64 }
    GetattrIn: 16 { getattr_flags: u32, dummy: u32, fh: u64 }
    SetattrIn: 88 {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    MknodIn: 16 { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn: 8 { mode: u32, umask: u32 }
    RenameIn: 8 { newdir: u64 }
    Rename2In: 16 { newdir: u64, flags: u32, padding: u32 }
    LinkIn: 8 { oldnodeid: u64 }
    OpenIn: 8 { flags: u32, open_flags: u32 }
    /// CREATE and TMPFILE.
    CreateIn: 16 { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    /// READ, READDIR and READDIRPLUS.
    ReadIn: 40 {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    WriteIn: 40 {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    /// RELEASE and RELEASEDIR.
    ReleaseIn: 24 { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn: 24 { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    /// FSYNC and FSYNCDIR.
    FsyncIn: 16 { fh: u64, fsync_flags: u32, padding: u32 }
    /// Without `FUSE_SETXATTR_EXT`, which is not negotiated.
    SetxattrIn: 8 { size: u32, flags: u32 }
    /// GETXATTR and LISTXATTR.
    GetxattrIn: 8 { size: u32, padding: u32 }
    AccessIn: 8 { mask: u32, padding: u32 }
    InterruptIn: 8 { unique: u64 }
    FallocateIn: 32 { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn: 24 { fh: u64, offset: u64, whence: u32, padding: u32 }
    CopyFileRangeIn: 56 {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
    SyncfsIn: 8 { padding: u64 }
    StatxIn: 24 { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
}

/// `fuse_getattr_in.getattr_flags`: the handle is valid.
pub(crate) const GETATTR_FH: u32 = 1 << 0;

/// `fuse_setattr_in.valid`: which fields count.
pub(crate) mod setattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const LOCKOWNER: u32 = 1 << 9;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}
