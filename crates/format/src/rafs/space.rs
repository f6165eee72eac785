//! Where files' blocks lie, and which blocks are taken: the values of extents and of stripe groups.

use super::{
    superblock::{GROUP_BLOCKS_MAX, STRIPE_BLOCKS_MAX},
    value::{Parts, VALUE_MAX, ValueError},
};

/// Blocks of an extent that keeps a CRC of each, at most.
pub const CHECKED_BLOCKS_MAX: usize = (VALUE_MAX - EXTENT_LEN) / 4;
/// Bytes of an extent without its CRCs.
const EXTENT_LEN: usize = 13;

/// A run of a file's blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Its first block on the volume.
    pub place: u64,
    /// How many blocks follow one another.
    pub blocks: u32,
    /// CRC-32C of each block. None for blocks in large stripes, which are overwritten in place.
    pub crcs: Option<Vec<u32>>,
}

impl Extent {
    /// Its bytes.
    ///
    /// # Panics
    /// If it has no block, or not as many CRCs as blocks, or more of them than [`CHECKED_BLOCKS_MAX`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { place, blocks, crcs } = self;
        assert!(*blocks > 0, "an extent has blocks");
        let mut value = Vec::with_capacity(EXTENT_LEN);
        value.extend(place.to_le_bytes());
        value.extend(blocks.to_le_bytes());
        value.push(crcs.is_some().into());
        if let Some(crcs) = crcs {
            assert_eq!(crcs.len(), *blocks as usize, "every block has a CRC");
            assert!(crcs.len() <= CHECKED_BLOCKS_MAX, "the CRCs fit a value");
            value.extend(crcs.iter().flat_map(|crc| crc.to_le_bytes()));
        }
        value
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let mut parts = Parts::new("extent", value);
        let (place, blocks, is_checked) = (parts.u64()?, parts.u32()?, parts.u8()?);
        if blocks == 0 || place.checked_add(blocks.into()).is_none() {
            return Err(ValueError::Nonsense { field: "extent's number of blocks", found: blocks.into() });
        }
        let rest = parts.rest();
        let wanted = match is_checked {
            0 => 0,
            1 => 4 * blocks as usize,
            found => return Err(ValueError::Nonsense { field: "extent's kind", found: found.into() }),
        };
        if rest.len() != wanted {
            return Err(ValueError::Length { what: "extent", found: value.len() });
        }
        let (crcs, _) = rest.as_chunks();
        let crcs = (is_checked == 1).then(|| crcs.iter().copied().map(u32::from_le_bytes).collect());
        Ok(Self { place, blocks, crcs })
    }
}

/// What the stripes of a group are for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum GroupKind {
    /// Small files, and what is less than a stripe of others: written out of place.
    Small = 1,
    /// Stripes that are full of one file: overwritten in place.
    Large = 2,
    /// The tree.
    Metadata = 3,
}

impl GroupKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Small, Self::Large, Self::Metadata];

    pub(super) fn decode(number: u8) -> Result<Self, ValueError> {
        let kind = Self::ALL.into_iter().find(|kind| *kind as u8 == number);
        kind.ok_or(ValueError::Nonsense { field: "group's kind", found: number.into() })
    }
}

/// A stripe group that is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What it is for.
    pub kind: GroupKind,
    /// A bit for each stripe of a large group, or for each block of another one: it is taken. The first bit is the lowest one of
    /// the first byte.
    pub bitmap: Vec<u8>,
}

impl Group {
    /// Bits of the bitmap of a group of so many stripes with so many blocks each.
    #[must_use]
    pub fn bits(kind: GroupKind, stripes: u32, stripe_blocks: u32) -> usize {
        match kind {
            GroupKind::Large => stripes as usize,
            GroupKind::Small | GroupKind::Metadata => stripes as usize * stripe_blocks as usize,
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = vec![self.kind as u8];
        value.extend(&self.bitmap);
        value
    }

    /// Reads the value of a group of so many stripes with so many blocks each.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn decode(value: &[u8], stripes: u32, stripe_blocks: u32) -> Result<Self, ValueError> {
        let mut parts = Parts::new("stripe group", value);
        let kind = GroupKind::decode(parts.u8()?)?;
        let (bitmap, bits) = (parts.rest(), Self::bits(kind, stripes, stripe_blocks));
        if bitmap.len() != bits.div_ceil(8) {
            return Err(ValueError::Length { what: "stripe group", found: value.len() });
        }
        let beyond = bits % 8;
        if beyond > 0 && bitmap.last().is_some_and(|last| last >> beyond != 0) {
            return Err(ValueError::Nonsense {
                field: "group's number of bits",
                found: 8 * bitmap.len() as u64,
            });
        }
        Ok(Self { kind, bitmap: bitmap.to_vec() })
    }
}

const _: () = assert!(STRIPE_BLOCKS_MAX as usize / 8 < VALUE_MAX && GROUP_BLOCKS_MAX <= STRIPE_BLOCKS_MAX);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extents_are_read_as_they_were_written(
            place in 0..u64::MAX / 2,
            crcs in prop::collection::vec(any::<u32>(), 1..=CHECKED_BLOCKS_MAX),
            is_checked in any::<bool>(),
        ) {
            let extent = Extent { place, blocks: crcs.len() as u32, crcs: is_checked.then_some(crcs) };
            let value = extent.encode();
            prop_assert!(value.len() <= VALUE_MAX);
            prop_assert_eq!(Extent::decode(&value), Ok(extent));
        }

        #[test]
        fn any_bytes_give_an_answer(value in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(extent) = Extent::decode(&value) {
                prop_assert_eq!(extent.encode(), value.clone());
            }
            if let Ok(group) = Group::decode(&value, 4, 10) {
                prop_assert_eq!(group.encode(), value);
            }
        }
    }

    #[test]
    fn extents_and_groups_that_cannot_be_are_named() {
        let extent = Extent { place: 7, blocks: 2, crcs: Some(vec![1, 2]) };
        let value = extent.encode();
        assert_eq!(Extent::decode(&value[..20]), Err(ValueError::Length { what: "extent", found: 20 }));
        let changed = |at: usize, byte| {
            let mut value = value.clone();
            value[at] = byte;
            Extent::decode(&value)
        };
        assert_eq!(changed(8, 0), Err(ValueError::Nonsense { field: "extent's number of blocks", found: 0 }));
        assert_eq!(changed(12, 2), Err(ValueError::Nonsense { field: "extent's kind", found: 2 }));
        let group = Group { kind: GroupKind::Large, bitmap: vec![0b111] };
        assert_eq!(Group::decode(&group.encode(), 3, 64), Ok(group.clone()));
        assert_eq!(
            Group::decode(&group.encode(), 2, 64),
            Err(ValueError::Nonsense { field: "group's number of bits", found: 8 })
        );
        assert_eq!(
            Group::decode(&[9, 0], 3, 64),
            Err(ValueError::Nonsense { field: "group's kind", found: 9 })
        );
        assert!(Group::decode(&[1, 0], 3, 64).is_err() && Group::decode(&[], 3, 64).is_err());
    }
}
