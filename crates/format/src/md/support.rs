//! Whether an engine may run the array that a superblock describes. Decoding is generous so that anything can
//! be examined. Running is not: an ignored feature destroys data.

use thiserror::Error;

use super::{Features, Level, Superblock};

/// md's `ALGORITHM_LEFT_SYMMETRIC`, the kernel's default for levels 5 and 6 and the only one run here.
pub const LAYOUT_LEFT_SYMMETRIC: u32 = 2;

/// md's `RAID0_ORIG_LAYOUT`: what kernels before 3.14 did with members of unequal size.
pub const LAYOUT_RAID0_ORIGINAL: u32 = 1;

/// md's `RAID0_ALT_MULTIZONE_LAYOUT`: what kernels since 3.14 do.
pub const LAYOUT_RAID0_ALTERNATE: u32 = 2;

/// The least chunk: a kernel page, also the block of our cache and plans.
const CHUNK_SECTORS_MIN: u32 = 8;

/// What keeps a superblock's array from being run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Unsupported {
    /// A feature that is understood and not handled.
    #[error(
        "the array uses md's {0}, which Stripewise does not handle; finish or remove it with mdadm first"
    )]
    Feature(Features),
    /// Feature bits without a name, or padding that carries something.
    #[error(
        "the superblock has feature bits {bits:#x} that this version does not know; a newer kernel made them"
    )]
    UnknownFeatures {
        /// The bits.
        bits: u32,
    },
    /// Bytes that must be zero are not.
    #[error(
        "reserved bytes of the superblock are not zero: a newer kernel uses them; use a newer Stripewise"
    )]
    Padding,
    /// A level not run here.
    #[error("{0} is not run by Stripewise; levels 0, 1, 4, 5 and 6 are")]
    Level(Level),
    /// A layout not run here.
    #[error(
        "layout {layout} of {level} is not run by Stripewise: {wanted}; run the array with mdadm, or change it with mdadm --grow --layout"
    )]
    Layout {
        /// The array's level.
        level: Level,
        /// Its layout.
        layout: u32,
        /// The layouts that are run.
        wanted: &'static str,
    },
    /// A chunk no array of this level can have.
    #[error("a chunk of {chunk_sectors} sectors is not possible for {level}; {wanted}")]
    Chunk {
        /// The array's level.
        level: Level,
        /// Its chunk.
        chunk_sectors: u32,
        /// Possible chunks.
        wanted: &'static str,
    },
    /// Too few or too many slots for the level.
    #[error("{level} cannot have {raid_disks} members; {wanted}")]
    Members {
        /// The array's level.
        level: Level,
        /// Its slots.
        raid_disks: u32,
        /// Possible numbers of members.
        wanted: &'static str,
    },
    /// A logical block that no device has.
    #[error(
        "its logical block of {bytes} bytes is none that a device can have (512 and 4096 are, and 0 for one that was \
         not recorded): the superblock is damaged; assemble from the other members"
    )]
    LogicalBlock {
        /// `logical_block_size`.
        bytes: u32,
    },
    /// Data that would not fit where the superblock says it lies.
    #[error(
        "the array uses {size_sectors} sectors of a member that has {available_sectors} for data from sector \
         {data_offset_sectors}: the superblock contradicts itself; assemble from the other members"
    )]
    Size {
        /// `size`.
        size_sectors: u64,
        /// `data_size`.
        available_sectors: u64,
        /// `data_offset`.
        data_offset_sectors: u64,
    },
    /// The data lies over the superblock.
    #[error(
        "data begins at sector {data_offset_sectors}, on or before the superblock: not a version 1.2 member"
    )]
    DataOffset {
        /// `data_offset`.
        data_offset_sectors: u64,
    },
    /// A role outside the array.
    #[error("this member's role is {slot} in an array of {raid_disks}: the superblock contradicts itself")]
    Slot {
        /// The role.
        slot: u16,
        /// The slots there are.
        raid_disks: u32,
    },
}

/// Features that an engine can neither honour nor leave alone.
const REFUSED: [Features; 7] = [
    Features::RESHAPE_ACTIVE,
    Features::RESHAPE_BACKWARDS,
    Features::NEW_OFFSET,
    Features::CLUSTERED,
    Features::JOURNAL,
    Features::PPL,
    Features::MULTIPLE_PPLS,
];

impl Superblock {
    /// Refuses an array that Stripewise cannot run, naming the reason.
    ///
    /// Left to the engine: bad blocks, a recovery offset and a replacement are facts about one member; an
    /// internal bitmap is settled at a clean stop.
    pub fn check_supported(&self) -> Result<(), Unsupported> {
        self.check_features()?;
        self.check_geometry()?;
        self.check_place()
    }

    fn check_features(&self) -> Result<(), Unsupported> {
        if self.features.unknown() != 0 {
            return Err(Unsupported::UnknownFeatures { bits: self.features.unknown() });
        }
        if let Some(refused) = REFUSED.into_iter().find(|feature| self.features.contains(*feature)) {
            return Err(Unsupported::Feature(refused));
        }
        if self.padding.iter().any(|byte| *byte != 0) { Err(Unsupported::Padding) } else { Ok(()) }
    }

    fn check_geometry(&self) -> Result<(), Unsupported> {
        self.check_level()?;
        self.check_layout()?;
        self.check_chunk()?;
        self.check_members()?;
        self.check_logical_block()
    }

    fn check_level(&self) -> Result<(), Unsupported> {
        match self.level {
            Level::Other(_) => Err(Unsupported::Level(self.level)),
            _ => Ok(()),
        }
    }

    fn check_layout(&self) -> Result<(), Unsupported> {
        let (allowed, wanted): (&[u32], _) = match self.level {
            Level::Raid5 | Level::Raid6 => (&[LAYOUT_LEFT_SYMMETRIC], "only left-symmetric (2) is"),
            // Without the feature the field is ignored; with it, it says which of two layouts was used.
            Level::Raid0 if self.features.contains(Features::RAID0_LAYOUT) => (
                &[0, LAYOUT_RAID0_ORIGINAL, LAYOUT_RAID0_ALTERNATE],
                "only original (1) and alternate (2) are",
            ),
            // Level 4's parity is on the last member whatever the field says: mdadm leaves 5 there when it
            // grows a level 0.
            Level::Raid0 | Level::Raid1 | Level::Raid4 | Level::Other(_) => return Ok(()),
        };
        if allowed.contains(&self.layout) {
            return Ok(());
        }
        Err(Unsupported::Layout { level: self.level, layout: self.layout, wanted })
    }

    fn check_chunk(&self) -> Result<(), Unsupported> {
        let chunk = self.chunk_sectors;
        let (possible, wanted) = match self.level {
            // md leaves any requested chunk in the field of level 1 and does not use it.
            Level::Raid1 | Level::Other(_) => return Ok(()),
            Level::Raid0 => (
                chunk >= CHUNK_SECTORS_MIN && chunk.is_multiple_of(CHUNK_SECTORS_MIN),
                "a multiple of 4 KiB is",
            ),
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                (chunk >= CHUNK_SECTORS_MIN && chunk.is_power_of_two(), "a power of two from 4 KiB is")
            }
        };
        if possible {
            return Ok(());
        }
        Err(Unsupported::Chunk { level: self.level, chunk_sectors: chunk, wanted })
    }

    fn check_members(&self) -> Result<(), Unsupported> {
        let (least, wanted) = match self.level {
            Level::Raid0 | Level::Raid1 | Level::Other(_) => (1, "at least 1 is needed"),
            Level::Raid4 | Level::Raid5 => (2, "at least 2 are needed"),
            Level::Raid6 => (4, "at least 4 are needed"),
        };
        let error = |wanted| Unsupported::Members { level: self.level, raid_disks: self.raid_disks, wanted };
        if self.raid_disks < least {
            return Err(error(wanted));
        }
        if self.raid_disks > super::MAX_DEVICES { Err(error("at most 1920 fit")) } else { Ok(()) }
    }

    /// The kernel takes powers of two from 512 bytes to its page. Those above 4096 are the engine's to refuse.
    fn check_logical_block(&self) -> Result<(), Unsupported> {
        let bytes = self.logical_block_bytes;
        if bytes == 0 || (bytes >= 512 && bytes.is_power_of_two()) {
            return Ok(());
        }
        Err(Unsupported::LogicalBlock { bytes })
    }

    fn check_place(&self) -> Result<(), Unsupported> {
        if self.data_offset_sectors < self.super_offset_sectors.saturating_add(u64::from(CHUNK_SECTORS_MIN)) {
            return Err(Unsupported::DataOffset { data_offset_sectors: self.data_offset_sectors });
        }
        let end_fits = self.data_offset_sectors.checked_add(self.data_size_sectors).is_some();
        if self.member_size_sectors > self.data_size_sectors || !end_fits {
            return Err(Unsupported::Size {
                size_sectors: self.member_size_sectors,
                available_sectors: self.data_size_sectors,
                data_offset_sectors: self.data_offset_sectors,
            });
        }
        match self.role() {
            super::Role::Active(slot) if u32::from(slot) >= self.raid_disks => {
                Err(Unsupported::Slot { slot, raid_disks: self.raid_disks })
            }
            _ => Ok(()),
        }
    }
}
