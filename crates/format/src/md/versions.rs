//! Where md's other metadata versions keep their superblock. Arrays of these versions are not run here; they
//! are only recognised, so that a message can name the version of such a member.

use super::raw::SUPERBLOCK_MAGIC;
use crate::media::{BLOCK_BYTES, SECTOR_BYTES};

/// Bytes that 0.90 reserves at the end of a member (`MD_RESERVED_BYTES`).
const V0_90_RESERVED_BYTES: u64 = 64 << 10;
/// Bytes that 1.0 reserves at the end of a member.
const V1_0_RESERVED_BYTES: u64 = 16 * SECTOR_BYTES;

/// A metadata version other than 1.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherVersion {
    /// 0.90: in the last whole 64 KiB.
    V0_90,
    /// 1.0: 8 to 12 KiB before the end.
    V1_0,
    /// 1.1: at the start.
    V1_1,
}

impl OtherVersion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V0_90, Self::V1_0, Self::V1_1];

    /// The version's number, as mdadm's `--metadata` takes it.
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Self::V0_90 => "0.90",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
        }
    }

    /// Where a member of this size, in bytes, has its superblock. None if it is too small to have one.
    #[must_use]
    pub const fn superblock_offset_bytes(self, member_bytes: u64) -> Option<u64> {
        match self {
            Self::V0_90 => {
                (member_bytes - member_bytes % V0_90_RESERVED_BYTES).checked_sub(V0_90_RESERVED_BYTES)
            }
            Self::V1_0 => match member_bytes.checked_sub(V1_0_RESERVED_BYTES) {
                Some(at) => Some(at - at % BLOCK_BYTES),
                None => None,
            },
            Self::V1_1 => Some(0),
        }
    }

    /// Whether a superblock of this version begins with these bytes. 0.90 has the byte order of the machine
    /// that made it.
    #[must_use]
    pub fn begins(self, bytes: &[u8]) -> bool {
        let word = |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        let (Some(magic), Some(major)) = (word(0), word(4)) else { return false };
        let is =
            |read: fn([u8; 4]) -> u32, wanted: u32| read(magic) == SUPERBLOCK_MAGIC && read(major) == wanted;
        match self {
            Self::V0_90 => is(u32::from_le_bytes, 0) || is(u32::from_be_bytes, 0),
            Self::V1_0 | Self::V1_1 => is(u32::from_le_bytes, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_lies_where_the_kernel_looks_for_it() {
        let at = |version: OtherVersion, bytes| version.superblock_offset_bytes(bytes);
        let size = (1 << 30) + 5 * 512;
        assert_eq!(at(OtherVersion::V0_90, size), Some((1 << 30) - (64 << 10)));
        assert_eq!(at(OtherVersion::V1_0, size), Some((1 << 30) - (8 << 10)));
        assert_eq!(at(OtherVersion::V1_1, size), Some(0));
        assert_eq!([OtherVersion::V0_90, OtherVersion::V1_0].map(|v| at(v, 4096)), [None; 2]);
    }

    #[test]
    fn a_version_is_told_by_magic_and_major_number() {
        let bytes = |magic: [u8; 4], major: [u8; 4]| [magic, major].concat();
        let (le, be) = (SUPERBLOCK_MAGIC.to_le_bytes(), SUPERBLOCK_MAGIC.to_be_bytes());
        let found = |bytes: &[u8]| OtherVersion::ALL.map(|version| version.begins(bytes));
        assert_eq!(found(&bytes(le, [1, 0, 0, 0])), [false, true, true]);
        assert_eq!(found(&bytes(le, [0; 4])), [true, false, false]);
        assert_eq!(found(&bytes(be, [0; 4])), [true, false, false]);
        assert_eq!(found(&[0xfc, 0x4e]), [false; 3]);
    }
}
