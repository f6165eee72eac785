//! Pages of the write-intent bitmap in the extension area: which regions may disagree.
//!
//! A page is one block with its own CRC, and has two slots. It is always written into the slot that does not
//! hold its newest generation, so a torn write leaves the state before it readable. The bits that the lost
//! write would have set belong to data writes that had not started. Several members may keep copies:
//! [`Page::merge`] takes the union, which never lacks a bit.

use thiserror::Error;
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::crc::crc32c_with_hole;
use crate::media::{BLOCK_BYTES, BLOCK_LEN, Block};

/// How every bitmap page begins: "SWBM" on disk.
pub const PAGE_MAGIC: u32 = u32::from_le_bytes(*b"SWBM");

/// Slots of each page.
pub const SLOTS_PER_PAGE: u16 = 2;

/// Bytes of bits in a page.
pub const PAGE_BITS_LEN: usize = 4056;

/// Regions in a page: one bit each.
pub const REGIONS_PER_PAGE: u32 = PAGE_BITS_LEN as u32 * 8;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
pub(crate) struct RawPage {
    pub(crate) magic: U32,
    pub(crate) crc: U32,
    pub(crate) array_uuid: [u8; 16],
    pub(crate) page_index: U32,
    pub(crate) reserved_28: [u8; 4],
    pub(crate) generation: U64,
    pub(crate) bits: [u8; PAGE_BITS_LEN],
}

const CRC_AT: usize = core::mem::offset_of!(RawPage, crc);
const _: () = assert!(size_of::<RawPage>() == BLOCK_LEN);
const _: () = assert!(core::mem::offset_of!(RawPage, bits) == 40);

/// Pages that hold this many regions.
#[must_use]
pub const fn pages_for_regions(region_count: u64) -> u64 {
    region_count.div_ceil(REGIONS_PER_PAGE as u64)
}

/// Where a slot lies, from the bitmap's start. With the page count for `page_index`: the bitmap's length.
#[must_use]
pub const fn slot_offset_bytes(page_index: u32, slot: Slot) -> u64 {
    (page_index as u64 * SLOTS_PER_PAGE as u64 + slot as u64) * BLOCK_BYTES
}

/// One of a page's two places.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Slot {
    /// The first.
    A = 0,
    /// The second.
    B = 1,
}

impl Slot {
    /// The other one: where the next generation goes.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Why a slot holds no page that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PageError {
    /// Fewer bytes than a page has.
    #[error("a bitmap page has {BLOCK_LEN} bytes and only {have} were read; read the whole block")]
    TooShort {
        /// Bytes given.
        have: usize,
    },
    /// Never written, or something else.
    #[error(
        "no bitmap page here: found magic {found:#010x}; take all of its regions as possibly disagreeing"
    )]
    NoMagic {
        /// The bytes in the magic's place.
        found: u32,
    },
    /// The checksum does not match.
    #[error("bitmap page CRC is {stored:#010x} but its bytes give {computed:#010x}: torn or damaged")]
    Crc {
        /// As found.
        stored: u32,
        /// Over the bytes found.
        computed: u32,
    },
    /// A page left over from another array.
    #[error("bitmap page of array {found}, not {wanted}: left over from an earlier use of this member")]
    Array {
        /// The page's.
        found: Uuid,
        /// This array's.
        wanted: Uuid,
    },
    /// A page that belongs elsewhere.
    #[error("bitmap page {found} where page {wanted} belongs: written to the wrong place")]
    Index {
        /// The page's.
        found: u32,
        /// The place's.
        wanted: u32,
    },
}

/// Neither slot holds a page that counts: every region of the page may disagree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("no valid copy of the bitmap page (first slot: {a}; second: {b}); resync all of its regions")]
pub struct NoPage {
    /// What is wrong with the first slot.
    pub a: PageError,
    /// What is wrong with the second.
    pub b: PageError,
}

/// One page: the bits of [`REGIONS_PER_PAGE`] regions.
#[derive(Clone, PartialEq, Eq)]
pub struct Page {
    array_uuid: Uuid,
    index: u32,
    generation: u64,
    bits: Box<[u8; PAGE_BITS_LEN]>,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page {} of {}, generation {}: ", self.index, self.array_uuid, self.generation)?;
        write!(f, "{} regions set", self.count())
    }
}

impl Page {
    /// A page with no bit set, generation 0: not yet written.
    #[must_use]
    pub fn new(array_uuid: Uuid, index: u32) -> Self {
        Self { array_uuid, index, generation: 0, bits: Box::new([0; PAGE_BITS_LEN]) }
    }

    /// Parses one slot, of any array and at any place.
    pub fn decode(block: &[u8]) -> Result<Self, PageError> {
        let (raw, _) =
            RawPage::ref_from_prefix(block).map_err(|_| PageError::TooShort { have: block.len() })?;
        if raw.magic.get() != PAGE_MAGIC {
            return Err(PageError::NoMagic { found: raw.magic.get() });
        }
        let (stored, computed) = (raw.crc.get(), crc32c_with_hole(raw.as_bytes(), CRC_AT));
        if stored != computed {
            return Err(PageError::Crc { stored, computed });
        }
        Ok(Self {
            array_uuid: Uuid::from_bytes(raw.array_uuid),
            index: raw.page_index.get(),
            generation: raw.generation.get(),
            bits: Box::new(raw.bits),
        })
    }

    /// Parses one slot of this array's page `index`.
    pub fn decode_for(block: &[u8], array_uuid: Uuid, index: u32) -> Result<Self, PageError> {
        let page = Self::decode(block)?;
        if page.array_uuid != array_uuid {
            return Err(PageError::Array { found: page.array_uuid, wanted: array_uuid });
        }
        if page.index != index {
            return Err(PageError::Index { found: page.index, wanted: index });
        }
        Ok(page)
    }

    /// The page's block, CRC and all.
    #[must_use]
    pub fn encode(&self) -> Block {
        let mut block: Block = zerocopy::transmute!(RawPage {
            magic: PAGE_MAGIC.into(),
            crc: 0.into(),
            array_uuid: self.array_uuid.into_bytes(),
            page_index: self.index.into(),
            reserved_28: [0; 4],
            generation: self.generation.into(),
            bits: *self.bits,
        });
        let crc = crc32c_with_hole(&block, CRC_AT);
        block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// The array that it belongs to.
    #[must_use]
    pub const fn array_uuid(&self) -> Uuid {
        self.array_uuid
    }

    /// Its place in the bitmap.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The number of this write of the page.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes it the next generation. Call it before each write, which goes into the slot that does not hold
    /// the newest.
    pub fn advance(&mut self) {
        // 2^64 writes do not happen; a page that claims so many was not made by them.
        self.generation = self.generation.saturating_add(1);
    }

    /// Continues from another page's generation if that is newer: the next write must be newer than both.
    pub fn follow(&mut self, generation: u64) {
        self.generation = self.generation.max(generation);
    }

    /// Whether region `region` of this page is set; `None` past the page's end.
    #[must_use]
    pub fn get(&self, region: u32) -> Option<bool> {
        let byte = self.bits.get(region as usize / 8)?;
        Some(byte >> (region % 8) & 1 == 1)
    }

    /// Sets or clears region `region` and returns whether that changed it; `None` past the page's end.
    #[must_use]
    pub fn set(&mut self, region: u32, dirty: bool) -> Option<bool> {
        let byte = self.bits.get_mut(region as usize / 8)?;
        let (before, mask) = (*byte, 1 << (region % 8));
        *byte = if dirty { before | mask } else { before & !mask };
        Some(*byte != before)
    }

    /// The bits: region `n` is bit `n % 8` of byte `n / 8`.
    #[must_use]
    pub fn bits(&self) -> &[u8; PAGE_BITS_LEN] {
        &self.bits
    }

    /// The bits, for changing many at a time.
    #[must_use]
    pub fn bits_mut(&mut self) -> &mut [u8; PAGE_BITS_LEN] {
        &mut self.bits
    }

    /// Whether no region is set.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.bits.iter().all(|byte| *byte == 0)
    }

    /// Regions set.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.bits.iter().map(|byte| byte.count_ones()).sum()
    }

    /// The regions set, in order.
    pub fn regions(&self) -> impl Iterator<Item = u32> {
        let bytes = self.bits.iter().zip((0_u32..).step_by(8)).filter(|(byte, _)| **byte != 0);
        bytes.flat_map(|(byte, first)| {
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }

    /// Takes over the other member's bits as well (the union) and the higher generation.
    pub fn merge(&mut self, other: &Self) {
        self.bits.iter_mut().zip(other.bits.iter()).for_each(|(own, theirs)| *own |= theirs);
        self.generation = self.generation.max(other.generation);
    }
}

/// The page that counts of the two slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Newest {
    /// Its newest generation.
    pub page: Page,
    /// Its slot; the next write goes to [`Slot::other`].
    pub slot: Slot,
    /// What is wrong with the other slot, if anything. [`PageError::Crc`] means either a torn write, which is
    /// harmless, or a medium that lost a durable page, which is not: then the other members' copies must be
    /// merged in.
    pub lost: Option<PageError>,
}

/// The newest page of the two slots.
///
/// If both slots are valid and of one generation, the union counts: no crash makes such slots, and a
/// superfluous bit only costs time.
pub fn newest(a: &[u8], b: &[u8], array_uuid: Uuid, index: u32) -> Result<Newest, NoPage> {
    let slots = (Page::decode_for(a, array_uuid, index), Page::decode_for(b, array_uuid, index));
    match slots {
        (Err(a), Err(b)) => Err(NoPage { a, b }),
        (Ok(page), Err(error)) => Ok(Newest { page, slot: Slot::A, lost: Some(error) }),
        (Err(error), Ok(page)) => Ok(Newest { page, slot: Slot::B, lost: Some(error) }),
        (Ok(a), Ok(b)) => Ok(newer(a, b)),
    }
}

fn newer(mut a: Page, b: Page) -> Newest {
    if a.generation < b.generation {
        return Newest { page: b, slot: Slot::B, lost: None };
    }
    if a.generation == b.generation {
        a.merge(&b);
    }
    Newest { page: a, slot: Slot::A, lost: None }
}
