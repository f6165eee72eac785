//! A member's superblock as another program reads it, and as one rewrites it.

use std::ops::Range;

use super::{
    layout::{Layout, ROW_BYTES},
    md_bitmap,
};

const SECTOR: usize = 512;
const SUPERBLOCK_AT: usize = 4096;
const SUPERBLOCK_MAGIC: u32 = 0xa92b_4efc;
const BLOCK: usize = 4096;
const FEATURE_RECOVERY_OFFSET: u32 = 2;
const FEATURE_REPLACEMENT: u32 = 16;
const ROLE_FAULTY: u16 = 0xfffe;
/// The role of a spare, and of a number that no device ever had.
pub(super) const ROLE_SPARE: u16 = 0xffff;

/// Where a member's superblock lies.
pub const SUPERBLOCK_BYTES: Range<u64> = SUPERBLOCK_AT as u64..(SUPERBLOCK_AT + BLOCK) as u64;

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The fields of an md superblock that the checkers use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// The array's identity.
    pub array: [u8; 16],
    /// The array's shape.
    pub layout: Layout,
    /// Where the data begins.
    pub data_offset: usize,
    /// This member's device number.
    pub number: u32,
    /// The event count.
    pub events: u64,
    /// Whether it says that the members agree.
    pub clean: bool,
    /// The role of each device number.
    pub roles: Vec<u16>,
    /// Where md's own bitmap lies, if there is one.
    pub md_bitmap: Option<usize>,
    /// For a member that is being filled: the bytes that are good, and whether it is to replace a living
    /// member.
    pub filled: Option<(usize, bool)>,
}

impl Superblock {
    /// Reads a member's superblock. None: there is no valid one.
    pub fn read(member: &[u8]) -> Option<Self> {
        let block = member.get(SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK)?;
        if u32_at(block, 0) != SUPERBLOCK_MAGIC || u32_at(block, 4) != 1 {
            return None;
        }
        let max_dev = u32_at(block, 220) as usize;
        if max_dev > (BLOCK - 256) / 2 || u32_at(block, 216) != checksum(block, 256 + 2 * max_dev) {
            return None;
        }
        let features = u32_at(block, 8);
        let layout = Layout {
            level: u32_at(block, 72) as i32,
            members: u32_at(block, 92) as usize,
            chunk_bytes: (u32_at(block, 88) as usize * SECTOR).max(ROW_BYTES),
            member_bytes: 0,
        };
        // Level 0 uses all of its members.
        let size_at = if layout.level == 0 { 136 } else { 80 };
        let member_bytes = u64_at(block, size_at) as usize * SECTOR;
        let grain = if layout.level == 0 { layout.chunk_bytes } else { 1 };
        let layout = Layout { member_bytes: member_bytes / grain * grain, ..layout };
        let filled = (features & FEATURE_RECOVERY_OFFSET != 0)
            .then(|| (u64_at(block, 152) as usize * SECTOR, features & FEATURE_REPLACEMENT != 0));
        Some(Self {
            array: block[16..32].try_into().expect("sixteen bytes"),
            layout,
            data_offset: u64_at(block, 128) as usize * SECTOR,
            number: u32_at(block, 160),
            events: u64_at(block, 200),
            clean: u64_at(block, 208) == u64::MAX,
            roles: (0..max_dev).map(|i| u16_at(block, 256 + 2 * i)).collect(),
            md_bitmap: md_bitmap::offset_of(block),
            filled,
        })
    }

    /// The role that this superblock gives a device number.
    pub fn role_of(&self, number: u32) -> Option<usize> {
        let role = *self.roles.get(number as usize)?;
        (usize::from(role) < self.layout.members).then_some(usize::from(role))
    }

    /// Device numbers up to the last one that a device has or had.
    pub fn numbers_used(&self) -> usize {
        self.roles.iter().rposition(|role| *role != ROLE_SPARE).map_or(0, |last| last + 1)
    }

    /// Whether this superblock calls a device number faulty.
    pub fn calls_faulty(&self, number: u32) -> bool {
        self.roles.get(number as usize) == Some(&ROLE_FAULTY)
    }
}

/// A superblock's block as another program writes it.
pub struct Rewrite(Vec<u8>);

impl Rewrite {
    /// A rewrite of a member's block.
    pub fn of(block: Vec<u8>) -> Self {
        Self(block)
    }

    fn add(mut self, at: usize, value: u64) -> Self {
        let sum = u64_at(&self.0, at).wrapping_add(value);
        self.0[at..at + 8].copy_from_slice(&sum.to_le_bytes());
        self
    }

    /// The data begins at this byte, and ends where it did.
    pub fn data_from(self, start_bytes: u64) -> Self {
        let sectors = (start_bytes / SECTOR as u64).wrapping_sub(u64_at(&self.0, 128));
        self.add(128, sectors).add(136, sectors.wrapping_neg())
    }

    /// The bad-block log must be read.
    pub fn with_bad_blocks(mut self) -> Self {
        self.0[8] |= 8;
        self
    }

    /// The bad-block log has room for so many sectors.
    pub fn log_of(mut self, sectors: u16) -> Self {
        self.0[186..188].copy_from_slice(&sectors.to_le_bytes());
        self
    }

    /// The table of roles has so many entries: new ones are for numbers that no device has.
    pub fn with_numbers(mut self, count: usize) -> Self {
        let entry = |number: usize| 256 + 2 * number;
        let before = u32_at(&self.0, 220) as usize;
        if count > before {
            self.0[entry(before)..entry(count)].fill(0xff);
        }
        self.0[220..224].copy_from_slice(&(count as u32).to_le_bytes());
        self
    }

    /// The array was made so many seconds later.
    pub fn made_later(self, seconds: u64) -> Self {
        self.add(64, seconds)
    }

    /// The array's chunks are twice as long.
    pub fn with_longer_chunks(mut self) -> Self {
        let sectors = 2 * u32_at(&self.0, 88);
        self.0[88..92].copy_from_slice(&sectors.to_le_bytes());
        self
    }

    /// There is a bitmap of md's own, where mdadm places it.
    pub fn with_md_bitmap(mut self) -> Self {
        self.0[8] |= md_bitmap::FEATURE as u8;
        self.0[96..100].copy_from_slice(&md_bitmap::SECTORS_FROM_SUPERBLOCK.to_le_bytes());
        self
    }

    /// It is another member: its identity differs in one bit.
    pub fn of_another_member(mut self) -> Self {
        self.0[168] ^= 1;
        self
    }

    /// So many events have passed, and the array was stopped, or not.
    pub fn advance(self, events: u64, is_clean: bool) -> Self {
        let mut later = self.add(200, events);
        later.0[208..216].fill(if is_clean { 0xff } else { 0 });
        later
    }

    /// The block, with its checksum.
    pub fn done(mut self) -> Vec<u8> {
        let max_dev = u32_at(&self.0, 220) as usize;
        let sum = checksum(&self.0, 256 + 2 * max_dev);
        self.0[216..220].copy_from_slice(&sum.to_le_bytes());
        self.0
    }
}

/// md's sum: 32-bit words without the sum itself, folded once.
fn checksum(block: &[u8], len: usize) -> u32 {
    let words = (0..len / 4).filter(|i| *i != 54).map(|i| u64::from(u32_at(block, 4 * i)));
    let tail = if len % 4 == 2 { u64::from(u16_at(block, len - 2)) } else { 0 };
    let sum = words.sum::<u64>() + tail;
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
