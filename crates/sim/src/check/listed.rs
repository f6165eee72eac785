//! A second implementation of md's bad-block log on a member (`md_p.h`): which sectors do not hold what they
//! should.

use std::{collections::BTreeSet, ops::Range};

use super::{
    SECTOR_BYTES,
    layout::ROW_BYTES,
    superblock::{SUPERBLOCK_BYTES, u16_at, u32_at},
};

/// The superblock says that the log must be read.
const FEATURE_BAD_BLOCKS: u32 = 8;
/// Bits of an entry that hold its number of sectors.
const LENGTH_BITS: u32 = 10;
/// Behind the last entry.
const END: u64 = u64::MAX;

/// Where a member's log lies, in bytes of the member.
fn place(superblock: &[u8]) -> Option<Range<usize>> {
    let (sectors, offset) = (usize::from(u16_at(superblock, 186)), u32_at(superblock, 188) as i32);
    let start = SUPERBLOCK_BYTES.start as i64 + i64::from(offset) * SECTOR_BYTES as i64;
    let start = usize::try_from(start).ok().filter(|_| offset != 0 && sectors != 0)?;
    Some(start..start + sectors * SECTOR_BYTES)
}

fn superblock(member: &[u8]) -> Option<&[u8]> {
    member.get(SUPERBLOCK_BYTES.start as usize..SUPERBLOCK_BYTES.end as usize)
}

/// Whether a member has a log.
pub fn has_log(member: &[u8]) -> bool {
    superblock(member).and_then(place).is_some()
}

/// Where a member's log lies if it lists something.
pub fn log_in_use(member: &[u8]) -> Option<Range<u64>> {
    let place = place(superblock(member)?).filter(|_| !listed_bytes(member).is_empty())?;
    Some(place.start as u64..place.end as u64)
}

/// The bytes of a member that its log lists.
pub fn listed_bytes(member: &[u8]) -> Vec<Range<usize>> {
    let Some(superblock) = superblock(member).filter(|block| u32_at(block, 8) & FEATURE_BAD_BLOCKS != 0)
    else {
        return Vec::new();
    };
    let shift = superblock[185];
    let entries = place(superblock).and_then(|place| member.get(place)).unwrap_or_default();
    let entries = entries.as_chunks().0.iter().map(|entry| u64::from_le_bytes(*entry));
    let bytes = |entry: u64| {
        let start = (entry >> LENGTH_BITS << shift) as usize * SECTOR_BYTES;
        start..start + ((entry & ((1 << LENGTH_BITS) - 1)) << shift) as usize * SECTOR_BYTES
    };
    entries.take_while(|entry| *entry != END).map(bytes).collect()
}

/// The rows of a member's data, which begins at `data_offset`, that its log lists in part.
pub fn listed_rows(member: &[u8], data_offset: usize) -> BTreeSet<usize> {
    let row = |byte: usize| byte.saturating_sub(data_offset) / ROW_BYTES;
    let rows = |bytes: Range<usize>| row(bytes.start)..=row(bytes.end - 1);
    listed_bytes(member).into_iter().filter(|bytes| !bytes.is_empty()).flat_map(rows).collect()
}

/// A member's log as another program writes it to add these sectors: its place and its bytes. None: the
/// member has no log, or it lists something already.
pub fn log_listing(member: &[u8], sectors: &[Range<u64>]) -> Option<(u64, Vec<u8>)> {
    let superblock = superblock(member)?;
    let place = place(superblock).filter(|_| superblock[185] == 0 && listed_bytes(member).is_empty())?;
    let entry = |sectors: &Range<u64>| sectors.start << LENGTH_BITS | (sectors.end - sectors.start);
    let entries = sectors.iter().map(entry).chain(std::iter::repeat(END));
    let words = entries.take(place.len() / 8).flat_map(u64::to_le_bytes);
    Some((place.start as u64, words.collect()))
}
