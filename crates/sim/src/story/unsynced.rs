//! A row that a resync cannot read just then: it is not forgotten, and is made to agree once it can be read.

use std::ops::Range;

use super::Story;
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// Sectors of a row.
const ROW_SECTORS: usize = ROW_BYTES / SECTOR_BYTES;
/// Rounds of housekeeping after which an incomplete resync is tried again.
const RETRY_ROUNDS: u32 = 620;
/// Rounds after which written regions are clean again.
const QUIET_ROUNDS: u32 = 30;
/// Events that pass while another program has the array.
const EVENTS: u64 = 4;

impl Story {
    /// Another program leaves an array without stopping it, with a row whose parity is wrong and in which one
    /// member's log lists a sector. Another member cannot read its block there while the array is resynced.
    pub(super) fn leave_a_row_unsynced(&mut self) -> Result<(), Violation> {
        let layout = self.layout();
        let has_others = self.shape.tolerance() == 1 && self.shape.members > 2;
        if !self.shape.level.has_parity() || !has_others || self.shape.is_vast {
            return Ok(());
        }
        let row = self.side_rng.usize(..layout.rows());
        let serving = self.units_by_role();
        let parity = layout.parity_role(layout.stripe_of_row(row));
        let mut others: Vec<usize> = (0..serving.len()).filter(|role| *role != parity).collect();
        self.side_rng.shuffle(&mut others);
        let (listing, failing) = (serving[others[0]], serving[others[1]]);
        self.flush_all()?;
        self.stop()?;
        let first = (row * ROW_SECTORS) as u64;
        let grain = u64::from(self.shape.block_bytes) / SECTOR_BYTES as u64;
        self.list_sectors(listing, std::slice::from_ref(&(first..first + grain)));
        if self.units[listing].listed.is_empty() || grain as usize >= ROW_SECTORS {
            return self.open_again();
        }
        self.spoil(serving[parity], row, ROW_BYTES - 1);
        let start = self.units[failing].data_offset_bytes + (row * ROW_BYTES) as u64;
        self.cannot_read(failing, start, u32::MAX);
        for unit in serving {
            self.rewrite_superblock(unit, |block| block.advance(EVENTS, false));
            self.renew_md_bitmap(unit, true);
        }
        self.is_foreign = true;
        self.say(|_| format!("another program leaves row {row} wrong and does not stop the array"));
        self.open_plainly()?;
        self.is_foreign = false;
        self.wait_for_jobs()?;
        self.units[failing].faults.clear();
        // The block with the listed sector is recovered from parity that may be wrong.
        self.hole.insert(row);
        self.forgive_hole(|role, _| role == others[0]);
        self.hole.clear();
        self.flush_all()?;
        self.lose_power()?;
        let due = self.with_image(|image, _| image.rows_due()).flatten();
        if due.is_some_and(|due| !due.contains(&row)) {
            let what = format!("row {row} could not be read, and no resync is due there any more");
            return Err(Checker::Bitmap.violation(what));
        }
        self.open_again()
    }

    /// Power fails, and for a while more members than the level tolerates cannot read a row that must be
    /// resynced: it is resynced some time after they can.
    pub(super) fn leave_a_row_for_later(&mut self) -> Result<(), Violation> {
        if !self.shape.level.has_parity() {
            return Ok(());
        }
        let block = self.any_block();
        self.write_well(&block)?;
        self.flush_all()?;
        let failing = self.units_by_role();
        self.lose_power()?;
        let row = self.layout().place(block.start * SECTOR_BYTES).offset_bytes;
        for unit in failing.iter().take(self.shape.tolerance() + 1) {
            let start = self.units[*unit].data_offset_bytes + row as u64;
            self.cannot_read(*unit, start, u32::MAX);
        }
        self.open_plainly()?;
        self.wait_for_jobs()?;
        failing.iter().for_each(|unit| self.units[*unit].faults.clear());
        self.world.run_for(self.shape.tuning.housekeeping_interval * RETRY_ROUNDS);
        self.wait_for_jobs()?;
        let all = 0..self.array().geometry().stripes();
        if self.array().stripes(all).iter().any(|stripe| !stripe.synced) {
            let what = "what a resync could not read can be read again, and is not resynced";
            return Err(Checker::Service.violation(what));
        }
        self.expect_whole("a row that could not be resynced could be read again")
    }

    /// Power fails, and a write precedes the resync of its stripe, in which one row has wrong parity. A
    /// member cannot read another row there, and the readable data must stay as it is.
    pub(super) fn write_in_doubt(&mut self) -> Result<(), Violation> {
        let chunk = self.shape.chunk_bytes as usize / SECTOR_BYTES;
        let layout = self.layout();
        if !self.shape.level.has_parity() || chunk < 2 * ROW_SECTORS {
            return Ok(());
        }
        // Part of the last row of a chunk, and the beginning of the next chunk of its stripe.
        let grain = self.shape.block_bytes as usize / SECTOR_BYTES;
        let ends: Vec<usize> = (self.blocks().iter().map(|block| block.end))
            .filter(|end| end % chunk == 0 && !(end * SECTOR_BYTES).is_multiple_of(layout.stripe_bytes()))
            .filter(|end| self.desk.windows.iter().any(|window| window.contains(&(end + grain - 1))))
            .collect();
        let Some(end) = self.side_rng.choice(ends) else { return Ok(()) };
        let write = end - grain..end + grain;
        self.write_well(&write)?;
        self.flush_all()?;
        let serving = self.units_by_role();
        self.lose_power()?;
        let place = layout.place((end - chunk) * SECTOR_BYTES);
        let last_row = layout.place((end - 1) * SECTOR_BYTES).offset_bytes / ROW_BYTES;
        let parity = layout.parity_role(layout.stripe_of_row(last_row));
        self.spoil(serving[parity], last_row, 0);
        let start = self.units[serving[place.role]].data_offset_bytes + place.offset_bytes as u64;
        self.cannot_read(serving[place.role], start, u32::MAX);
        self.open_plainly()?;
        self.array().pause_jobs();
        self.write_well(&write)?;
        self.array().resume_jobs();
        self.wait_for_jobs()?;
        self.units[serving[place.role]].faults.clear();
        self.expect_mended(last_row, "a write came before the resync of its stripe")
    }

    /// Power fails, and leaves a row whose parity is wrong. Jobs wait in the next opening; then either the
    /// array is stopped before the resync, or a block of the row is written and its member is lost.
    pub(super) fn leave_in_doubt(&mut self) -> Result<(), Violation> {
        if !self.shape.level.has_parity() {
            return Ok(());
        }
        let block = self.any_block();
        let stops = self.side_rng.u8(..3) == 0;
        // Regions around it then need no resync.
        self.flush_all()?;
        self.world.run_for(self.shape.tuning.housekeeping_interval * QUIET_ROUNDS);
        self.write_well(&block)?;
        self.flush_all()?;
        let serving = self.units_by_role();
        self.lose_power()?;
        let (layout, place) = (self.layout(), self.layout().place(block.start * SECTOR_BYTES));
        let row = place.offset_bytes / ROW_BYTES;
        self.spoil(serving[layout.parity_role(layout.stripe_of_row(row))], row, 0);
        self.open_plainly()?;
        self.array().pause_jobs();
        if stops {
            self.say(|_| format!("row {row} is wrong, and the array is stopped before it was resynced"));
            self.stop()?;
            self.open_plainly()?;
            return self.expect_mended(row, "a resync was cut short by a stop");
        }
        self.write_well(&block)?;
        if let Some(unit) = self.unit_of_role(place.role) {
            self.fail_calmly(unit)?;
            self.check_sectors(&block)?;
            self.add_again(unit)?;
        }
        self.array().resume_jobs();
        self.expect_mended(row, "a member was lost that had been written to before the resync")
    }

    /// Expects a whole array, in which a row with wrong parity was mended.
    fn expect_mended(&mut self, row: usize, why: &str) -> Result<(), Violation> {
        self.expect_whole(why)?;
        // Until the next flush, a power failure may take back what was written to the row.
        self.hole.insert(row);
        Ok(())
    }

    /// Writes a block; the write must succeed.
    pub(super) fn write_well(&mut self, block: &Range<usize>) -> Result<(), Violation> {
        self.try_write(block)?.map_err(|error| Checker::Service.violation(format!("a write: {error}")))?;
        // What this is for shall happen to members.
        if self.was_cached { self.flush_all() } else { Ok(()) }
    }

    fn open_again(&mut self) -> Result<(), Violation> {
        self.open_plainly()?;
        self.wait_for_jobs()?;
        self.expect_unlisted()?;
        self.expect_whole("a row that could not be resynced was left for later")
    }

    /// Flips a bit in a unit's row.
    pub(super) fn spoil(&mut self, unit: usize, row: usize, in_row: usize) {
        let unit = &self.units[unit];
        let at = unit.data_offset_bytes + (row * ROW_BYTES + in_row) as u64;
        let right = unit.sim.bytes()[at as usize];
        unit.sim.poke(at, &[right ^ 1]);
    }
}
