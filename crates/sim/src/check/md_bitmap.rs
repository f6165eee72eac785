//! A second implementation of md's own bitmap on a member (`md-bitmap.h`). The kernel believes it if it has
//! as many events as the superblock, and then resyncs what it marks and nothing else.

use super::{
    Checker, SECTOR_BYTES, Violation,
    superblock::{SUPERBLOCK_BYTES, u32_at, u64_at},
};

/// The superblock says that there is a bitmap.
pub(super) const FEATURE: u32 = 1;
/// Where mdadm places it.
pub(super) const SECTORS_FROM_SUPERBLOCK: u32 = 8;
/// "bitm".
const MAGIC: u32 = 0x6d74_6962;
/// The version that mdadm writes.
const VERSION: u32 = 4;
/// Bytes of a member per bit in bitmaps that stories make.
const CHUNK_BYTES: u32 = 64 << 10;
/// Bytes before the first bit.
const HEADER_LEN: usize = 256;
/// The most bytes that the bitmap of a story's array takes.
const LEN: usize = 4096;

/// The state of md's bitmap on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MdBitmap {
    /// The superblock's events when it was last written.
    pub(super) events: u64,
    /// A member with events from here on comes back by copying what the bits mark.
    events_cleared: u64,
    /// Whether a bit is set.
    marks: bool,
}

/// Where a member's bitmap lies, if its superblock says that it has one.
pub(super) fn offset_of(superblock: &[u8]) -> Option<usize> {
    let sectors = u32_at(superblock, 96) as usize;
    (u32_at(superblock, 8) & FEATURE != 0).then_some(SUPERBLOCK_BYTES.start as usize + sectors * SECTOR_BYTES)
}

impl MdBitmap {
    /// Reads the bitmap at `offset` of a member. None if there is none.
    pub(super) fn read(member: &[u8], offset: usize) -> Option<Self> {
        let block = member.get(offset..offset + LEN).filter(|block| u32_at(block, 0) == MAGIC)?;
        let bits = (u64_at(block, 40) as usize * SECTOR_BYTES).div_ceil(u32_at(block, 52) as usize);
        let marks = (0..bits).any(|bit| block[HEADER_LEN + bit / 8] >> (bit % 8) & 1 == 1);
        Some(Self { events: u64_at(block, 24), events_cleared: u64_at(block, 32), marks })
    }

    /// Checks a bitmap that the kernel believes: its member is clean, it is as of these events, and it marks
    /// nothing.
    pub(super) fn check(&self, member: usize, events: u64, is_clean: bool) -> Result<(), Violation> {
        let settled = Self { events, events_cleared: events, marks: false };
        if is_clean && *self == settled {
            return Ok(());
        }
        let state = if is_clean { "clean" } else { "dirty" };
        let what = format!("m{member} is {state} at event {events}, and md's bitmap on it says {self:?}");
        Err(Checker::Kernel.violation(what))
    }
}

/// md's bitmap as md leaves it after so many events, on a member with so much data: it marks nothing, or
/// everything.
pub fn md_bitmap(array: &[u8; 16], events: u64, data_bytes: u64, marks: bool) -> Vec<u8> {
    // Bits past the last chunk are set, as mdadm leaves them.
    let mut block = vec![0xff; LEN];
    block[..HEADER_LEN].fill(0);
    block[..4].copy_from_slice(&MAGIC.to_le_bytes());
    block[4..8].copy_from_slice(&VERSION.to_le_bytes());
    block[8..24].copy_from_slice(array);
    block[24..32].copy_from_slice(&events.to_le_bytes());
    block[32..40].copy_from_slice(&events.to_le_bytes());
    block[40..48].copy_from_slice(&(data_bytes / SECTOR_BYTES as u64).to_le_bytes());
    block[52..56].copy_from_slice(&CHUNK_BYTES.to_le_bytes());
    block[56..60].copy_from_slice(&5u32.to_le_bytes());
    if !marks {
        let bits = data_bytes.div_ceil(u64::from(CHUNK_BYTES)) as usize;
        block[HEADER_LEN..HEADER_LEN + bits / 8].fill(0);
        block[HEADER_LEN + bits / 8] = 0xff << (bits % 8);
    }
    block
}
