//! The header of md's internal bitmap (`bitmap_super_t`, `drivers/md/md-bitmap.h`), which has no checksum.
//!
//! Stripewise keeps its own write-intent bitmap and does not use this one. But the kernel reads it when it
//! assembles the array: with `events` behind the superblock's it takes the bitmap for stale and resyncs
//! everything. So a clean stop writes it back with equal events and no bit set
//! ([`BitmapSuperblock::settle`]).

use thiserror::Error;
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::media::SECTOR_BYTES;

/// `BITMAP_MAGIC`, "bitm".
pub const BITMAP_MAGIC: u32 = 0x6d74_6962;

/// `BITMAP_MAJOR_LO` to `BITMAP_MAJOR_HI`: the layouts with this header. 4 is what mdadm makes; 5 is a
/// cluster's.
pub const BITMAP_VERSIONS: std::ops::RangeInclusive<u32> = 3..=5;

/// The header's length; the bits follow it directly.
pub const BITMAP_SUPERBLOCK_LEN: usize = size_of::<RawBitmapSuperblock>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawBitmapSuperblock {
    pub(crate) magic: U32,
    pub(crate) version: U32,
    pub(crate) uuid: [u8; 16],
    pub(crate) events: U64,
    pub(crate) events_cleared: U64,
    pub(crate) sync_size: U64,
    pub(crate) state: U32,
    pub(crate) chunksize: U32,
    pub(crate) daemon_sleep: U32,
    pub(crate) write_behind: U32,
    pub(crate) sectors_reserved: U32,
    pub(crate) nodes: U32,
    pub(crate) cluster_name: [u8; 64],
    pub(crate) pad: [u8; 120],
}

const _: () = assert!(size_of::<RawBitmapSuperblock>() == 256);
const _: () = assert!(core::mem::offset_of!(RawBitmapSuperblock, cluster_name) == 72);

/// Why these bytes are not a bitmap header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BitmapSuperblockError {
    /// Fewer than 256 bytes.
    #[error("a bitmap header has 256 bytes and only {have} were read; read a whole block")]
    TooShort {
        /// Bytes given.
        have: usize,
    },
    /// Something else lies here.
    #[error(
        "no md bitmap here: found magic {found:#010x}; md will make a new one, or mdadm --grow --bitmap=none"
    )]
    NoMagic {
        /// The bytes in the magic's place.
        found: u32,
    },
    /// A layout with another header.
    #[error("md bitmap version {found} is not known (3 to 5 are); remove it with mdadm --grow --bitmap=none")]
    Version {
        /// The version found.
        found: u32,
    },
    /// A chunk that is not a power of two, or smaller than a sector.
    #[error(
        "md bitmap chunk of {found} bytes is not possible: the bitmap is damaged; mdadm --grow --bitmap=none"
    )]
    Chunk {
        /// `chunksize`.
        found: u32,
    },
}

/// The header of md's internal bitmap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitmapSuperblock {
    /// `version`.
    pub version: u32,
    /// `uuid`: the array's.
    pub array_uuid: Uuid,
    /// `events`: the superblock's, when the bitmap was last written.
    pub events: u64,
    /// `events_cleared`: the superblock's, when a bit was last cleared.
    pub events_cleared: u64,
    /// `sync_size`: the part of each member that the bits cover.
    pub sync_size_sectors: u64,
    /// `state`: bit 1 stale, bit 2 write error.
    pub state: u32,
    /// `chunksize`: bytes of a member per bit; a power of two from 512.
    pub chunk_bytes: u32,
    /// `daemon_sleep`.
    pub daemon_sleep_s: u32,
    /// `write_behind`.
    pub write_behind: u32,
    /// `sectors_reserved`: room set aside; 0 from mdadm.
    pub reserved_sectors: u32,
    /// `nodes`, of a cluster.
    pub nodes: u32,
    /// `cluster_name`.
    pub cluster_name: [u8; 64],
    /// `pad`.
    pub padding: [u8; 120],
}

impl BitmapSuperblock {
    /// Parses the header at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, BitmapSuperblockError> {
        use BitmapSuperblockError as Error;
        let (raw, _) =
            RawBitmapSuperblock::ref_from_prefix(bytes).map_err(|_| Error::TooShort { have: bytes.len() })?;
        if raw.magic.get() != BITMAP_MAGIC {
            return Err(Error::NoMagic { found: raw.magic.get() });
        }
        if !BITMAP_VERSIONS.contains(&raw.version.get()) {
            return Err(Error::Version { found: raw.version.get() });
        }
        let chunk_bytes = raw.chunksize.get();
        if !chunk_bytes.is_power_of_two() || u64::from(chunk_bytes) < SECTOR_BYTES {
            return Err(Error::Chunk { found: chunk_bytes });
        }
        Ok(Self::from_raw(raw))
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BITMAP_SUPERBLOCK_LEN] {
        zerocopy::transmute!(RawBitmapSuperblock {
            magic: BITMAP_MAGIC.into(),
            version: self.version.into(),
            uuid: self.array_uuid.into_bytes(),
            events: self.events.into(),
            events_cleared: self.events_cleared.into(),
            sync_size: self.sync_size_sectors.into(),
            state: self.state.into(),
            chunksize: self.chunk_bytes.into(),
            daemon_sleep: self.daemon_sleep_s.into(),
            write_behind: self.write_behind.into(),
            sectors_reserved: self.reserved_sectors.into(),
            nodes: self.nodes.into(),
            cluster_name: self.cluster_name,
            pad: self.padding,
        })
    }

    /// How many bits: one for each chunk begun.
    #[must_use]
    pub const fn bit_count(&self) -> u64 {
        let chunk_sectors = self.chunk_bytes as u64 / SECTOR_BYTES;
        // The chunk is never 0 when decoded; one bit per sector is the finest possible.
        self.sync_size_sectors.div_ceil(if chunk_sectors == 0 { 1 } else { chunk_sectors })
    }

    /// Bytes that hold the bits.
    #[must_use]
    pub const fn bit_bytes(&self) -> u64 {
        self.bit_count().div_ceil(8)
    }

    /// Header and bits.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        BITMAP_SUPERBLOCK_LEN as u64 + self.bit_bytes()
    }

    /// Whether no bit is set in `bits`, the [`Self::bit_bytes`] bytes after the header. Bits past the last
    /// chunk mean nothing: mdadm makes a bitmap of ones and the kernel clears those it uses.
    #[must_use]
    pub fn is_clean(&self, bits: &[u8]) -> bool {
        let whole = usize::try_from(self.bit_count() / 8).unwrap_or(usize::MAX);
        let last_mask = (1_u8 << (self.bit_count() % 8)) - 1;
        let whole_bytes_clean = bits.iter().take(whole).all(|byte| *byte == 0);
        whole_bytes_clean && bits.get(whole).is_none_or(|byte| byte & last_mask == 0)
    }

    /// The header to write at a clean stop, together with [`Self::bit_bytes`] of zeros: nothing is dirty as
    /// of the superblock with `events`.
    ///
    /// `events_cleared` follows. With an old value, the kernel would take back a member that has missed our
    /// writes (its events at or past `events_cleared`) and copy only the marked chunks to it; with all bits
    /// clear, it would copy nothing.
    #[must_use]
    pub const fn settle(mut self, events: u64) -> Self {
        self.events = events;
        self.events_cleared = events;
        self
    }

    fn from_raw(raw: &RawBitmapSuperblock) -> Self {
        Self {
            version: raw.version.get(),
            array_uuid: Uuid::from_bytes(raw.uuid),
            events: raw.events.get(),
            events_cleared: raw.events_cleared.get(),
            sync_size_sectors: raw.sync_size.get(),
            state: raw.state.get(),
            chunk_bytes: raw.chunksize.get(),
            daemon_sleep_s: raw.daemon_sleep.get(),
            write_behind: raw.write_behind.get(),
            reserved_sectors: raw.sectors_reserved.get(),
            nodes: raw.nodes.get(),
            cluster_name: raw.cluster_name,
            padding: raw.pad,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_size(sync_size_sectors: u64, chunk_bytes: u32) -> BitmapSuperblock {
        let mut bytes = [0; BITMAP_SUPERBLOCK_LEN];
        bytes[..4].copy_from_slice(&BITMAP_MAGIC.to_le_bytes());
        bytes[4] = 4;
        bytes[52..56].copy_from_slice(&chunk_bytes.to_le_bytes());
        let header = BitmapSuperblock::decode(&bytes).unwrap();
        BitmapSuperblock { sync_size_sectors, ..header }
    }

    #[test]
    fn one_bit_for_each_chunk_begun() {
        assert_eq!(with_size(0, 1 << 26).total_bytes(), 256);
        assert_eq!(with_size(131_073, 1 << 26).bit_count(), 2);
        assert_eq!(with_size(9 * 131_072, 1 << 26).bit_bytes(), 2);
        assert_eq!(with_size(u64::MAX, 512).bit_count(), u64::MAX);
    }

    #[test]
    fn bits_past_the_last_chunk_say_nothing() {
        let nine = with_size(9 * 131_072, 1 << 26);
        assert!(nine.is_clean(&[0, 0xfe]));
        assert!(!nine.is_clean(&[0, 1]));
        assert!(!nine.is_clean(&[0x80, 0]));
        assert!(with_size(8 * 131_072, 1 << 26).is_clean(&[0]));
    }

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_itself(
            mut bytes in prop::array::uniform32(any::<[u8; 8]>()), version in 3_u32..6, shift in 9_u32..32,
        ) {
            let bytes: &mut [u8] = bytes.as_flattened_mut();
            prop_assert!(BitmapSuperblock::decode(bytes).is_err());
            bytes[..4].copy_from_slice(&BITMAP_MAGIC.to_le_bytes());
            bytes[4..8].copy_from_slice(&version.to_le_bytes());
            bytes[52..56].copy_from_slice(&(1_u32 << shift).to_le_bytes());
            let header = BitmapSuperblock::decode(bytes).unwrap();
            let encoded = header.encode();
            prop_assert_eq!(encoded.as_slice(), &*bytes);
            let _ = header.total_bytes();
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = BitmapSuperblock::decode(&bytes);
        }
    }
}
