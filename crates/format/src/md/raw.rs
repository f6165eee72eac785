//! The bytes of `struct mdp_superblock_1`, and its additive checksum (`calc_sb_1_csum`), without their
//! meaning.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::media::BLOCK_LEN;

/// `MD_SB_MAGIC`: how every md superblock begins.
pub const SUPERBLOCK_MAGIC: u32 = 0xa92b_4efc;

/// Roles that fit into the superblock's block: (4096 - 256) / 2. The kernel refuses a larger `max_dev`.
pub const MAX_DEVICES: u32 = ((BLOCK_LEN - FIXED_BYTES) / 2) as u32;

/// The superblock without its roles.
pub(crate) const FIXED_BYTES: usize = size_of::<RawSuperblock>();

/// `struct mdp_superblock_1` up to `dev_roles`. Names are the kernel's; a union's second name stands in the
/// comment.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawSuperblock {
    pub(crate) magic: U32,
    pub(crate) major_version: U32,
    pub(crate) feature_map: U32,
    pub(crate) pad0: U32,
    pub(crate) set_uuid: [u8; 16],
    pub(crate) set_name: [u8; 32],
    pub(crate) ctime: U64,
    pub(crate) level: U32,
    pub(crate) layout: U32,
    pub(crate) size: U64,
    pub(crate) chunksize: U32,
    pub(crate) raid_disks: U32,
    /// Or `ppl { offset: u16, size: u16 }`.
    pub(crate) bitmap_offset: U32,
    pub(crate) new_level: U32,
    pub(crate) reshape_position: U64,
    pub(crate) delta_disks: U32,
    pub(crate) new_layout: U32,
    pub(crate) new_chunk: U32,
    pub(crate) new_offset: U32,
    pub(crate) data_offset: U64,
    pub(crate) data_size: U64,
    pub(crate) super_offset: U64,
    /// Or `journal_tail`.
    pub(crate) recovery_offset: U64,
    pub(crate) dev_number: U32,
    pub(crate) cnt_corrected_read: U32,
    pub(crate) device_uuid: [u8; 16],
    pub(crate) devflags: u8,
    pub(crate) bblog_shift: u8,
    pub(crate) bblog_size: U16,
    pub(crate) bblog_offset: U32,
    pub(crate) utime: U64,
    pub(crate) events: U64,
    pub(crate) resync_offset: U64,
    pub(crate) sb_csum: U32,
    pub(crate) max_dev: U32,
    /// Part of `pad3` before Linux 6.18.
    pub(crate) logical_block_size: U32,
    pub(crate) pad3: [u8; 28],
}

// The four groups of the kernel's header: array, device, state; then roles.
const _: () = assert!(core::mem::offset_of!(RawSuperblock, data_offset) == 128);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, utime) == 192);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, sb_csum) == 216);
const _: () = assert!(size_of::<RawSuperblock>() == 256);
const _: () = assert!(MAX_DEVICES == 1920);

/// `calc_sb_1_csum`: the sum of the little-endian 32-bit words of `covered` (the fixed part and the roles),
/// without the checksum's own word, with its carries folded in once.
pub(crate) fn checksum(covered: &[u8]) -> u32 {
    let own = core::mem::offset_of!(RawSuperblock, sb_csum) / 4;
    let sum: u64 = covered
        .chunks(4)
        .enumerate()
        .filter(|(index, _)| *index != own)
        .map(|(_, word)| u64::from(le(word)))
        .sum();
    // At most 1024 words: the high half is below 1024, and the kernel lets the last carry fall off as well.
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// A little-endian word of up to four bytes: the last one has two when the number of roles is odd.
fn le(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}
