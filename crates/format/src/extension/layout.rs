//! Where the extension area and its parts lie on a member. The data offset alone determines it, so that the
//! area is found without reading anything else.

use std::ops::Range;

use thiserror::Error;

use super::choose::HeaderCopy;
use super::fields::BitmapDescriptor;
use super::header::Header;
use crate::bitmap::{Slot, pages_for_regions, slot_offset_bytes};
use crate::md::Superblock;
use crate::media::{BLOCK_BYTES, SECTOR_BYTES};

/// Where the area begins. mdadm's own metadata ends before it: its bitmap takes at most 128 KiB, from 8 KiB
/// on, and the bad-block log 4 KiB after that.
pub const AREA_START_BYTES: u64 = 256 << 10;

/// The least data offset with an area before it. mdadm itself never chooses less than 1 MiB.
pub const DATA_OFFSET_MIN_BYTES: u64 = 512 << 10;

/// Why a header's parts cannot lie where it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// A part leaves the area, or is not on block boundaries.
    #[error(
        "the {part} at bytes {start}..{end} is not on blocks between the header copies; the extension header \
         contradicts the superblock's data offset: treat the extension area as absent"
    )]
    Outside {
        /// Which.
        part: &'static str,
        /// Its first byte on the member.
        start: u64,
        /// The byte after its last.
        end: u64,
    },
    /// Bitmap and log share bytes.
    #[error("bitmap and log overlap in the extension area; its header is wrong: treat the area as absent")]
    Overlap,
    /// The number of pages does not fit the number of regions.
    #[error(
        "{region_count} bitmap regions need {need} pages, the extension header has {page_count}; it is wrong"
    )]
    PageCount {
        /// Regions.
        region_count: u64,
        /// Pages the header has.
        page_count: u32,
        /// Pages they need.
        need: u64,
    },
    /// Regions whose size is not whole blocks, or zero.
    #[error("bitmap regions of {region_bytes} bytes are not whole blocks; the extension header is wrong")]
    RegionBytes {
        /// `bitmap_region_bytes`.
        region_bytes: u64,
    },
}

/// The area of one member: bytes `AREA_START_BYTES..data_offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtensionLayout {
    data_offset_bytes: u64,
}

impl ExtensionLayout {
    /// The area of a member whose data begins there; none if there is no room, or the data does not begin on
    /// a block.
    #[must_use]
    pub const fn for_data_offset(data_offset_bytes: u64) -> Option<Self> {
        if data_offset_bytes < DATA_OFFSET_MIN_BYTES || !data_offset_bytes.is_multiple_of(BLOCK_BYTES) {
            return None;
        }
        Some(Self { data_offset_bytes })
    }

    /// The area of the member with this superblock; none also if md keeps metadata of its own there.
    #[must_use]
    pub fn for_superblock(superblock: &Superblock) -> Option<Self> {
        let layout = Self::for_data_offset(superblock.data_offset_sectors.checked_mul(SECTOR_BYTES)?)?;
        let area = layout.area_bytes();
        let free = superblock.metadata_extents(None).all(|extent| {
            let start = extent.start_sector.saturating_mul(SECTOR_BYTES);
            let end = start.saturating_add(extent.length_sectors.saturating_mul(SECTOR_BYTES));
            end <= area.start || start >= area.end
        });
        free.then_some(layout)
    }

    /// All of the area.
    #[must_use]
    pub const fn area_bytes(self) -> Range<u64> {
        AREA_START_BYTES..self.data_offset_bytes
    }

    /// Where a copy of the header lies on the member.
    #[must_use]
    pub const fn header_offset_bytes(self, copy: HeaderCopy) -> u64 {
        match copy {
            HeaderCopy::A => AREA_START_BYTES,
            HeaderCopy::B => self.data_offset_bytes - BLOCK_BYTES,
        }
    }

    /// The bytes between the two copies: room for bitmap and log.
    #[must_use]
    pub const fn free_bytes(self) -> Range<u64> {
        AREA_START_BYTES + BLOCK_BYTES..self.data_offset_bytes - BLOCK_BYTES
    }

    /// Checks that the parts described by the header lie in this area, without overlap.
    pub fn check(self, header: &Header) -> Result<(), LayoutError> {
        let bitmap = self.check_bitmap(&header.bitmap)?;
        let log = self.check_part("log", header.log.offset_bytes, header.log.length_bytes)?;
        if bitmap.start < log.end && log.start < bitmap.end { Err(LayoutError::Overlap) } else { Ok(()) }
    }

    fn check_bitmap(self, bitmap: &BitmapDescriptor) -> Result<Range<u64>, LayoutError> {
        let BitmapDescriptor { offset_bytes, region_bytes, region_count, page_count, .. } = *bitmap;
        let need = pages_for_regions(region_count);
        if need != u64::from(page_count) {
            return Err(LayoutError::PageCount { region_count, page_count, need });
        }
        if page_count > 0 && (region_bytes == 0 || !region_bytes.is_multiple_of(BLOCK_BYTES)) {
            return Err(LayoutError::RegionBytes { region_bytes });
        }
        self.check_part("bitmap", offset_bytes, slot_offset_bytes(page_count, Slot::A))
    }

    /// Where a part lies. A part of no length lies nowhere, whatever its offset says.
    fn check_part(self, part: &'static str, start: u64, len: u64) -> Result<Range<u64>, LayoutError> {
        if len == 0 {
            return Ok(0..0);
        }
        let free = self.free_bytes();
        let on_blocks = start.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK_BYTES);
        match start.checked_add(len) {
            Some(end) if on_blocks && start >= free.start && end <= free.end => Ok(start..end),
            end => Err(LayoutError::Outside { part, start, end: end.unwrap_or(u64::MAX) }),
        }
    }
}
