//! A member that keeps nothing of what is written to it: blocks that are written back and still cannot be
//! read count as failed reads do.

use stripewise_device::{
    IoErrorKind,
    wrap::{FaultRule, Operation},
};

use super::{
    Story,
    worn::{HEALING_ROUNDS, HEALING_TIME, READ_ERRORS_MAX},
};
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

impl Story {
    /// None of a member's data can be read, whatever is written there: the member is dropped once its failed
    /// reads and unkept blocks exceed the limit, and not before.
    pub(super) fn keep_nothing(&mut self) -> Result<(), Violation> {
        let role = self.side_rng.usize(..self.shape.members);
        let blocks = self.block_of_each_chunk(role);
        if !self.shape.level.has_parity() || blocks.is_empty() {
            return Ok(());
        }
        let unit = self.units_by_role()[role];
        self.read_nothing_of(unit);
        // Reads that failed since the opening count, too.
        let mut counted = self.report_of(unit)?.read_errors;
        for first in blocks.into_iter().cycle() {
            self.check_sectors(&(first..first + ROW_BYTES / SECTOR_BYTES))?;
            // The read, and then each block of the chunk.
            counted += 1 + self.shape.chunk_bytes / ROW_BYTES as u32;
            self.world.run_for(self.shape.tuning.housekeeping_interval * HEALING_ROUNDS + HEALING_TIME);
            if !self.expect_dropped_if(unit, counted)? {
                break;
            }
        }
        self.units[unit].faults.clear();
        self.add_again(unit)?;
        self.expect_whole("a member that kept nothing was added again as a new one")
    }

    /// No read of a member's data succeeds from now on.
    fn read_nothing_of(&mut self, unit: usize) {
        self.say(|story| {
            format!("{} cannot read its data, nor keep what is written", story.units[unit].name())
        });
        let start = self.units[unit].data_offset_bytes;
        self.units[unit].faults.add(FaultRule {
            operation: Operation::Read,
            range_bytes: start..start + self.shape.data_bytes,
            kind: IoErrorKind::Medium,
            times: u32::MAX,
            healed_by_write: false,
        });
    }

    /// Whether a member is in sync, which it stays until more failures count than the limit. At least
    /// `counted` count: blocks that had gone bad before may add to them.
    fn expect_dropped_if(&self, unit: usize, counted: u32) -> Result<bool, Violation> {
        let is_in_sync = self.expect_in_sync_while_few(unit)?;
        if is_in_sync && counted > READ_ERRORS_MAX {
            let what = format!(
                "{} failed reads, or did not keep blocks, {counted} times, and is in sync",
                self.units[unit].name()
            );
            return Err(Checker::Service.violation(what));
        }
        Ok(is_in_sync)
    }
}
