//! Members that read badly: one that cannot read more and more of its data is dropped once it has failed more
//! reads than the limit; one that has become short is dropped at once; and a bad block that only a write
//! meets is healed like any other.

use std::{ops::Range, time::Duration};

use stripewise_device::{
    IoErrorKind,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::{MemberState, geometry::Level};

use super::Story;
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// Failed reads of different chunks, more than enough. Some may come while their chunk waits to be healed,
/// and do not count.
const FAILED_READS_MAX: usize = 80;
/// Reads of a block after which mostly each mirror was read.
const READS_OF_MIRRORS: usize = 12;
/// Failed reads that do not yet cost a member its place: one more does.
pub(super) const READ_ERRORS_MAX: u32 = 20;
/// Rounds of housekeeping that try to heal an unhealable block.
pub(super) const HEALING_ROUNDS: u32 = 3;
/// The most steps in which bad blocks are healed, before the chunks go bad again.
const HEALING_STEPS_MAX: u64 = 20_000;
/// The longest time until the rest of a chunk was read after one of its blocks was healed.
pub(super) const HEALING_TIME: Duration = Duration::from_millis(100);

impl Story {
    /// A member of a whole array fails so many reads that another one takes its role.
    pub(super) fn wear_out(&mut self) -> Result<(), Violation> {
        let role = self.side_rng.usize(..self.shape.members);
        let blocks = self.block_of_each_chunk(role);
        if !self.shape.level.has_parity() || blocks.is_empty() {
            return Ok(());
        }
        if !self.does_without_cache()? {
            return Ok(());
        }
        let unit = self.units_by_role()[role];
        self.say(|story| format!("{} fails one read after the other", story.units[unit].name()));
        for (count, first) in blocks.iter().cycle().enumerate() {
            if count > 0 && count.is_multiple_of(blocks.len()) {
                self.let_heal(unit);
            }
            if !self.expect_in_sync_while_few(unit)? {
                break;
            }
            if count == FAILED_READS_MAX {
                let what = format!("{} failed {count} reads and stays", self.units[unit].name());
                return Err(Checker::Service.violation(what));
            }
            self.fail_a_read(unit, *first)?;
        }
        self.units[unit].faults.clear();
        self.add_again(unit)?;
        self.expect_whole("a member that read badly was added again as a new one")
    }

    /// Whether a member is in sync, which it stays until it has failed more reads than the limit.
    pub(super) fn expect_in_sync_while_few(&self, unit: usize) -> Result<bool, Violation> {
        let (report, name) = (self.report()?, self.units[unit].name());
        let Some(member) = report.members.iter().find(|member| member.name == name) else { return Ok(false) };
        let is_in_sync = member.state == MemberState::InSync;
        if is_in_sync == (member.read_errors <= READ_ERRORS_MAX) {
            return Ok(is_in_sync);
        }
        let what =
            format!("{name} failed {} reads that count, and is {:?}", member.read_errors, member.state);
        Err(Checker::Service.violation(what))
    }

    /// A member ends before its data does: it is dropped by the first read there, and another one takes its
    /// role.
    pub(super) fn cut_short(&mut self) -> Result<(), Violation> {
        if !self.shape.level.has_parity() {
            return Ok(());
        }
        let block = self.any_block();
        let place = self.layout().place(block.start * SECTOR_BYTES);
        let unit = self.units_by_role()[place.role];
        let end = self.units[unit].data_offset_bytes + place.offset_bytes as u64;
        self.say(|story| format!("{} ends at byte {end} from now on", story.units[unit].name()));
        for operation in [Operation::Read, Operation::Write] {
            self.units[unit].faults.add(FaultRule {
                operation,
                range_bytes: end..u64::MAX,
                kind: IoErrorKind::Truncated,
                times: u32::MAX,
                healed_by_write: false,
            });
        }
        self.check_sectors(&block)?;
        if self.state_of(unit)? != Some(MemberState::Faulty) {
            let what = format!("{} has become short, and is a member still", self.units[unit].name());
            return Err(Checker::Service.violation(what));
        }
        self.add_again(unit)?;
        self.expect_whole("a member that had become short was added again as a new one")
    }

    /// A write meets an unreadable block of another column: that is noted, and healed, though no client reads
    /// it.
    pub(super) fn meet_a_bad_block(&mut self) -> Result<(), Violation> {
        if !self.shape.level.has_parity() {
            return Ok(()); // a write of mirrors reads nothing
        }
        let block = self.any_block();
        let (layout, serving) = (self.layout(), self.units_by_role());
        let place = layout.place(block.start * SECTOR_BYTES);
        let unit = serving[(place.role + self.side_rng.usize(1..serving.len())) % serving.len()];
        let start = self.units[unit].data_offset_bytes + (place.offset_bytes / ROW_BYTES * ROW_BYTES) as u64;
        self.units[unit].bad_sectors.push(start);
        self.cannot_read(unit, start, u32::MAX);
        let failed = self.units[unit].faults.failed();
        let grain = self.array().geometry().logical_block_bytes() as usize / SECTOR_BYTES;
        let written = if self.side_rng.bool() { block } else { block.start..block.start + grain };
        self.try_write(&written)?
            .map_err(|error| Checker::Service.violation(format!("a write beside a bad block: {error}")))?;
        let was_met = self.units[unit].faults.failed() > failed;
        if was_met && self.keep_house_until(|unit| unit.bad_rows().next().is_none()).is_some() {
            let what = format!("a write met a bad block of {}, which is not healed", self.units[unit].name());
            return Err(Checker::Service.violation(what));
        }
        self.units[unit].faults.clear();
        self.expect_whole("a write met a bad block")
    }

    /// A bad block is healed although a member is missing, if the others make up for both.
    pub(super) fn heal_while_degraded(&mut self) -> Result<(), Violation> {
        if self.shape.tolerance() < 2 {
            return Ok(());
        }
        self.array().pause_jobs();
        let missing = self.any_serving();
        self.fail_calmly(missing)?;
        let block = self.any_block();
        let role = self.layout().place(block.start * SECTOR_BYTES).role;
        if let Some(unit) = self.unit_of_role(role) {
            let start = self.start_on(unit, &block);
            let failed = self.units[unit].faults.failed();
            self.cannot_read(unit, start, u32::MAX);
            self.units[unit].bad_sectors.push(start);
            self.check_sectors(&block)?;
            // Of mirrors another one may have been read.
            let was_met = self.units[unit].faults.failed() > failed;
            if was_met && self.keep_house_until(|unit| unit.bad_rows().next().is_none()).is_some() {
                let what = format!(
                    "a block of {} is not healed while {} is missing",
                    self.units[unit].name(),
                    self.units[missing].name()
                );
                return Err(Checker::Service.violation(what));
            }
            self.units[unit].faults.clear();
        }
        self.add_again(missing)?;
        self.array().resume_jobs();
        self.expect_whole("a bad block was read while a member was missing")
    }

    /// A bad block that a read has met is healed, on whichever mirror it is.
    pub(super) fn heal_what_is_read(&mut self) -> Result<(), Violation> {
        if self.shape.tolerance() == 0 {
            return Ok(());
        }
        let block = self.any_block();
        let role = match self.shape.level {
            Level::Raid1 => self.side_rng.usize(..self.shape.members),
            _ => self.layout().place(block.start * SECTOR_BYTES).role,
        };
        let unit = self.units_by_role()[role];
        let (start, failed) = (self.start_on(unit, &block), self.units[unit].faults.failed());
        self.cannot_read(unit, start, u32::MAX);
        self.units[unit].bad_sectors.push(start);
        for _ in 0..READS_OF_MIRRORS {
            self.check_sectors(&block)?;
        }
        let was_met = self.units[unit].faults.failed() > failed;
        if was_met && self.keep_house_until(|unit| unit.bad_rows().next().is_none()).is_some() {
            let what = format!("a block of {} could not be read, and is not healed", self.units[unit].name());
            return Err(Checker::Service.violation(what));
        }
        self.units[unit].faults.clear();
        self.expect_whole("a bad block was read")
    }

    pub(super) fn unit_of_role(&mut self, role: usize) -> Option<usize> {
        self.with_image(|image, _| image.in_sync()[role]).flatten()
    }

    /// Where a block of the array begins on its member.
    fn start_on(&self, unit: usize, block: &Range<usize>) -> u64 {
        let place = self.layout().place(block.start * SECTOR_BYTES);
        self.units[unit].data_offset_bytes + place.offset_bytes as u64
    }

    /// A member cannot read a block, and another member cannot read its block in the next row, where the
    /// first member can: a read across both rows succeeds all the same.
    pub(super) fn read_across_bad_blocks(&mut self) -> Result<(), Violation> {
        let (block, layout) = (self.any_block(), self.layout());
        let (first, second) =
            (layout.place(block.start * SECTOR_BYTES), layout.place(block.end * SECTOR_BYTES));
        let grain = self.array().geometry().logical_block_bytes() as usize / SECTOR_BYTES;
        let (row, len) = (ROW_BYTES / SECTOR_BYTES, ROW_BYTES as u64);
        let is_used =
            self.desk.windows.iter().any(|w| w.start <= block.start && block.start + 2 * row <= w.end);
        let is_one_chunk = first.role == second.role && first.offset_bytes + ROW_BYTES == second.offset_bytes;
        if !self.shape.level.has_parity() || !is_used || !is_one_chunk || !block.start.is_multiple_of(row) {
            return Ok(());
        }
        let serving = self.units_by_role();
        let other = serving[(first.role + self.side_rng.usize(1..serving.len())) % serving.len()];
        let last_of_first = (first.offset_bytes as u64 + len) - (grain * SECTOR_BYTES) as u64;
        let bad = [(serving[first.role], last_of_first), (other, first.offset_bytes as u64 + len)];
        for (unit, at) in bad {
            let start = self.units[unit].data_offset_bytes + at;
            self.units[unit].bad_sectors.push(start);
            self.cannot_read(unit, start, u32::MAX);
        }
        let start = block.start + self.side_rng.usize(..row / grain) * grain;
        let end = block.end + self.side_rng.usize(1..=row / grain) * grain;
        self.check_sectors(&(start..end))?;
        self.heal_all()?;
        bad.iter().for_each(|(unit, _)| self.units[*unit].faults.clear());
        self.expect_whole("what lies across bad blocks of two members was read")
    }

    /// An unreadable block stays so although it is written: it does not count as healed.
    pub(super) fn fail_to_heal(&mut self) -> Result<(), Violation> {
        if !self.shape.level.has_parity() {
            return Ok(());
        }
        let block = self.any_block();
        let place = self.layout().place(block.start * SECTOR_BYTES);
        let unit = self.units_by_role()[place.role];
        let start = self.units[unit].data_offset_bytes + place.offset_bytes as u64;
        self.say(|story| {
            format!("{} cannot read byte {start}, whatever is written there", story.units[unit].name())
        });
        self.units[unit].faults.add(FaultRule {
            operation: Operation::Read,
            range_bytes: start..start + SECTOR_BYTES as u64,
            kind: IoErrorKind::Medium,
            times: u32::MAX,
            healed_by_write: false,
        });
        let healed = |story: &Self| story.array().stats().report().healed_blocks;
        let before = healed(self);
        self.check_sectors(&block)?;
        self.world.run_for(self.shape.tuning.housekeeping_interval * HEALING_ROUNDS);
        let counted = healed(self) - before;
        self.units[unit].faults.clear();
        if counted > 0 {
            let what = format!("a block that still cannot be read counts as healed, {counted} times");
            return Err(Checker::Service.violation(what));
        }
        self.expect_whole("a block could not be healed for a while")
    }

    /// A block that clients use.
    pub(super) fn any_block(&mut self) -> Range<usize> {
        let blocks = self.blocks();
        blocks[self.side_rng.usize(..blocks.len())].clone()
    }

    /// Lets all bad blocks of a member be healed.
    fn let_heal(&self, unit: usize) {
        let unit = &self.units[unit];
        self.world.run_steps_until(HEALING_STEPS_MAX, || unit.bad_rows().next().is_none());
        self.world.run_for(HEALING_TIME);
    }

    /// The first sector of one block in each chunk of a role, among the chunks with data that clients use.
    pub(super) fn block_of_each_chunk(&self, role: usize) -> Vec<usize> {
        let layout = self.layout();
        let block = ROW_BYTES / SECTOR_BYTES;
        let blocks = self.desk.windows.iter().flat_map(|window| {
            (window.start.next_multiple_of(block)..=window.end.saturating_sub(block)).step_by(block)
        });
        let mut chunks: Vec<(usize, usize)> = blocks
            .map(|first| (first, layout.place(first * SECTOR_BYTES)))
            .filter(|(_, place)| place.role == role)
            .map(|(first, place)| (place.offset_bytes / layout.chunk_bytes, first))
            .collect();
        chunks.dedup_by_key(|(chunk, _)| *chunk);
        chunks.into_iter().map(|(_, first)| first).collect()
    }

    /// A member's block goes bad, and is read once through the array, which recovers the data from the
    /// others.
    fn fail_a_read(&mut self, unit: usize, first: usize) -> Result<(), Violation> {
        let place = self.layout().place(first * SECTOR_BYTES);
        let start = self.units[unit].data_offset_bytes + place.offset_bytes as u64;
        self.units[unit].bad_sectors.push(start);
        self.cannot_read(unit, start, u32::MAX);
        let ticket = self.desk.sectors.lock().begin_read();
        let content = self.read_window(&(first..first + ROW_BYTES / SECTOR_BYTES))?;
        self.desk.sectors.lock().end_read(ticket, first, &content).map(drop)
    }
}
