//! The bytes of the extension header, without their meaning.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::media::BLOCK_LEN;

/// How every extension header begins.
pub const HEADER_MAGIC: [u8; 8] = *b"STRPWISE";

/// The header version this code writes, and the newest it reads.
pub const HEADER_VERSION: u16 = 1;

/// Entries of the service-time table.
pub const SERVICE_TIMES: usize = 8;

/// Entries of a stride curve: strides of 1 to 64 blocks.
pub const STRIDES: usize = 64;

/// Excepted regions that there is room for.
pub const STRIDE_REGIONS: usize = 4;

/// The rest of the block, carried unchanged for later versions.
pub(crate) const TAIL_LEN: usize = 3528;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U16,
    pub(crate) reserved_10: [u8; 2],
    pub(crate) header_bytes: U32,
    pub(crate) crc: U32,
    pub(crate) compat: U32,
    pub(crate) ro_compat: U32,
    pub(crate) incompat: U32,
    pub(crate) array_uuid: [u8; 16],
    pub(crate) device_uuid: [u8; 16],
    pub(crate) generation: U64,
    pub(crate) superblock_crc_current: U32,
    pub(crate) superblock_crc_previous: U32,
    pub(crate) bitmap_offset_bytes: U64,
    pub(crate) bitmap_region_bytes: U64,
    pub(crate) bitmap_region_count: U64,
    pub(crate) bitmap_page_count: U32,
    pub(crate) bitmap_slots_per_page: U16,
    pub(crate) bitmap_map_kind: u8,
    pub(crate) reserved_111: u8,
    pub(crate) log_offset_bytes: U64,
    pub(crate) log_length_bytes: U64,
    pub(crate) member_class: u8,
    pub(crate) member_class_given: u8,
    pub(crate) zeroing: u8,
    pub(crate) reserved_131: [u8; 5],
    pub(crate) service_time_ns: [U32; SERVICE_TIMES],
    pub(crate) s_max_read: U32,
    pub(crate) s_max_write: U32,
    pub(crate) job_kind: u8,
    pub(crate) job_paused: u8,
    pub(crate) reserved_178: [u8; 6],
    pub(crate) job_position_bytes: U64,
    pub(crate) job_mismatches: U64,
    pub(crate) selection_policy: u8,
    pub(crate) cache_policy: u8,
    pub(crate) locking_policy: u8,
    pub(crate) consistency_policy: u8,
    pub(crate) reserved_204: [u8; 4],
    pub(crate) speed_min_kib_per_s: U32,
    pub(crate) speed_max_kib_per_s: U32,
    pub(crate) rated_write_bytes: U64,
    pub(crate) written_bytes: U64,
    pub(crate) written_since_s: U64,
    pub(crate) warranty_end_s: U64,
    pub(crate) warranty_margin_days: U32,
    pub(crate) reserved_252: [u8; 4],
    pub(crate) cache_size_bytes: U64,
    pub(crate) cache_age_ms: U32,
    pub(crate) cache_idle_ms: U32,
    pub(crate) cache_flush_ms: U32,
    pub(crate) cache_when: u8,
    pub(crate) cache_what: u8,
    pub(crate) cache_high_percent: u8,
    pub(crate) cache_low_percent: u8,
    pub(crate) cache_read: u8,
    pub(crate) cache_alloc: u8,
    pub(crate) cache_past: u8,
    pub(crate) cache_gaps: u8,
    pub(crate) cache_open: u8,
    pub(crate) reserved_285: [u8; 3],
    pub(crate) stride_time_read: [U16; STRIDES],
    pub(crate) stride_time_write: [U16; STRIDES],
    pub(crate) stride_except_read: [[u8; 2]; STRIDE_REGIONS],
    pub(crate) stride_except_write: [[u8; 2]; STRIDE_REGIONS],
    pub(crate) s_max_given: u8,
    pub(crate) reserved_561: [u8; 7],
    pub(crate) tail: [u8; TAIL_LEN],
}

pub(crate) const CRC_AT: usize = core::mem::offset_of!(RawHeader, crc);

const _: () = assert!(size_of::<RawHeader>() == BLOCK_LEN);
const _: () = assert!(core::mem::offset_of!(RawHeader, array_uuid) == 32);
const _: () = assert!(core::mem::offset_of!(RawHeader, bitmap_offset_bytes) == 80);
const _: () = assert!(core::mem::offset_of!(RawHeader, reserved_111) == 111);
const _: () = assert!(core::mem::offset_of!(RawHeader, reserved_131) == 131);
const _: () = assert!(core::mem::offset_of!(RawHeader, reserved_178) == 178);
const _: () = assert!(core::mem::offset_of!(RawHeader, reserved_204) == 204);
const _: () = assert!(core::mem::offset_of!(RawHeader, tail) == 568);

/// A header of zeroes: what a version that knows fewer fields writes in the reserved places.
pub(crate) fn zeroed() -> RawHeader {
    RawHeader::new_zeroed()
}
