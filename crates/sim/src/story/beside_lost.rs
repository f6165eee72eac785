//! The neighbours of lost rows: a recoverable block is healed although its chunk has a lost one, and the
//! bad-block logs list exactly what the array calls unreadable.

use std::{collections::BTreeSet, ops::Range};

use stripewise_engine::{ArrayReport, MemberState};

use super::{Story, lost::Lost};
use crate::check::{
    Checker, SECTOR_BYTES, Violation,
    layout::ROW_BYTES,
    listed::{has_log, listed_bytes},
};

/// Stripes of a long write: more than the engine writes at once.
const LONG_STRIPES: usize = 20;
/// Rounds of housekeeping after which the engine tries again to heal a block that it could not heal.
const RETRY_ROUNDS: u32 = 600;

impl Story {
    /// One more block goes bad, in a chunk with a lost block, and is read.
    pub(super) fn heal_beside_lost(&mut self, lost: &Lost) -> Result<(), Violation> {
        let array = self.array().clone();
        let stripes = array.stripes(0..array.geometry().stripes());
        // A stripe that a resync could not make agree waits for the next one.
        let is_synced = |block: &Range<usize>| {
            let row = lost.layout.place(block.start * SECTOR_BYTES).offset_bytes / ROW_BYTES;
            stripes[lost.layout.stripe_of_row(row)].synced
        };
        let is_meant = |block: &Range<usize>| is_beside_lost(lost, block.start) && is_synced(block);
        let blocks: Vec<_> = self.blocks().into_iter().filter(is_meant).collect();
        if blocks.is_empty() || !self.shape.level.has_parity() {
            return Ok(());
        }
        let block = blocks[self.side_rng.usize(..blocks.len())].clone();
        if !self.reads_reach_members()? {
            return Ok(());
        }
        let unit = self.lose_sector(block.start);
        self.check_sectors(&block)?;
        let row = lost.layout.place(block.start * SECTOR_BYTES).offset_bytes / ROW_BYTES;
        // The chunk has waited since its other row could not be healed.
        self.world.run_for(self.shape.tuning.housekeeping_interval * RETRY_ROUNDS);
        match self.keep_house_until(|unit| unit.bad_rows().all(|bad| bad != row)) {
            None => Ok(()),
            Some(_) => {
                let what = format!(
                    "the block of {} in row {row} is not healed, which only another row of its chunk lacks",
                    self.units[unit].name()
                );
                Err(Checker::Service.violation(what))
            }
        }
    }

    /// A write over many stripes begins in the middle of a lost block: that block cannot be written; if it
    /// was all the same, it can be read.
    pub(super) fn write_far_from_lost(&mut self, lost: &Lost) -> Result<(), Violation> {
        let window = self.desk.windows[0].clone();
        let length = LONG_STRIPES * lost.layout.stripe_bytes() / SECTOR_BYTES;
        let is_meant =
            |block: &Range<usize>| lost.may_fail(block.start) && block.start + length <= window.end;
        let block = self.blocks().into_iter().find(is_meant);
        let Some(block) = block.filter(|_| self.shape.block_bytes as usize == SECTOR_BYTES) else {
            return Ok(());
        };
        let written = self.try_write(&(block.start + 1..block.start + length))?;
        if written.is_ok() && self.read_right(&(block.start + 1..block.end))?.is_err() {
            let what =
                format!("a write from sector {} on is acknowledged, and cannot be read", block.start + 1);
            return Err(Checker::Service.violation(what));
        }
        Ok(())
    }

    /// After housekeeping, each member's log lists as many bytes as the array reports unreadable.
    pub(super) fn expect_logs_agree(&mut self) -> Result<(), Violation> {
        let report: ArrayReport = self.report()?;
        for member in report.members.iter().filter(|member| member.state != MemberState::Faulty) {
            let Some(unit) = self.units.iter().find(|unit| unit.name() == member.name) else { continue };
            let bytes = unit.sim.bytes();
            // An entry may be listed more than once.
            let entries: BTreeSet<_> =
                listed_bytes(&bytes).into_iter().map(|bytes| (bytes.start, bytes.end)).collect();
            let listed: usize = entries.iter().map(|(start, end)| end - start).sum();
            if has_log(&bytes) && listed as u64 != member.bad_block_bytes {
                let (name, unread) = (&member.name, member.bad_block_bytes);
                let what = format!("{name}'s log lists {listed} bytes, and {unread} are not read of it");
                return Err(Checker::Metadata.violation(what));
            }
        }
        Ok(())
    }
}

/// Whether the row of a sector is whole, and another one is lost on the same member's chunk.
fn is_beside_lost(lost: &Lost, sector: usize) -> bool {
    let place = lost.layout.place(sector * SECTOR_BYTES);
    let rows = lost.layout.chunk_bytes / ROW_BYTES;
    let (row, chunk) = (place.offset_bytes / ROW_BYTES, place.offset_bytes / lost.layout.chunk_bytes);
    let mut lost_here = lost.bad.range(chunk * rows..(chunk + 1) * rows);
    !lost.bad.contains_key(&row) && lost_here.any(|(_, roles)| roles.contains(&place.role))
}
