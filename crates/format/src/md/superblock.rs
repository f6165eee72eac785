//! The superblock as a valid value: decoded from a member's block, encoded to one.
//!
//! [`Superblock::decode`] makes the same checks as the kernel's `super_1_load`. A superblock that passes may
//! still describe an array that no engine here can run: [`Superblock::check_supported`] is the second step.

use std::ops::Range;

use thiserror::Error;
use uuid::Uuid;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use super::fields::{ArrayName, DeviceFlags, Level, Role, Roles, Timestamp};
use super::raw::{FIXED_BYTES, MAX_DEVICES, RawSuperblock, SUPERBLOCK_MAGIC, checksum};
use super::{Features, bitmap::BitmapSuperblock};
use crate::media::{BLOCK_LEN, Block, SECTOR_BYTES};

/// Where metadata version 1.2 keeps the superblock: 4 KiB into the member.
pub const SUPERBLOCK_SECTOR: u64 = 8;

/// `resync_offset` of an array whose members all agree (`MaxSector`).
pub const IN_SYNC: u64 = u64::MAX;

/// Why a block is not a credible md superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SuperblockError {
    /// Fewer bytes than the superblock says it has.
    #[error("the superblock needs {need} bytes and only {have} were read; read the whole 4096-byte block")]
    TooShort {
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// No md superblock at all.
    #[error(
        "no md superblock here: found magic {found:#010x}, not {SUPERBLOCK_MAGIC:#010x}; is this a member?"
    )]
    NoMagic {
        /// The bytes in the magic's place.
        found: u32,
    },
    /// A version other than 1.
    #[error("md metadata major version {found} is not known (only 1 is); use the mdadm that made this array")]
    MajorVersion {
        /// The version found.
        found: u32,
    },
    /// More roles than the block can hold.
    #[error(
        "the superblock claims {found} device numbers, more than {MAX_DEVICES}; it is damaged: use other members"
    )]
    MaxDevices {
        /// `max_dev` as found.
        found: u32,
    },
    /// The checksum does not match.
    #[error(
        "md superblock checksum is {stored:#010x} but its bytes sum to {computed:#010x}: it is damaged or was torn \
         by a crash; assemble from the other members"
    )]
    Checksum {
        /// `sb_csum` as found.
        stored: u32,
        /// The sum over the bytes found.
        computed: u32,
    },
    /// A copy of a superblock that belongs elsewhere.
    #[error(
        "the superblock says it lies at sector {recorded} but was read from sector {read_at}: \
         the member was copied or cut; give the device or partition that the array was made on"
    )]
    Misplaced {
        /// `super_offset`, in sectors.
        recorded: u64,
        /// Where it was read.
        read_at: u64,
    },
}

/// The fields of a reshape. Meaningful with [`Features::RESHAPE_ACTIVE`] only; kept in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reshape {
    /// `new_level`, md's number.
    pub new_level: i32,
    /// `reshape_position`: sectors of the array already (or, backwards, still) in place.
    pub position_sectors: u64,
    /// `delta_disks`: members added or, negative, taken away.
    pub delta_disks: i32,
    /// `new_layout`.
    pub new_layout: u32,
    /// `new_chunk`.
    pub new_chunk_sectors: u32,
    /// `new_offset`: how far the data's start moves.
    pub new_offset_sectors: i32,
}

/// Where the bad-block log lies. It has entries only with [`Features::BAD_BLOCKS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BadBlockArea {
    /// `bblog_shift`: entries count units of `512 << shift` bytes.
    pub shift: u8,
    /// `bblog_size`; 0: there is no log.
    pub size_sectors: u16,
    /// `bblog_offset`, from the superblock.
    pub offset_sectors: i32,
}

/// Where the partial-parity log lies: the other reading of `bitmap_offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PplArea {
    /// From the superblock.
    pub offset_sectors: i16,
    /// Its length.
    pub size_sectors: u16,
}

/// A range of a member, in sectors from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectorExtent {
    /// First sector.
    pub start_sector: u64,
    /// How many.
    pub length_sectors: u64,
}

impl SectorExtent {
    /// Whether the two share a sector.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start_sector < other.start_sector.saturating_add(other.length_sectors)
            && other.start_sector < self.start_sector.saturating_add(self.length_sectors)
    }
}

/// One member's md superblock, version 1.x.
///
/// All fields are as on disk; the methods say what they mean together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// `feature_map`.
    pub features: Features,
    /// `set_uuid`: the array's identity.
    pub array_uuid: Uuid,
    /// `set_name`.
    pub name: ArrayName,
    /// `ctime`: when the array was made.
    pub created: Timestamp,
    /// `level`.
    pub level: Level,
    /// `layout`: how parity moves (levels 4, 5, 6) or how unequal members are striped (level 0).
    pub layout: u32,
    /// `size`: how much of each member the array uses, from `data_offset` on. 0 for level 0.
    pub member_size_sectors: u64,
    /// `chunksize`. 0 for level 1.
    pub chunk_sectors: u32,
    /// `raid_disks`: slots of the array.
    pub raid_disks: u32,
    /// `bitmap_offset`, from the superblock; read it by [`Superblock::bitmap_sector`] or [`Superblock::ppl`].
    pub bitmap_offset_sectors: i32,
    /// The reshape's fields.
    pub reshape: Reshape,
    /// `data_offset`: where the array's data begins on this member.
    pub data_offset_sectors: u64,
    /// `data_size`: sectors from there to the end of the space for data.
    pub data_size_sectors: u64,
    /// `super_offset`: where this superblock lies.
    pub super_offset_sectors: u64,
    /// `recovery_offset`: with [`Features::RECOVERY_OFFSET`], only the data before it is good. A journal
    /// device keeps its tail here.
    pub recovery_offset_sectors: u64,
    /// `dev_number`: which entry of `roles` is this member's.
    pub dev_number: u32,
    /// `cnt_corrected_read`.
    pub corrected_reads: u32,
    /// `device_uuid`: the member's identity.
    pub device_uuid: Uuid,
    /// `devflags`.
    pub device_flags: DeviceFlags,
    /// The bad-block log's place.
    pub bad_blocks: BadBlockArea,
    /// `utime`: when this superblock was written.
    pub updated: Timestamp,
    /// `events`: grows with each change of the array's state; the highest is current.
    pub events: u64,
    /// `resync_offset`: parity and copies agree before it; [`IN_SYNC`] when everywhere.
    pub resync_offset_sectors: u64,
    /// `logical_block_size` in bytes; 0 from kernels before 6.18 and from mdadm.
    pub logical_block_bytes: u32,
    /// `dev_roles`, `max_dev` of them.
    pub roles: Roles,
    /// `pad0` and `pad3`: zero, or the kernel refuses the superblock.
    pub padding: [u8; 32],
}

impl Superblock {
    /// Parses the superblock in `block` (4096 bytes; more is ignored), which was read from `read_at_sector`.
    pub fn decode(block: &[u8], read_at_sector: u64) -> Result<Self, SuperblockError> {
        let too_short = |need| SuperblockError::TooShort { have: block.len(), need };
        let (raw, rest) = RawSuperblock::ref_from_prefix(block).map_err(|_| too_short(FIXED_BYTES))?;
        check_head(raw)?;
        let max_dev = raw.max_dev.get() as usize;
        let need = FIXED_BYTES + 2 * max_dev;
        let covered = block.get(..need).ok_or(too_short(need))?;
        check_sum(raw, covered)?;
        if raw.super_offset.get() != read_at_sector {
            return Err(SuperblockError::Misplaced {
                recorded: raw.super_offset.get(),
                read_at: read_at_sector,
            });
        }
        let roles = rest.chunks_exact(2).take(max_dev).map(|role| u16::from_le_bytes([role[0], role[1]]));
        Ok(Self::from_raw(raw, roles.map(Role::from_number).collect()))
    }

    /// The superblock's block, checksum and all. Bytes after the roles are zero.
    #[must_use]
    pub fn encode(&self) -> Block {
        let mut block = [0; BLOCK_LEN];
        let (fixed, roles) = block.split_at_mut(FIXED_BYTES);
        fixed.copy_from_slice(self.to_raw().as_bytes());
        for (place, role) in roles.chunks_exact_mut(2).zip(self.roles.as_slice()) {
            place.copy_from_slice(U16::new(role.number()).as_bytes());
        }
        let sum = checksum(&block[..FIXED_BYTES + 2 * self.roles.as_slice().len()]);
        let at = core::mem::offset_of!(RawSuperblock, sb_csum);
        block[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// This member's own role; a spare if its number has no entry, as in the kernel.
    #[must_use]
    pub fn role(&self) -> Role {
        self.roles.of(self.dev_number).unwrap_or(Role::Spare)
    }

    /// Whether members agree everywhere: nothing to resync.
    #[must_use]
    pub const fn is_in_sync(&self) -> bool {
        self.resync_offset_sectors == IN_SYNC
    }

    /// The sector of md's internal bitmap on this member, where there is one and the offset makes sense.
    #[must_use]
    pub fn bitmap_sector(&self) -> Option<u64> {
        let bitmap = self.features.contains(Features::BITMAP_OFFSET);
        let offset = i64::from(self.bitmap_offset_sectors);
        if bitmap { self.super_offset_sectors.checked_add_signed(offset) } else { None }
    }

    /// The partial-parity log's place, where there is one.
    #[must_use]
    pub fn ppl(&self) -> Option<PplArea> {
        let either = self.features.contains(Features::PPL) || self.features.contains(Features::MULTIPLE_PPLS);
        let area = PplArea {
            offset_sectors: self.bitmap_offset_sectors as i16,
            size_sectors: (self.bitmap_offset_sectors >> 16) as u16,
        };
        either.then_some(area)
    }

    /// The bad-block log's sectors on this member, where room is set aside for one.
    #[must_use]
    pub fn bad_block_extent(&self) -> Option<SectorExtent> {
        let BadBlockArea { size_sectors, offset_sectors, .. } = self.bad_blocks;
        let start_sector = self.super_offset_sectors.checked_add_signed(i64::from(offset_sectors))?;
        let extent = SectorExtent { start_sector, length_sectors: u64::from(size_sectors) };
        (size_sectors > 0 && offset_sectors != 0).then_some(extent)
    }

    /// The bad-block log's bytes on this member. None if no room is set aside for one, if it would lie in the
    /// data, or if a device with logical blocks of this size could not write it.
    #[must_use]
    pub fn bad_block_place(&self, logical_block_bytes: u32) -> Option<Range<u64>> {
        let SectorExtent { start_sector, length_sectors } = self.bad_block_extent()?;
        let start = start_sector.checked_mul(SECTOR_BYTES)?;
        let end = start.checked_add(length_sectors * SECTOR_BYTES)?;
        let is_aligned = (start | end).is_multiple_of(logical_block_bytes.into());
        (is_aligned && end <= self.data_offset_sectors.saturating_mul(SECTOR_BYTES)).then_some(start..end)
    }

    /// Everything md keeps on this member besides data: superblock, bitmap (its length from `bitmap`, else
    /// the minimum), bad-block log.
    pub fn metadata_extents(&self, bitmap: Option<&BitmapSuperblock>) -> impl Iterator<Item = SectorExtent> {
        let block_sectors = BLOCK_LEN as u64 / SECTOR_BYTES;
        let own = SectorExtent { start_sector: self.super_offset_sectors, length_sectors: block_sectors };
        let bitmap_sectors =
            bitmap.map_or(block_sectors, |bitmap| bitmap.total_bytes().div_ceil(SECTOR_BYTES));
        let bitmap = self
            .bitmap_sector()
            .map(|start_sector| SectorExtent { start_sector, length_sectors: bitmap_sectors });
        [Some(own), bitmap, self.bad_block_extent()].into_iter().flatten()
    }

    /// Members whose contents are the array's data, not parity or copies. None where the level has no such
    /// number.
    #[must_use]
    pub fn data_members(&self) -> Option<u32> {
        match self.level {
            Level::Raid0 => Some(self.raid_disks),
            Level::Raid1 => Some(1),
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                self.raid_disks.checked_sub(self.level.parity_members()).filter(|members| *members > 0)
            }
            Level::Other(_) => None,
        }
    }

    /// The array's size. None if one superblock does not tell it (level 0: members may differ) or it
    /// overflows.
    #[must_use]
    pub fn array_size_sectors(&self) -> Option<u64> {
        if self.level == Level::Raid0 {
            return None;
        }
        let whole_chunks = match self.chunk_sectors {
            0 => self.member_size_sectors,
            chunk => self.member_size_sectors - self.member_size_sectors % u64::from(chunk),
        };
        whole_chunks.checked_mul(u64::from(self.data_members()?))
    }

    fn from_raw(raw: &RawSuperblock, roles: Vec<Role>) -> Self {
        let mut padding = [0; 32];
        padding[..4].copy_from_slice(raw.pad0.as_bytes());
        padding[4..].copy_from_slice(&raw.pad3);
        Self {
            features: Features::from_bits(raw.feature_map.get()),
            array_uuid: Uuid::from_bytes(raw.set_uuid),
            name: ArrayName::from_bytes(raw.set_name),
            created: Timestamp::from_raw(raw.ctime.get()),
            level: Level::from_number(raw.level.get().cast_signed()),
            layout: raw.layout.get(),
            member_size_sectors: raw.size.get(),
            chunk_sectors: raw.chunksize.get(),
            raid_disks: raw.raid_disks.get(),
            bitmap_offset_sectors: raw.bitmap_offset.get().cast_signed(),
            reshape: Reshape {
                new_level: raw.new_level.get().cast_signed(),
                position_sectors: raw.reshape_position.get(),
                delta_disks: raw.delta_disks.get().cast_signed(),
                new_layout: raw.new_layout.get(),
                new_chunk_sectors: raw.new_chunk.get(),
                new_offset_sectors: raw.new_offset.get().cast_signed(),
            },
            data_offset_sectors: raw.data_offset.get(),
            data_size_sectors: raw.data_size.get(),
            super_offset_sectors: raw.super_offset.get(),
            recovery_offset_sectors: raw.recovery_offset.get(),
            dev_number: raw.dev_number.get(),
            corrected_reads: raw.cnt_corrected_read.get(),
            device_uuid: Uuid::from_bytes(raw.device_uuid),
            device_flags: DeviceFlags(raw.devflags),
            bad_blocks: BadBlockArea {
                shift: raw.bblog_shift,
                size_sectors: raw.bblog_size.get(),
                offset_sectors: raw.bblog_offset.get().cast_signed(),
            },
            updated: Timestamp::from_raw(raw.utime.get()),
            events: raw.events.get(),
            resync_offset_sectors: raw.resync_offset.get(),
            logical_block_bytes: raw.logical_block_size.get(),
            // `check_head` has bounded max_dev.
            roles: Roles::new(roles).unwrap_or_default(),
            padding,
        }
    }

    fn to_raw(&self) -> RawSuperblock {
        let mut raw = RawSuperblock {
            magic: SUPERBLOCK_MAGIC.into(),
            major_version: 1.into(),
            feature_map: self.features.bits().into(),
            pad0: 0.into(),
            set_uuid: self.array_uuid.into_bytes(),
            set_name: *self.name.as_bytes(),
            ctime: self.created.raw().into(),
            level: self.level.number().cast_unsigned().into(),
            layout: self.layout.into(),
            size: self.member_size_sectors.into(),
            chunksize: self.chunk_sectors.into(),
            raid_disks: self.raid_disks.into(),
            bitmap_offset: self.bitmap_offset_sectors.cast_unsigned().into(),
            new_level: self.reshape.new_level.cast_unsigned().into(),
            reshape_position: self.reshape.position_sectors.into(),
            delta_disks: self.reshape.delta_disks.cast_unsigned().into(),
            new_layout: self.reshape.new_layout.into(),
            new_chunk: self.reshape.new_chunk_sectors.into(),
            new_offset: self.reshape.new_offset_sectors.cast_unsigned().into(),
            data_offset: self.data_offset_sectors.into(),
            data_size: self.data_size_sectors.into(),
            super_offset: self.super_offset_sectors.into(),
            recovery_offset: self.recovery_offset_sectors.into(),
            dev_number: self.dev_number.into(),
            cnt_corrected_read: self.corrected_reads.into(),
            device_uuid: self.device_uuid.into_bytes(),
            devflags: self.device_flags.0,
            bblog_shift: self.bad_blocks.shift,
            bblog_size: self.bad_blocks.size_sectors.into(),
            bblog_offset: self.bad_blocks.offset_sectors.cast_unsigned().into(),
            utime: self.updated.raw().into(),
            events: self.events.into(),
            resync_offset: self.resync_offset_sectors.into(),
            sb_csum: 0.into(),
            max_dev: self.roles.max_dev().into(),
            logical_block_size: self.logical_block_bytes.into(),
            pad3: [0; 28],
        };
        raw.pad0.as_mut_bytes().copy_from_slice(&self.padding[..4]);
        raw.pad3.copy_from_slice(&self.padding[4..]);
        raw
    }
}

fn check_head(raw: &RawSuperblock) -> Result<(), SuperblockError> {
    match (raw.magic.get(), raw.major_version.get(), raw.max_dev.get()) {
        (SUPERBLOCK_MAGIC, 1, ..=MAX_DEVICES) => Ok(()),
        (SUPERBLOCK_MAGIC, 1, found) => Err(SuperblockError::MaxDevices { found }),
        (SUPERBLOCK_MAGIC, found, _) => Err(SuperblockError::MajorVersion { found }),
        (found, _, _) => Err(SuperblockError::NoMagic { found }),
    }
}

fn check_sum(raw: &RawSuperblock, covered: &[u8]) -> Result<(), SuperblockError> {
    let (stored, computed) = (raw.sb_csum.get(), checksum(covered));
    if stored == computed { Ok(()) } else { Err(SuperblockError::Checksum { stored, computed }) }
}
