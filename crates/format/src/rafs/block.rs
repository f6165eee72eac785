//! The head of a metadata block, which tells a block that belongs here from one that does not.

use thiserror::Error;
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::crc::{crc32c_with_hole, mixed};
use crate::media::BLOCK_LEN;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawHead {
    pub(crate) magic: [u8; 8],
    pub(crate) crc: U32,
    pub(crate) reserved_12: [u8; 4],
    pub(crate) place: U64,
    pub(crate) uuid: [u8; 16],
    pub(crate) generation: U64,
}

const CRC_AT: usize = core::mem::offset_of!(RawHead, crc);

/// Bytes of a head.
pub const HEAD_LEN: usize = size_of::<RawHead>();
/// Bytes behind the head.
pub const PAYLOAD_LEN: usize = BLOCK_LEN - HEAD_LEN;
const _: () = assert!(HEAD_LEN == 48);

/// What a metadata block is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockKind {
    /// A copy of the superblock.
    Superblock,
    /// An anchor.
    Anchor,
    /// A node of the tree.
    Node,
}

impl BlockKind {
    /// How such a block begins.
    #[must_use]
    pub const fn magic(self) -> [u8; 8] {
        match self {
            Self::Superblock => *b"RAFSsupr",
            Self::Anchor => *b"RAFSanch",
            Self::Node => *b"RAFSnode",
        }
    }
}

/// What a head says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The block's own number.
    pub place: u64,
    /// The file system's UUID.
    pub uuid: Uuid,
    /// When it was written: the number of the checkpoint.
    pub generation: u64,
}

/// Why a block is not the metadata block that belongs here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BlockError {
    /// Fewer bytes than a block has.
    #[error("a metadata block has {BLOCK_LEN} bytes and only {have} were read; read the whole block")]
    TooShort {
        /// Bytes given.
        have: usize,
    },
    /// Something else.
    #[error("no block of this kind here: it begins with {found:02x?}; run fsck")]
    NoMagic {
        /// What it begins with.
        found: [u8; 8],
    },
    /// The checksum does not match.
    #[error(
        "the block's CRC is {stored:#010x} but its bytes give {computed:#010x}: torn or damaged; a scrub of the array, or fsck, may mend it"
    )]
    Crc {
        /// As found.
        stored: u32,
        /// Over the bytes found.
        computed: u32,
    },
    /// It belongs elsewhere.
    #[error("the block of place {found} lies at place {wanted}: written to the wrong place; run fsck")]
    Place {
        /// Where it says that it belongs.
        found: u64,
        /// Where it was read.
        wanted: u64,
    },
    /// It belongs to another file system.
    #[error("a block of file system {found}, not {wanted}: left over from an earlier one; run fsck")]
    Owner {
        /// The block's.
        found: Uuid,
        /// This file system's.
        wanted: Uuid,
    },
}

/// Writes the head and the CRC of a block whose payload is complete.
///
/// # Panics
/// If `block` is not [`BLOCK_LEN`] bytes long.
pub fn seal(block: &mut [u8], kind: BlockKind, head: &Head) {
    assert_eq!(block.len(), BLOCK_LEN, "a metadata block is a whole block");
    let raw = RawHead {
        magic: kind.magic(),
        crc: U32::ZERO,
        reserved_12: [0; 4],
        place: U64::new(head.place),
        uuid: *head.uuid.as_bytes(),
        generation: U64::new(head.generation),
    };
    block[..HEAD_LEN].copy_from_slice(raw.as_bytes());
    let crc = sum(block, kind);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// What is stored as the CRC of a block. Superblocks are not mixed: any version can tell that they are whole, and which version they have.
fn sum(block: &[u8], kind: BlockKind) -> u32 {
    let crc = crc32c_with_hole(block, CRC_AT);
    if kind == BlockKind::Superblock { crc } else { mixed(crc) }
}

/// Checks a block of any place and owner. Returns its head and its payload.
///
/// # Errors
/// [`BlockError`], except for those of place and owner.
pub fn open(block: &[u8], kind: BlockKind) -> Result<(Head, &[u8]), BlockError> {
    let too_short = BlockError::TooShort { have: block.len() };
    let block = block.get(..BLOCK_LEN).ok_or(too_short)?;
    let (raw, payload) = RawHead::ref_from_prefix(block).map_err(|_| too_short)?;
    if raw.magic != kind.magic() {
        return Err(BlockError::NoMagic { found: raw.magic });
    }
    let (stored, computed) = (raw.crc.get(), sum(block, kind));
    if stored != computed {
        return Err(BlockError::Crc { stored, computed });
    }
    let (place, generation) = (raw.place.get(), raw.generation.get());
    Ok((Head { place, uuid: Uuid::from_bytes(raw.uuid), generation }, payload))
}

/// As [`open`], for the block that was read at `place` of file system `uuid`.
///
/// # Errors
/// [`BlockError`].
pub fn open_at(block: &[u8], kind: BlockKind, place: u64, uuid: Uuid) -> Result<(Head, &[u8]), BlockError> {
    let (head, payload) = open(block, kind)?;
    if head.uuid != uuid {
        return Err(BlockError::Owner { found: head.uuid, wanted: uuid });
    }
    if head.place != place {
        return Err(BlockError::Place { found: head.place, wanted: place });
    }
    Ok((head, payload))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: Uuid = Uuid::from_u128(7);

    fn sealed() -> Vec<u8> {
        let mut block: Vec<u8> = (0..BLOCK_LEN).map(|at| (at % 251) as u8).collect();
        seal(&mut block, BlockKind::Node, &Head { place: 5, uuid: UUID, generation: 9 });
        block
    }

    #[test]
    fn what_was_sealed_opens_where_it_belongs_and_nowhere_else() {
        let block = sealed();
        let (head, payload) = open_at(&block, BlockKind::Node, 5, UUID).unwrap();
        assert_eq!((head.generation, payload.len()), (9, PAYLOAD_LEN));
        assert_eq!(payload[0], (HEAD_LEN % 251) as u8);
        let error = |result: Result<(Head, &[u8]), BlockError>| result.map(|_| ()).unwrap_err();
        assert_eq!(
            error(open_at(&block, BlockKind::Node, 6, UUID)),
            BlockError::Place { found: 5, wanted: 6 }
        );
        let other = Uuid::from_u128(8);
        assert_eq!(
            error(open_at(&block, BlockKind::Node, 5, other)),
            BlockError::Owner { found: UUID, wanted: other }
        );
        assert_eq!(error(open(&block, BlockKind::Anchor)), BlockError::NoMagic { found: *b"RAFSnode" });
        assert_eq!(error(open(&block[..100], BlockKind::Node)), BlockError::TooShort { have: 100 });
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_noticed(at in 0..BLOCK_LEN, bit in 0..8_u32) {
            let mut block = sealed();
            block[at] ^= 1 << bit;
            prop_assert!(open(&block, BlockKind::Node).is_err());
        }

        #[test]
        fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..2 * BLOCK_LEN)) {
            let _ = open(&bytes, BlockKind::Superblock);
        }
    }
}
