//! Anchors: where the tree is, and from where on the journal counts. Two, written in turns.

use thiserror::Error;
use uuid::Uuid;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::block::{self, BlockError, BlockKind, Head};
use crate::media::BLOCK_LEN;

/// Numbers of inodes are below this one. No mount gives so many.
pub const INODES_END: u64 = 1 << 63;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawAnchor {
    pub(crate) root_place: U64,
    pub(crate) root_generation: U64,
    pub(crate) root_level: u8,
    pub(crate) is_clean: u8,
    pub(crate) reserved_18: [u8; 6],
    pub(crate) journal_epoch: U64,
    pub(crate) journal_sequence: U64,
    pub(crate) journal_block: U64,
    pub(crate) next_inode: U64,
    pub(crate) inodes: U64,
    pub(crate) used_blocks: U64,
}

/// The root of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// Its block number.
    pub place: u64,
    /// The generation in which it was written.
    pub generation: u64,
    /// Its level; 0 is a leaf.
    pub level: u8,
}

/// Where a record of the journal lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalPosition {
    /// Its epoch: each anchor begins one.
    pub epoch: u64,
    /// Its number: each record has the next one.
    pub sequence: u64,
    /// The block of the ring where it begins.
    pub block: u64,
}

/// A checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// Its number: the checkpoint's.
    pub generation: u64,
    /// The tree.
    pub root: Root,
    /// Everything before this record is in the tree.
    pub journal: JournalPosition,
    /// An unmount, or mkfs, wrote it. Records of a later mount may follow.
    pub is_clean: bool,
    /// Inodes are numbered from here on.
    pub next_inode: u64,
    /// How many inodes there are.
    pub inodes: u64,
    /// How many blocks of the groups are used.
    pub used_blocks: u64,
}

/// Why an anchor does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AnchorError {
    /// It is no anchor of this file system, or a damaged one.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The medium has lost all copies of it.
    #[error("no copy of the anchor can be read; the other anchor counts")]
    Unread,
    /// A flag says what cannot be.
    #[error(
        "the anchor's CRC is right, but it says {found} for whether it is clean; the other anchor counts"
    )]
    Nonsense {
        /// What it says.
        found: u8,
    },
    /// The next inode would get a number that none can have.
    #[error(
        "the anchor's CRC is right, but it says {found} for the next inode's number; the other anchor counts"
    )]
    NextInode {
        /// What it says.
        found: u64,
    },
}

/// No anchor counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the file system has no valid anchor (first: {a}; second: {b}); run fsck, which looks for the newest tree"
)]
pub struct NoAnchor {
    /// What is wrong with the first.
    pub a: AnchorError,
    /// What is wrong with the second.
    pub b: AnchorError,
}

impl Anchor {
    /// Its block, for its place.
    #[must_use]
    pub fn encode(&self, place: u64, uuid: Uuid) -> Vec<u8> {
        let raw = RawAnchor {
            root_place: self.root.place.into(),
            root_generation: self.root.generation.into(),
            root_level: self.root.level,
            is_clean: self.is_clean.into(),
            reserved_18: [0; 6],
            journal_epoch: self.journal.epoch.into(),
            journal_sequence: self.journal.sequence.into(),
            journal_block: self.journal.block.into(),
            next_inode: self.next_inode.into(),
            inodes: self.inodes.into(),
            used_blocks: self.used_blocks.into(),
        };
        let mut bytes = vec![0; BLOCK_LEN];
        bytes[block::HEAD_LEN..][..size_of::<RawAnchor>()].copy_from_slice(raw.as_bytes());
        block::seal(&mut bytes, BlockKind::Anchor, &Head { place, uuid, generation: self.generation });
        bytes
    }

    /// Reads the anchor at a place.
    ///
    /// # Errors
    /// [`AnchorError`].
    pub fn decode(bytes: &[u8], place: u64, uuid: Uuid) -> Result<Self, AnchorError> {
        let (head, payload) = block::open_at(bytes, BlockKind::Anchor, place, uuid)?;
        let too_short = BlockError::TooShort { have: payload.len() };
        let (raw, _) = RawAnchor::ref_from_prefix(payload).map_err(|_| too_short)?;
        let is_clean = match raw.is_clean {
            0 => false,
            1 => true,
            found => return Err(AnchorError::Nonsense { found }),
        };
        let next_inode = raw.next_inode.get();
        if next_inode > INODES_END {
            return Err(AnchorError::NextInode { found: next_inode });
        }
        Ok(Self {
            generation: head.generation,
            root: Root {
                place: raw.root_place.get(),
                generation: raw.root_generation.get(),
                level: raw.root_level,
            },
            journal: JournalPosition {
                epoch: raw.journal_epoch.get(),
                sequence: raw.journal_sequence.get(),
                block: raw.journal_block.get(),
            },
            is_clean,
            next_inode,
            inodes: raw.inodes.get(),
            used_blocks: raw.used_blocks.get(),
        })
    }

    /// The newer one of those that count, and at which of the two places it is: the next one is written to the other.
    ///
    /// # Errors
    /// [`NoAnchor`].
    pub fn newest(both: [Result<Self, AnchorError>; 2]) -> Result<(usize, Self), NoAnchor> {
        match both {
            [Ok(a), Ok(b)] => Ok(if a.generation >= b.generation { (0, a) } else { (1, b) }),
            [Ok(a), Err(_)] => Ok((0, a)),
            [Err(_), Ok(b)] => Ok((1, b)),
            [Err(a), Err(b)] => Err(NoAnchor { a, b }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid::from_u128(7);

    fn example(generation: u64) -> Anchor {
        Anchor {
            generation,
            root: Root { place: 9000, generation, level: 2 },
            journal: JournalPosition { epoch: 3, sequence: 44, block: 12 },
            is_clean: true,
            next_inode: 17,
            inodes: 12,
            used_blocks: 5000,
        }
    }

    #[test]
    fn anchors_take_turns_and_the_newer_one_counts() {
        let read = |generation: u64| Anchor::decode(&example(generation).encode(64, UUID), 64, UUID);
        assert_eq!(read(5), Ok(example(5)));
        let torn = Anchor::decode(&[0; BLOCK_LEN], 64, UUID);
        assert_eq!(Anchor::newest([read(5), read(6)]), Ok((1, example(6))));
        assert_eq!(Anchor::newest([read(5), torn]), Ok((0, example(5))));
        assert_eq!(Anchor::newest([torn, read(4)]), Ok((1, example(4))));
        assert!(Anchor::newest([torn, torn]).is_err());
    }

    #[test]
    fn an_anchor_of_another_place_or_with_nonsense_does_not_count() {
        let mut bytes = example(5).encode(64, UUID);
        assert!(matches!(
            Anchor::decode(&bytes, 128, UUID),
            Err(AnchorError::Block(BlockError::Place { .. }))
        ));
        bytes[block::HEAD_LEN + core::mem::offset_of!(RawAnchor, is_clean)] = 7;
        block::seal(&mut bytes, BlockKind::Anchor, &Head { place: 64, uuid: UUID, generation: 5 });
        assert_eq!(Anchor::decode(&bytes, 64, UUID), Err(AnchorError::Nonsense { found: 7 }));
    }

    #[test]
    fn an_anchor_leaves_numbers_for_inodes() {
        let read = |next_inode| {
            let bytes = Anchor { next_inode, ..example(5) }.encode(64, UUID);
            Anchor::decode(&bytes, 64, UUID).map(|anchor| anchor.next_inode)
        };
        assert_eq!(read(INODES_END), Ok(INODES_END));
        for found in [INODES_END + 1, u64::MAX] {
            assert_eq!(read(found), Err(AnchorError::NextInode { found }));
        }
    }
}
