//! New superblocks, filled as mdadm fills them (`super1.c`: `validate_geometry1`, `init_super1`,
//! `write_init_super1`), so that kernel and mdadm see nothing unusual.

use thiserror::Error;
use uuid::Uuid;

use super::fields::{ArrayName, DeviceFlags, Level, Role, Roles, Timestamp, TooManyRoles};
use super::superblock::{BadBlockArea, IN_SYNC, Reshape, SUPERBLOCK_SECTOR, Superblock};
use super::{Features, Unsupported};
use crate::media::{BLOCK_BYTES, SECTOR_BYTES};

const MIB_SECTORS: u64 = (1 << 20) / SECTOR_BYTES;
const GIB_SECTORS: u64 = 1024 * MIB_SECTORS;

/// Where mdadm puts the bitmap, whether or not there is one: one block after the superblock.
const BITMAP_OFFSET_SECTORS: u64 = 8;
/// One 4 KiB block of bad-block log.
const BAD_BLOCK_LOG_SECTORS: u16 = 8;
/// Superblock, the block before it, and bad-block log, as mdadm counts them.
const BASE_METADATA_SECTORS: u64 = 24;
/// Room for a later reshape: about 0.1 % of the member, at most this.
const HEADROOM_SECTORS_MAX: u64 = 128 * MIB_SECTORS;

/// Why an array cannot be made like this.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CreateError {
    /// The geometry cannot be run.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// More members than a superblock has room for.
    #[error(transparent)]
    TooManyRoles(#[from] TooManyRoles),
    /// The member ends before its data would.
    #[error(
        "the member has {member_sectors} sectors and needs {need_sectors}: {data_offset_sectors} before the data \
         and {size_sectors} of data; use a larger one or a smaller size"
    )]
    MemberTooSmall {
        /// Its size.
        member_sectors: u64,
        /// What it would need.
        need_sectors: u64,
        /// The part before the data.
        data_offset_sectors: u64,
        /// The data.
        size_sectors: u64,
    },
}

/// Sectors that mdadm sets aside for an internal bitmap on a member with this many (`choose_bm_space`):
/// 4 KiB, 64 KiB above 8 GiB, 128 KiB from 200 GiB.
#[must_use]
pub const fn bitmap_space_sectors(member_sectors: u64) -> u64 {
    if member_sectors < 128 {
        0
    } else if member_sectors - 128 >= 200 * GIB_SECTORS {
        256
    } else if member_sectors - 8 > 8 * GIB_SECTORS {
        128
    } else {
        8
    }
}

/// Where mdadm begins the data of a version 1.2 member of this size: metadata, bitmap and headroom, in whole
/// MiB.
///
/// The headroom is 128 MiB, halved until it is at most 1/1024 of the member, but not below two chunks.
#[must_use]
pub const fn default_data_offset_sectors(member_sectors: u64, chunk_sectors: u32) -> u64 {
    let chunk_sectors = chunk_sectors as u64;
    let mut headroom = HEADROOM_SECTORS_MAX;
    while headroom << 10 > member_sectors
        && headroom > 0
        && (chunk_sectors == 0 || headroom / 2 >= chunk_sectors * 2)
    {
        headroom >>= 1;
    }
    (BASE_METADATA_SECTORS + bitmap_space_sectors(member_sectors) + headroom).next_multiple_of(MIB_SECTORS)
}

/// An array about to be made: what all of its superblocks share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewArray {
    /// Its identity.
    pub array_uuid: Uuid,
    /// Its name, by custom "host:name".
    pub name: ArrayName,
    /// When.
    pub created: Timestamp,
    /// Its level.
    pub level: Level,
    /// Its layout: [`NewArray::default_layout`] unless there is a reason.
    pub layout: u32,
    /// Its chunk; 0 for level 1.
    pub chunk_sectors: u32,
    /// How much of each member it uses: a multiple of the chunk; 0 for level 0, which uses all.
    pub member_size_sectors: u64,
    /// Whether members already agree: contents all zero, or `--assume-clean`.
    pub in_sync: bool,
    /// By device number, active members first and in order; `Faulty` stands for the word `missing`.
    pub roles: Vec<Role>,
    /// Slots, missing ones too.
    pub raid_disks: u32,
}

/// One member of a new array: the fields that are its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewMember {
    /// Its entry in the roles.
    pub dev_number: u32,
    /// Its identity.
    pub device_uuid: Uuid,
    /// Its whole size.
    pub member_sectors: u64,
    /// Where its data begins; members may differ.
    pub data_offset_sectors: u64,
}

impl NewArray {
    /// The layout that mdadm gives an array of this level by default. For level 0 it only counts with
    /// [`Features::RAID0_LAYOUT`], which mdadm sets when members differ in whole chunks.
    #[must_use]
    pub const fn default_layout(level: Level) -> u32 {
        match level {
            Level::Raid0 => super::LAYOUT_RAID0_ORIGINAL,
            Level::Raid5 | Level::Raid6 => super::LAYOUT_LEFT_SYMMETRIC,
            Level::Raid1 | Level::Raid4 | Level::Other(_) => 0,
        }
    }

    /// How much of a member the array can use: whole chunks from the data offset on; whole blocks without
    /// chunks.
    #[must_use]
    pub fn usable_sectors(&self, member: &NewMember) -> u64 {
        let data_sectors = member.member_sectors.saturating_sub(member.data_offset_sectors);
        let unit_sectors =
            if self.chunk_sectors == 0 { BLOCK_BYTES / SECTOR_BYTES } else { self.chunk_sectors.into() };
        data_sectors - data_sectors % unit_sectors
    }

    /// The superblock of one member, with events at 0. It is checked to be one that can be run.
    pub fn superblock(&self, member: &NewMember) -> Result<Superblock, CreateError> {
        let need_sectors = member.data_offset_sectors.saturating_add(self.member_size_sectors.max(1));
        if need_sectors > member.member_sectors {
            return Err(CreateError::MemberTooSmall {
                member_sectors: member.member_sectors,
                need_sectors,
                data_offset_sectors: member.data_offset_sectors,
                size_sectors: self.member_size_sectors,
            });
        }
        let superblock = self.fill(member)?;
        superblock.check_supported()?;
        Ok(superblock)
    }

    fn fill(&self, member: &NewMember) -> Result<Superblock, TooManyRoles> {
        Ok(Superblock {
            features: Features::default(),
            array_uuid: self.array_uuid,
            name: self.name,
            created: self.created,
            level: self.level,
            layout: self.layout,
            member_size_sectors: self.member_size_sectors,
            chunk_sectors: self.chunk_sectors,
            raid_disks: self.raid_disks,
            bitmap_offset_sectors: 0,
            reshape: Reshape::default(),
            data_offset_sectors: member.data_offset_sectors,
            data_size_sectors: member.member_sectors - member.data_offset_sectors,
            super_offset_sectors: SUPERBLOCK_SECTOR,
            recovery_offset_sectors: 0,
            dev_number: member.dev_number,
            corrected_reads: 0,
            device_uuid: member.device_uuid,
            device_flags: DeviceFlags::default(),
            bad_blocks: self.bad_block_area(member.data_offset_sectors),
            updated: self.created,
            events: 0,
            resync_offset_sectors: if self.in_sync { IN_SYNC } else { 0 },
            logical_block_bytes: 0,
            roles: self.padded_roles()?,
            padding: [0; 32],
        })
    }

    /// After the space for a bitmap, or, if that does not fit, right before the data.
    fn bad_block_area(&self, data_offset_sectors: u64) -> BadBlockArea {
        let log_sectors = u64::from(BAD_BLOCK_LOG_SECTORS);
        let after_bitmap = BITMAP_OFFSET_SECTORS + bitmap_space_sectors(self.member_size_sectors);
        let before_data = data_offset_sectors.saturating_sub(SUPERBLOCK_SECTOR + log_sectors);
        if before_data < BITMAP_OFFSET_SECTORS {
            return BadBlockArea::default();
        }
        let offset_sectors = after_bitmap.min(before_data) as i32;
        BadBlockArea { shift: 0, size_sectors: BAD_BLOCK_LOG_SECTORS, offset_sectors }
    }

    /// The superblock ends on a sector: room for 128 roles, then for 256 more at a time; unused ones are
    /// spares.
    fn padded_roles(&self) -> Result<Roles, TooManyRoles> {
        const FIXED_BYTES: usize = super::raw::FIXED_BYTES;
        let bytes = (FIXED_BYTES + 2 * self.roles.len()).next_multiple_of(SECTOR_BYTES as usize);
        let mut roles = self.roles.clone();
        roles.resize((bytes - FIXED_BYTES) / 2, Role::Spare);
        Roles::new(roles)
    }
}
