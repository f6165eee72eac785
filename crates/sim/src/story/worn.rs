//! A member that cannot read ever more of its data: it is dropped once it has failed more reads than a member may.

use std::time::Duration;

use stripewise_engine::MemberState;

use super::Story;
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// Failed reads of different chunks that are enough by far. Some may come while their chunk waits to be healed, and do not count.
const FAILED_READS_MAX: usize = 80;
/// Steps in which bad blocks are healed, before the chunks go bad again, at most.
const HEALING_STEPS_MAX: u64 = 20_000;
/// So long it takes at most until the rest of a chunk was looked at, of which a block was healed.
const HEALING_TIME: Duration = Duration::from_millis(100);

impl Story {
    /// A member of an array that is whole fails so many reads that another one takes its role.
    pub(super) fn wear_out(&mut self) -> Result<(), Violation> {
        let role = self.side_rng.usize(..self.shape.members);
        let blocks = self.block_of_each_chunk(role);
        if !self.shape.level.has_parity() || blocks.is_empty() {
            return Ok(());
        }
        let unit = self.units_by_role()[role];
        self.say(|story| format!("{} fails one read after the other", story.units[unit].name()));
        for (count, first) in blocks.iter().cycle().enumerate() {
            if count > 0 && count.is_multiple_of(blocks.len()) {
                self.let_heal(unit);
            }
            if self.state_of(unit)? != Some(MemberState::InSync) {
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

    /// Lets all bad blocks of a member be healed.
    fn let_heal(&self, unit: usize) {
        let unit = &self.units[unit];
        self.world.run_steps_until(HEALING_STEPS_MAX, || unit.bad_rows().next().is_none());
        self.world.run_for(HEALING_TIME);
    }

    /// The first sector of a block in each chunk of a role that has data which is used.
    fn block_of_each_chunk(&self, role: usize) -> Vec<usize> {
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

    /// A block of a member goes bad, and is read once through the array, which has the data from the others.
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
