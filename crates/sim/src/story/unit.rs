//! The devices of a story: present, past and future members, and spares.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use fastrand::Rng;
use stripewise_device::{
    Device,
    wrap::{Fault, Faults, Operation},
};
use stripewise_engine::geometry::Level;

use super::{Shape, Story};
use crate::{
    Manners, SimMember, Zeroes,
    check::{
        Checker, SECTOR_BYTES, Violation, image::header_copies, layout::ROW_BYTES,
        superblock::SUPERBLOCK_BYTES,
    },
};

/// A device of the story.
pub(super) struct Unit {
    pub(super) sim: Arc<SimMember>,
    pub(super) device: Arc<Fault<Arc<SimMember>>>,
    pub(super) faults: Arc<Faults>,
    /// Where its data begins.
    pub(super) data_offset_bytes: u64,
    /// It had a valid superblock, and no write of another one has begun since.
    pub(super) has_superblock: bool,
    /// Pages of the bitmap that have a valid copy on it.
    pub(super) pages: usize,
    /// Bytes ever written to it, by its header.
    pub(super) written_bytes: u64,
    /// Sectors of its data that were drawn as unreadable.
    pub(super) bad_sectors: Vec<u64>,
    /// Rows of its data that its bad-block log lists in part, or did at the last look.
    pub(super) listed: BTreeSet<usize>,
}

/// The part of a member that may be lost some time after an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doubt {
    /// All of it: it will fail a flush or a write.
    Whole,
    /// Some rows, which cannot be read.
    Rows(BTreeSet<usize>),
}

impl Doubt {
    /// Whether it is about a row.
    pub(super) fn is_of(&self, row: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::Rows(rows) => rows.contains(&row),
        }
    }
}

impl Unit {
    pub(super) fn name(&self) -> &str {
        &self.sim.info().name
    }

    /// A page that was valid once stays so, whatever happened to the write of another copy.
    pub(super) fn check_pages(&mut self, valid: usize) -> Result<(), Violation> {
        let before = std::mem::replace(&mut self.pages, valid);
        if before <= valid {
            return Ok(());
        }
        let what =
            format!("{} had {before} pages of the bitmap with a valid copy, and has {valid}", self.name());
        Err(Checker::Bitmap.violation(what))
    }

    /// The count of bytes written only grows. None: no header tells.
    pub(super) fn check_written(&mut self, written_bytes: Option<u64>) -> Result<(), Violation> {
        let Some(now) = written_bytes else { return Ok(()) };
        let before = std::mem::replace(&mut self.written_bytes, now);
        if before <= now {
            return Ok(());
        }
        let what = format!("{before} bytes were written to {}, and by now it says {now}", self.name());
        Err(Checker::Metadata.violation(what))
    }

    /// Whether no fault is pending.
    pub(super) fn is_sound(&self) -> bool {
        self.faults.is_quiet() && !self.sim.will_fail() && self.listed.is_empty()
    }

    /// Rows of its data with an unreadable sector, or one that its log lists.
    pub(super) fn bad_rows(&self) -> impl Iterator<Item = usize> {
        let cannot_be_read =
            |start: &&u64| self.faults.may_fail(Operation::Read, **start..**start + SECTOR_BYTES as u64);
        let row = |start: &u64| (start - self.data_offset_bytes) as usize / ROW_BYTES;
        self.bad_sectors.iter().filter(cannot_be_read).map(row).chain(self.listed.iter().copied())
    }

    /// The part of it that may be lost some time after an opening.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let fails = |operation| self.faults.may_fail(operation, 0..u64::MAX);
        if self.sim.will_fail() || fails(Operation::Write) || fails(Operation::Flush) {
            return Some(Doubt::Whole);
        }
        let rows: BTreeSet<usize> = self.bad_rows().collect();
        (!rows.is_empty()).then_some(Doubt::Rows(rows))
    }

    /// Whether an opening can recognise it as a member: its superblock and a copy of the header can be read.
    pub(super) fn can_be_examined(&self) -> bool {
        let can_be_read = |range: Range<u64>| !self.faults.may_fail(Operation::Read, range);
        can_be_read(SUPERBLOCK_BYTES) && header_copies(self.data_offset_bytes).into_iter().any(can_be_read)
    }

    /// Whether all of its metadata can be read.
    pub(super) fn tells_all(&self) -> bool {
        !self.faults.may_fail(Operation::Read, 0..self.data_offset_bytes)
    }

    /// Whether an opening must keep it if it is current: its only pending fault is unreadable metadata that
    /// has another copy.
    pub(super) fn stays(&self) -> bool {
        !self.faults.is_gone() && self.doubt().is_none() && self.can_be_examined()
    }

    /// Makes it as good as new before it is added to the array.
    pub(super) fn renew(&mut self, shape: &Shape) {
        self.faults.clear();
        self.sim.calm_down();
        self.bad_sectors.clear();
        self.listed.clear();
        self.has_superblock = false;
        self.pages = 0;
        self.written_bytes = 0;
        self.data_offset_bytes = shape.data_offset_bytes();
    }
}

/// The traits of a story's devices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hardware {
    /// How many of eight requests are done at once.
    at_once: u8,
    /// Some do not free zeroed ranges.
    some_do_not_unmap: bool,
    /// Some are larger than others.
    sizes_differ: bool,
    /// The data of some begins elsewhere.
    pub(super) offsets_differ: bool,
    /// Devices beside the members that the array is made with.
    pub(super) spares: usize,
}

/// How far the data of a member can be moved, where offsets differ.
pub(super) const SHIFT_BYTES_MAX: u64 = 512 << 10;

impl Hardware {
    pub(super) fn draw(rng: &mut Rng, shape: &Shape) -> Self {
        // Level 0 takes no members of different size, and data of some hundred megabytes is not moved.
        let may_differ = shape.level != Level::Raid0 && !shape.is_vast;
        Self {
            at_once: [0, 0, 4, 7][rng.usize(..4)],
            some_do_not_unmap: rng.u8(..3) == 0,
            sizes_differ: may_differ && rng.u8(..3) == 0,
            offsets_differ: may_differ && rng.u8(..6) == 0,
            spares: usize::from(shape.level != Level::Raid0 && rng.u8(..4) == 0),
        }
    }
}

impl Story {
    fn any_zeroes(&mut self) -> Zeroes {
        [Zeroes::Unmap, Zeroes::Unmap, Zeroes::Write, Zeroes::Refuse][self.hardware_rng.usize(..4)]
    }

    /// One more device.
    pub(super) fn new_unit(&mut self) {
        let (manners, hardware) = (self.draw_manners(), self.hardware);
        let spare_bytes = if hardware.sizes_differ { self.hardware_rng.u64(..16) * 4096 } else { 0 };
        let shift_bytes = if hardware.offsets_differ { SHIFT_BYTES_MAX } else { 0 };
        self.push_unit(self.shape.member_bytes() + spare_bytes + shift_bytes, manners);
    }

    /// One more device, of this size. Returns which unit it is.
    pub(super) fn new_unit_of(&mut self, size_bytes: u64) -> usize {
        let manners = self.draw_manners();
        self.push_unit(size_bytes, manners);
        self.units.len() - 1
    }

    fn draw_manners(&mut self) -> Manners {
        let (number, hardware) = (self.units.len(), self.hardware);
        let is_new = number >= self.shape.members;
        // One of the first members has the longest blocks, and devices added later have no longer ones.
        let long_blocks = number == 0 || !is_new && self.hardware_rng.bool();
        Manners {
            at_once: hardware.at_once,
            zeroes: if hardware.some_do_not_unmap { self.any_zeroes() } else { Zeroes::Unmap },
            tells: self.hardware_rng.u8(..4) != 0,
            block_bytes: if long_blocks { self.shape.block_bytes } else { SECTOR_BYTES as u32 },
        }
    }

    fn push_unit(&mut self, size_bytes: u64, manners: Manners) {
        // The name that the world's events use.
        let name = format!("m{}", self.world.member_count());
        let sim = self.world.add_member_with(name, size_bytes, manners);
        let (device, faults) = Fault::new(sim.clone());
        self.units.push(Unit {
            sim,
            device: Arc::new(device),
            faults,
            data_offset_bytes: self.shape.data_offset_bytes(),
            has_superblock: false,
            pages: 0,
            written_bytes: 0,
            bad_sectors: Vec::new(),
            listed: BTreeSet::new(),
        });
    }
}
