//! Devices that are examined for an array, and the members chosen from them.

use stripewise_format::{
    md::{Features, Superblock},
    media::SECTOR_BYTES,
};

use crate::{
    metadata::examine::Examination,
    shape::geometry::{Geometry, MemberIndex},
};

/// A device that was given but does not take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excluded {
    /// The device.
    pub name: String,
    /// Why, and what to do.
    pub reason: String,
}

/// A member that takes part: an index into what was examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Active { slot: MemberIndex, index: usize },
    Incoming { slot: MemberIndex, index: usize, done_sectors: u64 },
    Spare { index: usize },
}

impl Part {
    pub(super) fn index(&self) -> usize {
        let (Self::Active { index, .. } | Self::Incoming { index, .. } | Self::Spare { index }) = *self;
        index
    }
}

/// The members chosen, and the array that they make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The array's shape.
    pub geometry: Geometry,
    /// The member whose superblock is the newest.
    pub(crate) freshest: usize,
    pub(super) parts: Vec<Part>,
    /// Devices left out, with the reason.
    pub excluded: Vec<Excluded>,
    /// Members taken by force although they are not current, and why they are not.
    pub forced: Vec<Excluded>,
}

impl Chosen {
    /// The active member of a role, as an index into what was examined.
    pub(super) fn active(&self, slot: usize) -> Option<usize> {
        self.parts.iter().find_map(|part| match part {
            Part::Active { slot: s, index } if s.0 == slot => Some(*index),
            _ => None,
        })
    }

    /// Whether the active members are enough for all the data to be there.
    pub(super) fn has_enough(&self) -> bool {
        self.geometry.survives(|slot| self.active(slot.0).is_none())
    }

    /// Roles that have an active member.
    pub(super) fn active_count(&self) -> usize {
        (0..self.geometry.members()).filter(|slot| self.active(*slot).is_some()).count()
    }
}

/// The device's name.
pub(super) fn name(examination: &Examination) -> String {
    examination.device.info().name.clone()
}

/// A field in which two superblocks differ but must agree, whichever is newer.
pub(super) fn shape_difference(a: &Superblock, b: &Superblock) -> Option<&'static str> {
    let differences = [
        (a.created.seconds() != b.created.seconds(), "time of creation"),
        (a.level != b.level, "level"),
        (a.layout != b.layout, "layout"),
        (a.chunk_sectors != b.chunk_sectors, "chunk"),
        (a.raid_disks != b.raid_disks, "number of members"),
        (a.member_size_sectors != b.member_size_sectors, "member size"),
    ];
    differences.iter().find(|(differs, _)| *differs).map(|(_, field)| *field)
}

/// Refuses a member whose device has become too short: it is not trusted with anything.
pub(super) fn check_size(examination: &Examination, geometry: &Geometry) -> Result<(), String> {
    let have = examination.device.info().size_bytes;
    let start = examination.superblock.data_offset_sectors.checked_mul(SECTOR_BYTES);
    match start.and_then(|start| start.checked_add(geometry.member_bytes())) {
        Some(end) if end <= have => Ok(()),
        Some(end) => Err(format!("truncated: it has {have} bytes and its part of the array ends at {end}")),
        None => {
            Err("its part of the array would lie beyond all addresses; its superblock is damaged".to_owned())
        }
    }
}

/// Refuses a member whose bad blocks cannot be told from good ones.
pub(super) fn check_bad_blocks(examination: &Examination) -> Result<(), String> {
    if examination.superblock.features.contains(Features::BAD_BLOCKS) && examination.bad_blocks.is_none() {
        return Err("its superblock says that it has bad blocks, and its log of them is nowhere that md would look; add \
                    it anew to use it"
            .to_owned());
    }
    Ok(())
}
