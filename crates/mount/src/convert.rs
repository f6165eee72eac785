//! The file system's words, and FUSE's for the same things.

use stripewise_format::rafs::inode::FileType;
use stripewise_fuse::{
    Errno,
    protocol::{self, Timestamp},
    reply::Attributes,
    request::SetTime,
};
use stripewise_rafs::{
    fs::{Attr, FsError},
    shape::BLOCK_BYTES,
};

const NS_PER_S: i64 = 1_000_000_000;
/// Bits of a mode that are not its type.
pub(crate) const PERMISSIONS: u32 = 0o7777;
/// Units of `st_blocks` in a block.
const PARTS_OF_BLOCK: u64 = BLOCK_BYTES as u64 / 512;

/// The error number for an error.
pub(crate) fn errno(error: FsError) -> Errno {
    let number = error.errno();
    if number == Errno::IO.raw_os_error() {
        tracing::error!(%error, "a request fails");
    }
    Errno::from_raw_os_error(number)
}

/// What stat(2) shows.
pub(crate) fn attributes(attr: &Attr) -> Attributes {
    let is = &attr.is;
    Attributes {
        inode: attr.inode,
        size_bytes: is.size_bytes,
        blocks_512: blocks_512(attr),
        accessed: time(is.accessed_ns),
        modified: time(is.modified_ns),
        changed: time(is.changed_ns),
        mode: is.mode,
        links: is.links,
        uid: is.uid,
        gid: is.gid,
        // The kernel gives and takes 32 bits, packed in its own way.
        rdev: is.device as u32,
        block_bytes: BLOCK_BYTES as u32,
        ..Attributes::default()
    }
}

/// When an inode was made.
pub(crate) fn born(attr: &Attr) -> Timestamp {
    time(attr.is.born_ns)
}

/// Space in use. A file that has content has some, even while it is buffered or kept in the tree: programs take a file without
/// blocks for a hole.
fn blocks_512(attr: &Attr) -> u64 {
    let least = match attr.file_type {
        FileType::File => attr.is.size_bytes.div_ceil(512).min(PARTS_OF_BLOCK),
        _ => 0,
    };
    attr.is.blocks.saturating_mul(PARTS_OF_BLOCK).max(least)
}

/// A time from nanoseconds since 1970.
fn time(ns: i64) -> Timestamp {
    Timestamp { seconds: ns.div_euclid(NS_PER_S), nanoseconds: ns.rem_euclid(NS_PER_S) as u32 }
}

/// A time to set, in nanoseconds since 1970; what lies further away than 292 years is as far as that goes.
pub(crate) fn set_time(set: SetTime, now_ns: i64) -> i64 {
    match set {
        SetTime::Now => now_ns,
        SetTime::To(time) => {
            let ns = i128::from(time.seconds) * i128::from(NS_PER_S) + i128::from(time.nanoseconds);
            ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        }
    }
}

/// The type in a mode; one without a type is a file, as for mknod(2).
pub(crate) fn type_of_mode(mode: u32) -> Result<FileType, Errno> {
    let number = (mode >> 12 & 0xf) as u8;
    if number == 0 { Ok(FileType::File) } else { FileType::of(number).ok_or(Errno::INVAL) }
}

/// The type of an entry.
pub(crate) fn entry_type(file_type: FileType) -> protocol::FileType {
    protocol::FileType::of_mode((file_type as u32) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_survive() {
        for ns in [0, -1, 1, -NS_PER_S, 5 * NS_PER_S + 7, i64::MIN, i64::MAX] {
            assert_eq!(set_time(SetTime::To(time(ns)), 0), ns, "{ns}");
        }
        let far = Timestamp { seconds: i64::MAX, nanoseconds: 0 };
        assert_eq!(set_time(SetTime::To(far), 0), i64::MAX);
        assert_eq!(set_time(SetTime::Now, 9), 9);
    }

    #[test]
    fn types_are_those_of_stat() {
        for file_type in FileType::ALL {
            assert_eq!(type_of_mode((file_type as u32) << 12 | 0o644), Ok(file_type));
            assert_eq!(entry_type(file_type) as u32, file_type as u32);
        }
        assert_eq!(type_of_mode(0o644), Ok(FileType::File));
        assert_eq!(type_of_mode(0o030_000), Err(Errno::INVAL));
    }
}
