//! Latent errors: sectors that cannot be read, once or until they are written, of a member's data or of its metadata.

use std::ops::Range;

use stripewise_device::{
    IoErrorKind,
    wrap::{FaultRule, Operation},
};

use super::{Story, Unit};
use crate::check::{
    SECTOR_BYTES,
    image::{SUPERBLOCK_BYTES, header_copies, page_slots},
};

/// One latent error in so many is of metadata.
const METADATA_ONE_IN: u32 = 4;

impl Unit {
    /// Whether an opening can tell that it is a member: it has a superblock that can be read, and a copy of the header.
    pub(super) fn can_be_examined(&self) -> bool {
        let can_be_read = |range: Range<u64>| !self.faults.may_fail(Operation::Read, range);
        can_be_read(SUPERBLOCK_BYTES) && header_copies(self.data_offset_bytes).into_iter().any(can_be_read)
    }

    /// Whether an opening must keep it if it is current: nothing bad is to be expected of it but metadata that cannot be
    /// read and has another copy.
    pub(super) fn stays(&self) -> bool {
        !self.faults.is_gone()
            && !self.sim.will_fail()
            && !self.faults.may_fail(Operation::Write, 0..u64::MAX)
            && !self.is_doubtful()
            && self.can_be_examined()
    }
}

impl Story {
    /// A sector of a member cannot be read, once or until it is written.
    pub(super) fn latent_error(&mut self) {
        // Not in the hole: a bad block there is beyond what is promised.
        if !self.hole.is_empty() {
            return;
        }
        let Some(unit) = self.victim() else { return };
        let data_sector = self.rng.u64(..self.shape.data_bytes / SECTOR_BYTES as u64);
        let data_start = self.shape.data_offset_bytes() + data_sector * SECTOR_BYTES as u64;
        let start = self.metadata_sector(unit).unwrap_or(data_start);
        let times = if self.side_rng.bool() { 1 } else { u32::MAX };
        self.units[unit].faults.add(FaultRule {
            operation: Operation::Read,
            range_bytes: start..start + SECTOR_BYTES as u64,
            kind: IoErrorKind::Medium,
            times,
            healed_by_write: true,
        });
        self.say(|story| {
            let until = if times == 1 { "once" } else { "until it is written" };
            format!("{} cannot read the sector at byte {start}, {until}", story.units[unit].name())
        });
    }

    /// Where the error lies if it is one of metadata.
    fn metadata_sector(&mut self, unit: usize) -> Option<u64> {
        if self.side_rng.u32(..METADATA_ONE_IN) != 0 {
            return None;
        }
        let pages = page_slots(&self.units[unit].sim.bytes())?;
        let mut blocks = vec![SUPERBLOCK_BYTES];
        blocks.extend(header_copies(self.shape.data_offset_bytes()));
        blocks.extend(pages);
        let block = &blocks[self.side_rng.usize(..blocks.len())];
        let sectors = (block.end - block.start) / SECTOR_BYTES as u64;
        Some(block.start + self.side_rng.u64(..sectors) * SECTOR_BYTES as u64)
    }
}
