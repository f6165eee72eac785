//! A member that fails one write of its metadata: of a bitmap page, of the header, or of the superblock. It
//! is dropped, and the others record that before anything is acknowledged without it.

use std::ops::Range;

use stripewise_device::{
    IoErrorKind,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::{MemberState, endurance::NOTE_BYTES_MIN};

use super::Story;
use crate::check::{
    Checker, SECTOR_BYTES, Violation,
    image::{header_copies, page_slots},
    superblock::SUPERBLOCK_BYTES,
};

/// Rounds of housekeeping after which no region is marked without writes to it.
const IDLE_ROUNDS: u32 = 4;
/// Rounds in which members' write counts are noted on them.
const NOTE_ROUNDS: u32 = 70;
/// The most sectors of a write that makes a member's note due.
const WRITE_SECTORS_MAX: usize = 4096;

/// The metadata that a member fails to write.
#[derive(Debug, Clone, Copy)]
enum Part {
    Pages,
    Header,
    Superblock,
}

impl Story {
    /// A member of a whole array fails to write some of its metadata, once.
    pub(super) fn fail_a_metadata_write(&mut self) -> Result<(), Violation> {
        if self.shape.tolerance() == 0 {
            return Ok(());
        }
        self.flush_all()?;
        let unit = self.any_serving();
        let part = [Part::Pages, Part::Pages, Part::Header, Part::Superblock][self.side_rng.usize(..4)];
        self.note_bytes_of(part)?;
        self.world.run_for(self.shape.tuning.housekeeping_interval * IDLE_ROUNDS);
        let failed = self.units[unit].faults.failed();
        if !self.fail_next_write_of(unit, part) {
            return Ok(());
        }
        self.write_any_block()?;
        self.world.run_for(self.shape.tuning.housekeeping_interval * NOTE_ROUNDS);
        let was_met = self.units[unit].faults.failed() > failed;
        self.units[unit].faults.clear();
        if !was_met {
            return self.expect_whole("a member was to fail a write that did not come");
        }
        self.expect_recorded(unit, part)?;
        self.add_again(unit)?;
        self.expect_whole("a member that had failed a write of metadata was added again")
    }

    /// Writes enough that members' notes are due, if a note shall fail.
    fn note_bytes_of(&mut self, part: Part) -> Result<(), Violation> {
        if !matches!(part, Part::Header) || self.shape.is_vast {
            return Ok(());
        }
        let window = self.desk.windows[0].clone();
        let all = window.start..window.end.min(window.start + WRITE_SECTORS_MAX);
        let times = 2 * NOTE_BYTES_MIN as usize * self.shape.data_columns() / (all.len() * SECTOR_BYTES);
        for _ in 0..times {
            self.try_write(&all)?
                .map_err(|error| Checker::Service.violation(format!("a long write: {error}")))?;
        }
        Ok(())
    }

    /// False: the member has no metadata of this kind.
    fn fail_next_write_of(&mut self, unit: usize, part: Part) -> bool {
        let ranges: Vec<Range<u64>> = match part {
            Part::Pages => page_slots(&self.units[unit].sim.bytes()).unwrap_or_default(),
            Part::Header => header_copies(self.units[unit].data_offset_bytes).to_vec(),
            Part::Superblock => vec![SUPERBLOCK_BYTES],
        };
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return false };
        // The other metadata lies between the two copies of the header: the first copy is enough.
        let range_bytes = if matches!(part, Part::Pages) { first.start..last.end } else { first.clone() };
        self.say(|story| {
            format!("{} fails its next write of: {part:?}, {range_bytes:?}", story.units[unit].name())
        });
        self.units[unit].faults.add(FaultRule {
            operation: Operation::Write,
            range_bytes,
            kind: IoErrorKind::Medium,
            times: 1,
            healed_by_write: false,
        });
        true
    }

    /// A member that failed a write is faulty, and once something is durable without it, no superblock counts
    /// it.
    fn expect_recorded(&mut self, unit: usize, part: Part) -> Result<(), Violation> {
        let state = self.state_of(unit)?;
        if state != Some(MemberState::Faulty) {
            let what = format!("{} failed a write of: {part:?}, and is {state:?}", self.units[unit].name());
            return Err(Checker::Service.violation(what));
        }
        self.flush_all()?;
        if self.units_by_role().contains(&unit) {
            let what = format!(
                "{} failed a write of: {part:?}, and the superblocks count it after a flush",
                self.units[unit].name()
            );
            return Err(Checker::Metadata.violation(what));
        }
        self.check_content()
    }
}
