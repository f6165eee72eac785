//! The superblock: what a file system is. Written by mkfs, and where label or features change.

use thiserror::Error;
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::block::{self, BlockError, BlockKind, Head};
use crate::media::BLOCK_LEN;

/// The version that is written.
pub const VERSION: u32 = 2;
/// Bytes of a label, in UTF-8.
pub const LABEL_LEN: usize = 64;
/// The stripes before the journal: superblock and two anchors.
pub const FIRST_JOURNAL_STRIPE: u64 = 3;
/// A stripe has so many blocks at most.
pub const STRIPE_BLOCKS_MAX: u32 = 1 << 14;
/// A group of several stripes has so many blocks at most.
pub const GROUP_BLOCKS_MAX: u32 = 1 << 13;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSuperblock {
    pub(crate) version: U32,
    pub(crate) order: u8,
    pub(crate) reserved_5: [u8; 3],
    pub(crate) compat: U64,
    pub(crate) ro_compat: U64,
    pub(crate) incompat: U64,
    pub(crate) created_us: U64,
    pub(crate) data_columns: U32,
    pub(crate) rows: U32,
    pub(crate) stripes: U64,
    pub(crate) group_stripes: U32,
    pub(crate) reserved_60: [u8; 4],
    pub(crate) journal_stripes: U64,
    pub(crate) hash_seed: U64,
    pub(crate) label: [u8; LABEL_LEN],
}

/// In which order the slots of stripes are numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SlotOrder {
    /// Row by row.
    Rows = 1,
    /// Column by column.
    Columns = 2,
}

/// A file system's superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Its identity.
    pub uuid: Uuid,
    /// Its label, [`LABEL_LEN`] bytes at most, without zeroes.
    pub label: String,
    /// When it was made, in microseconds since 1970.
    pub created_us: u64,
    /// Features that any version may ignore.
    pub compat: u64,
    /// Features that a version which does not know them may read, and not write.
    pub ro_compat: u64,
    /// Data columns of a stripe.
    pub data_columns: u32,
    /// Rows of a stripe.
    pub rows: u32,
    /// Stripes of the volume.
    pub stripes: u64,
    /// Stripes of a group, a power of two.
    pub group_stripes: u32,
    /// How the slots of all stripe groups are numbered.
    pub order: SlotOrder,
    /// Stripes of the journal, from [`FIRST_JOURNAL_STRIPE`] on.
    pub journal_stripes: u64,
    /// Hashes of names begin with this.
    pub hash_seed: u64,
}

/// Why a superblock does not count.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SuperblockError {
    /// It is no superblock, or a damaged one.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// Another version wrote it.
    #[error(
        "the file system has version {found}, and this program knows version {VERSION} only; use a program that knows version {found}"
    )]
    Version {
        /// The file system's.
        found: u32,
    },
    /// It has features without which it cannot be read.
    #[error("the file system has features that this program does not know ({bits:#x}); use a later program")]
    Features {
        /// The unknown ones.
        bits: u64,
    },
    /// A field says what cannot be.
    #[error("the superblock's CRC is right, but its {field} is not ({found}); use the other copy: run fsck")]
    Nonsense {
        /// The field.
        field: &'static str,
        /// What it says.
        found: u64,
    },
}

impl Superblock {
    /// Data blocks of a stripe.
    #[must_use]
    pub fn stripe_blocks(&self) -> u32 {
        self.data_columns * self.rows
    }

    /// The stripe after the journal: the first group begins there.
    #[must_use]
    pub fn first_group_stripe(&self) -> u64 {
        FIRST_JOURNAL_STRIPE + self.journal_stripes
    }

    /// Whole groups between the journal and the superblock's second copy.
    #[must_use]
    pub fn groups(&self) -> u64 {
        (self.stripes - 1).saturating_sub(self.first_group_stripe()) / u64::from(self.group_stripes)
    }

    /// What records of the journal carry in the place of the file system's UUID. Clients can learn the UUID, and not this: so they
    /// cannot write blocks that look like records.
    #[must_use]
    pub fn journal_id(&self) -> Uuid {
        let seed = u128::from(self.hash_seed);
        Uuid::from_u128(self.uuid.as_u128() ^ (seed << 64 | seed))
    }

    /// The block numbers of its two copies.
    #[must_use]
    pub fn places(&self) -> [u64; 2] {
        [0, (self.stripes - 1) * u64::from(self.stripe_blocks())]
    }

    /// The block numbers of the two anchors.
    #[must_use]
    pub fn anchor_places(&self) -> [u64; 2] {
        [1, 2].map(|stripe| stripe * u64::from(self.stripe_blocks()))
    }

    /// The copy that belongs at this place.
    ///
    /// # Panics
    /// If the label is too long.
    #[must_use]
    pub fn encode(&self, place: u64, generation: u64) -> Vec<u8> {
        assert!(self.label.len() <= LABEL_LEN, "a label has {LABEL_LEN} bytes at most");
        let mut label = [0; LABEL_LEN];
        label[..self.label.len()].copy_from_slice(self.label.as_bytes());
        let raw = RawSuperblock {
            version: VERSION.into(),
            order: self.order as u8,
            reserved_5: [0; 3],
            compat: self.compat.into(),
            ro_compat: self.ro_compat.into(),
            incompat: U64::ZERO,
            created_us: self.created_us.into(),
            data_columns: self.data_columns.into(),
            rows: self.rows.into(),
            stripes: self.stripes.into(),
            group_stripes: self.group_stripes.into(),
            reserved_60: [0; 4],
            journal_stripes: self.journal_stripes.into(),
            hash_seed: self.hash_seed.into(),
            label,
        };
        let mut bytes = vec![0; BLOCK_LEN];
        bytes[block::HEAD_LEN..][..size_of::<RawSuperblock>()].copy_from_slice(raw.as_bytes());
        block::seal(&mut bytes, BlockKind::Superblock, &Head { place, uuid: self.uuid, generation });
        bytes
    }

    /// Reads a copy, of any place: the first copy tells where the second lies. Returns its generation, too.
    ///
    /// # Errors
    /// [`SuperblockError`].
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64), SuperblockError> {
        let (head, payload) = block::open(bytes, BlockKind::Superblock)?;
        let too_short = BlockError::TooShort { have: payload.len() };
        let (raw, _) = RawSuperblock::ref_from_prefix(payload).map_err(|_| too_short)?;
        if raw.version.get() != VERSION {
            return Err(SuperblockError::Version { found: raw.version.get() });
        }
        if raw.incompat.get() != 0 {
            return Err(SuperblockError::Features { bits: raw.incompat.get() });
        }
        let superblock = Self {
            uuid: head.uuid,
            label: label_of(&raw.label)?,
            created_us: raw.created_us.get(),
            compat: raw.compat.get(),
            ro_compat: raw.ro_compat.get(),
            data_columns: raw.data_columns.get(),
            rows: raw.rows.get(),
            stripes: raw.stripes.get(),
            group_stripes: raw.group_stripes.get(),
            order: order_of(raw.order)?,
            journal_stripes: raw.journal_stripes.get(),
            hash_seed: raw.hash_seed.get(),
        };
        superblock.check()?;
        if !superblock.places().contains(&head.place) {
            return Err(SuperblockError::Nonsense { field: "place", found: head.place });
        }
        Ok((superblock, head.generation))
    }

    /// Whether its numbers go together.
    fn check(&self) -> Result<(), SuperblockError> {
        let nonsense = |field, found| Err(SuperblockError::Nonsense { field, found });
        let blocks = u64::from(self.data_columns) * u64::from(self.rows);
        if blocks == 0 || blocks > u64::from(STRIPE_BLOCKS_MAX) {
            return nonsense("number of blocks in a stripe", blocks);
        }
        if self.stripes.checked_mul(blocks).and_then(|all| all.checked_mul(BLOCK_LEN as u64)).is_none() {
            return nonsense("number of stripes", self.stripes);
        }
        let of_group = u64::from(self.group_stripes) * blocks;
        if !self.group_stripes.is_power_of_two()
            || self.group_stripes > 1 && of_group > u64::from(GROUP_BLOCKS_MAX)
        {
            return nonsense("number of stripes in a group", self.group_stripes.into());
        }
        let after = self.journal_stripes.checked_add(FIRST_JOURNAL_STRIPE);
        if self.journal_stripes == 0 || after.is_none_or(|after| after >= self.stripes) {
            return nonsense("journal's length", self.journal_stripes);
        }
        Ok(())
    }
}

fn order_of(number: u8) -> Result<SlotOrder, SuperblockError> {
    match number {
        1 => Ok(SlotOrder::Rows),
        2 => Ok(SlotOrder::Columns),
        other => Err(SuperblockError::Nonsense { field: "order of slots", found: other.into() }),
    }
}

fn label_of(bytes: &[u8; LABEL_LEN]) -> Result<String, SuperblockError> {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(LABEL_LEN);
    let is_padded = bytes[len..].iter().all(|byte| *byte == 0);
    let label = std::str::from_utf8(&bytes[..len]).ok().filter(|_| is_padded);
    let nonsense = SuperblockError::Nonsense { field: "label", found: len as u64 };
    label.map(str::to_owned).ok_or(nonsense)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Superblock {
        Superblock {
            uuid: Uuid::from_u128(77),
            label: "media".to_owned(),
            created_us: 5,
            compat: 0,
            ro_compat: 0,
            data_columns: 4,
            rows: 16,
            stripes: 10_000,
            group_stripes: 128,
            order: SlotOrder::Rows,
            journal_stripes: 256,
            hash_seed: 3,
        }
    }

    #[test]
    fn a_superblock_is_read_as_it_was_written() {
        let superblock = example();
        assert_eq!(superblock.groups(), (9_999 - 259) / 128);
        for place in superblock.places() {
            assert_eq!(Superblock::decode(&superblock.encode(place, 4)), Ok((superblock.clone(), 4)));
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let field = |change: &dyn Fn(&mut Superblock)| {
            let mut superblock = example();
            change(&mut superblock);
            match Superblock::decode(&superblock.encode(0, 1)) {
                Err(SuperblockError::Nonsense { field, .. }) => field,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(field(&|one| one.rows = 0), "number of blocks in a stripe");
        assert_eq!(field(&|one| one.data_columns = 1 << 20), "number of blocks in a stripe");
        assert_eq!(field(&|one| one.stripes = u64::MAX / 3), "number of stripes");
        assert_eq!(field(&|one| one.group_stripes = 100), "number of stripes in a group");
        assert_eq!(field(&|one| one.group_stripes = 256), "number of stripes in a group");
        assert_eq!(field(&|one| one.journal_stripes = 0), "journal's length");
        assert_eq!(field(&|one| one.journal_stripes = 9_997), "journal's length");
        let bytes = example().encode(1, 1);
        let nonsense = SuperblockError::Nonsense { field: "place", found: 1 };
        assert_eq!(Superblock::decode(&bytes), Err(nonsense));
    }

    proptest! {
        /// Fields that are damaged although the CRC is right, as by a bug, give an answer.
        #[test]
        fn any_payload_gives_an_answer(at in 0..size_of::<RawSuperblock>(), bytes in any::<[u8; 8]>()) {
            let mut block = example().encode(0, 1);
            let from = block::HEAD_LEN + at;
            block[from..from + 8].copy_from_slice(&bytes);
            block::seal(&mut block, BlockKind::Superblock, &Head { place: 0, uuid: Uuid::nil(), generation: 0 });
            if let Ok((superblock, _)) = Superblock::decode(&block) {
                prop_assert!(superblock.groups() < superblock.stripes);
            }
        }
    }
}
