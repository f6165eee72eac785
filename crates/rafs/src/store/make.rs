//! mkfs: an empty store on a volume.

use std::sync::Arc;

use stripewise_device::IoError;
use stripewise_format::rafs::{
    anchor::{Anchor, JournalPosition, Root},
    superblock::{
        FIRST_JOURNAL_STRIPE, GROUP_BLOCKS_MAX, LABEL_LEN, STRIPE_BLOCKS_MAX, SlotOrder, Superblock,
    },
};
use thiserror::Error;
use uuid::Uuid;

use super::ground::write_row;
use crate::{
    shape::{BLOCK_BYTES, Geometry, Order},
    volume::Volume,
};

/// The journal's size, unless another one is given: a part of the volume, between bounds.
const JOURNAL_PARTS: u64 = 64;
const JOURNAL_BYTES_MAX: u64 = 256 << 20;
const JOURNAL_STRIPES_MIN: u64 = 4;
/// Fewer groups are not worth it.
const GROUPS_MIN: u64 = 4;

/// What a file system is to be.
#[derive(Debug, Clone)]
pub struct MakeOptions {
    /// Its identity.
    pub uuid: Uuid,
    /// Its label, of up to 64 bytes without zeroes.
    pub label: String,
    /// Now, in microseconds since 1970.
    pub created_us: u64,
    /// How the slots of all stripe groups are numbered.
    pub order: Order,
    /// Stripes of the journal; as many as fit the volume, if none are given.
    pub journal_stripes: Option<u64>,
    /// Hashes of names begin with this random number.
    pub hash_seed: u64,
}

/// Why no file system was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MakeError {
    /// The volume cannot be written.
    #[error("the volume cannot be written: {0}; see to its members, then try again")]
    Io(#[from] IoError),
    /// The volume is too small.
    #[error("the volume has {stripes} stripes, and a file system needs at least {wanted}")]
    TooSmall {
        /// What it has.
        stripes: u64,
        /// What would do.
        wanted: u64,
    },
    /// Its stripes are too long.
    #[error(
        "a stripe of {blocks} blocks of 4 KiB is too long for a file system, which takes up to {STRIPE_BLOCKS_MAX}; make \
         the array with shorter chunks"
    )]
    Stripe {
        /// Blocks of a stripe.
        blocks: u32,
    },
    /// The label is none.
    #[error("a label has up to {LABEL_LEN} bytes, and no zero")]
    Label,
    /// The journal is empty.
    #[error("a journal has at least one stripe")]
    Journal,
}

/// Makes an empty file system, whatever is on the volume. Its tree is an empty leaf that is not written: an anchor of generation 0 has
/// none.
///
/// # Errors
/// [`MakeError`].
pub async fn make(volume: &Arc<dyn Volume>, options: &MakeOptions) -> Result<Superblock, MakeError> {
    let superblock = plan(volume.geometry(), options)?;
    let root = Root { place: 0, generation: 0, level: 0 };
    let journal = JournalPosition { epoch: 0, sequence: 0, block: 0 };
    let anchor =
        Anchor { generation: 0, root, journal, is_clean: true, next_inode: 1, inodes: 0, used_blocks: 0 };
    // What could be taken for an anchor of an earlier file system has another UUID; what lies there goes all the same.
    let [first, second] = superblock.anchor_places();
    write_row(&**volume, second, &[0; BLOCK_BYTES]).await?;
    write_row(&**volume, first, &anchor.encode(first, superblock.uuid)).await?;
    volume.flush().await?;
    for place in superblock.places() {
        write_row(&**volume, place, &superblock.encode(place, 0)).await?;
    }
    volume.flush().await?;
    Ok(superblock)
}

/// The superblock that a volume would get. Pure.
///
/// # Errors
/// [`MakeError`].
pub fn plan(geometry: Geometry, options: &MakeOptions) -> Result<Superblock, MakeError> {
    let blocks = geometry.stripe_blocks();
    if blocks > STRIPE_BLOCKS_MAX {
        return Err(MakeError::Stripe { blocks });
    }
    if options.label.len() > LABEL_LEN || options.label.contains('\0') {
        return Err(MakeError::Label);
    }
    if options.journal_stripes == Some(0) {
        return Err(MakeError::Journal);
    }
    let stripes = geometry.stripes();
    let journal_max = (JOURNAL_BYTES_MAX / geometry.stripe_bytes()).max(JOURNAL_STRIPES_MIN);
    let journal_stripes = options
        .journal_stripes
        .unwrap_or_else(|| (stripes / JOURNAL_PARTS).clamp(JOURNAL_STRIPES_MIN, journal_max));
    let fixed = journal_stripes.saturating_add(FIRST_JOURNAL_STRIPE + 1);
    let left = stripes.saturating_sub(fixed);
    let longest = 1 << (GROUP_BLOCKS_MAX / blocks).max(1).ilog2();
    let fits = (left / GROUPS_MIN).checked_ilog2().map(|power| 1 << power.min(16));
    let wanted = fixed.saturating_add(GROUPS_MIN);
    let fits: u32 = fits.ok_or(MakeError::TooSmall { stripes, wanted })?;
    Ok(Superblock {
        uuid: options.uuid,
        label: options.label.clone(),
        created_us: options.created_us,
        compat: 0,
        ro_compat: 0,
        data_columns: geometry.data_columns(),
        rows: geometry.rows(),
        stripes,
        group_stripes: fits.min(longest),
        order: match options.order {
            Order::Rows => SlotOrder::Rows,
            Order::Columns => SlotOrder::Columns,
        },
        journal_stripes,
        hash_seed: options.hash_seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> MakeOptions {
        MakeOptions {
            uuid: Uuid::from_u128(1),
            label: "l".repeat(64),
            created_us: 1,
            order: Order::Rows,
            journal_stripes: None,
            hash_seed: 4,
        }
    }

    fn planned(columns: u32, rows: u32, stripes: u64) -> Result<Superblock, MakeError> {
        plan(Geometry::new(columns, rows, stripes).unwrap(), &options())
    }

    #[test]
    fn groups_and_journal_follow_the_volume() {
        let one_tib = planned(4, 16, 1 << 22).unwrap();
        assert_eq!((one_tib.group_stripes, one_tib.journal_stripes), (128, 1024));
        let small = planned(4, 16, 200).unwrap();
        assert_eq!((small.group_stripes, small.journal_stripes), (32, 4));
        assert_eq!(small.groups(), (200 - 8) / 32);
        let smallest = planned(4, 16, 12).unwrap();
        assert_eq!((smallest.group_stripes, smallest.groups()), (1, 4));
        let long = planned(30, 256, 5000).unwrap();
        assert_eq!(long.group_stripes, 1);
        for one in [one_tib, small, smallest, long] {
            assert!(Superblock::decode(&one.encode(0, 0)).is_ok());
        }
    }

    #[test]
    fn what_cannot_be_made_is_named() {
        assert_eq!(planned(4, 16, 11), Err(MakeError::TooSmall { stripes: 11, wanted: 12 }));
        assert_eq!(planned(100, 256, 1000), Err(MakeError::Stripe { blocks: 25_600 }));
        let geometry = Geometry::new(4, 16, 200).unwrap();
        let label = MakeOptions { label: "l".repeat(65), ..options() };
        assert_eq!(plan(geometry, &label), Err(MakeError::Label));
        let journal = |stripes| plan(geometry, &MakeOptions { journal_stripes: Some(stripes), ..options() });
        assert_eq!(journal(0), Err(MakeError::Journal));
        let wanted = u64::MAX;
        assert_eq!(journal(u64::MAX), Err(MakeError::TooSmall { stripes: 200, wanted }));
    }
}
