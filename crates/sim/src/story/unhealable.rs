//! Rows of a whole array that have more unreadable blocks than redundancy makes up for: they are reported,
//! they cost no member, and once they can be read again everything is there.

use std::ops::Range;

use stripewise_device::WriteFlags;
use stripewise_engine::{JobOutcome, JobReport};

use super::Story;
use crate::{
    Sight,
    check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES},
};

/// The most chunks with such a row: fewer than the failed reads after which a member is dropped.
const CHUNKS_MAX: usize = 15;
/// The fewest: healing them twice makes more failed reads.
const CHUNKS_MIN: usize = 8;
/// Rounds of housekeeping that try to heal them at least twice.
const ROUNDS: u32 = 1300;
/// Rounds that have tried once.
const ROUNDS_FEW: u32 = 4;
/// Steps in which housekeeping begins to heal, and in which it reads some blocks.
const HEALING_STEPS: u64 = 20_000;
const HEALING_STEPS_FEW: u64 = 40;
/// Sectors of a row.
const ROW_SECTORS: u64 = (ROW_BYTES / SECTOR_BYTES) as u64;
/// The most steps of a scrub until it is cut short.
const SCRUB_STEPS: u64 = 400;

impl Story {
    /// Unhealable blocks are read: each read counts, and the attempts to heal count nothing more.
    pub(super) fn keep_what_cannot_be_healed(&mut self) -> Result<(), Violation> {
        let blocks = self.blocks_of_chunks();
        if !self.shape.level.has_parity() || blocks.len() < CHUNKS_MIN {
            return Ok(());
        }
        // All of them first: a read of one may read the next chunk ahead, for the cache.
        blocks.iter().for_each(|block| self.lose_block(block));
        for block in &blocks {
            if self.try_read(block)?.is_ok() {
                let what = format!("sectors {block:?} are lost, and can be read");
                return Err(Checker::Service.violation(what));
            }
        }
        self.world.run_for(self.shape.tuning.housekeeping_interval * ROUNDS);
        let report = self.report()?;
        if report.degraded() > 0 {
            return Err(Checker::Service.violation("blocks that could not be healed have cost a member"));
        }
        self.find_again("blocks could not be read for a while")
    }

    /// A listed block cannot be recovered, since another member cannot read its own block there: healing
    /// finds that out, and it does not count against that member.
    pub(super) fn meet_a_bad_block_in_healing(&mut self) -> Result<(), Violation> {
        let block = self.any_block();
        let grain = self.array().geometry().logical_block_bytes() as usize / SECTOR_BYTES;
        if !self.shape.level.has_parity() || self.shape.tolerance() != 1 || grain * SECTOR_BYTES >= ROW_BYTES
        {
            return Ok(());
        }
        self.flush_all()?;
        self.stop()?;
        let place = self.layout().place(block.start * SECTOR_BYTES);
        let serving = self.units_by_role();
        let (listing, failing) = (serving[place.role], serving[(place.role + 1) % serving.len()]);
        let first = (place.offset_bytes / ROW_BYTES * ROW_BYTES) as u64;
        let sector = first / SECTOR_BYTES as u64;
        self.list_sectors(listing, std::slice::from_ref(&(sector..sector + grain as u64)));
        self.cannot_read(failing, self.units[failing].data_offset_bytes + first, u32::MAX);
        self.open_plainly()?;
        self.world.run_for(self.shape.tuning.housekeeping_interval * ROUNDS_FEW);
        let (report, name) = (self.report()?, self.units[failing].name().to_owned());
        let errors =
            report.members.iter().find(|member| member.name == name).map(|member| member.read_errors);
        self.units[failing].faults.clear();
        // A resync of what a crash has left in the bitmap reads, too, and what it cannot read counts. It may have ended.
        let has_resynced = report.job.is_some() || self.array().last_job().is_some();
        if !has_resynced && errors.is_some_and(|errors| errors > 0) {
            let what = format!("only healing has read the bad block of {name}, which counts: {errors:?}");
            return Err(Checker::Service.violation(what));
        }
        self.world.run_for(self.shape.tuning.housekeeping_interval * ROUNDS);
        self.expect_unlisted()?;
        self.expect_whole("healing met a bad block of another member")
    }

    /// More of a row is listed than redundancy makes up for. Once its stripe is written as a whole, durably,
    /// it can be read, even if power fails at once.
    pub(super) fn write_again_what_is_lost(&mut self) -> Result<(), Violation> {
        if self.shape.tolerance() == 0 || self.shape.is_vast {
            return Ok(());
        }
        let stripe = self.list_a_row_everywhere()?;
        let is_fua = self.side_rng.bool();
        self.say(|_| format!("{stripe:?} is written, durably (FUA: {is_fua}), and power fails"));
        let flags = WriteFlags { fua: is_fua };
        if let Err(error) = self.try_write_as(&stripe, flags)? {
            return Err(Checker::Service.violation(format!("a whole stripe is not written: {error}")));
        }
        if !is_fua {
            self.flush_all()?;
        }
        self.crash()?;
        self.open_plainly()?;
        if let Err(error) = self.try_read(&stripe)? {
            let what = format!("a stripe was written durably, and after a crash it cannot be read: {error}");
            return Err(Checker::Service.violation(what));
        }
        self.wait_for_jobs()?;
        self.expect_unlisted()
    }

    /// Opens the array anew with a row listed on one member more than the level tolerates. Returns the
    /// stripe's sectors.
    fn list_a_row_everywhere(&mut self) -> Result<Range<usize>, Violation> {
        let block = self.any_block();
        self.flush_all()?;
        self.stop()?;
        let (layout, serving) = (self.layout(), self.units_by_role());
        let place = layout.place(block.start * SECTOR_BYTES);
        let first = (place.offset_bytes / ROW_BYTES * ROW_BYTES / SECTOR_BYTES) as u64;
        let row = first..(first + ROW_SECTORS).min(self.shape.data_bytes / SECTOR_BYTES as u64);
        for next in 0..=self.shape.tolerance() {
            let unit = serving[(place.role + next) % serving.len()];
            self.list_sectors(unit, std::slice::from_ref(&row));
        }
        self.open_plainly()?;
        let len = layout.stripe_bytes() / SECTOR_BYTES;
        let start = block.start / len * len;
        let capacity = self.array().geometry().capacity_bytes() as usize / SECTOR_BYTES;
        Ok(start..capacity.min(start + len))
    }

    /// A block is healed while an earlier one in the same chunk goes bad, and is read: that one is healed,
    /// too.
    pub(super) fn go_bad_behind_healing(&mut self) -> Result<(), Violation> {
        let (second, layout) = (self.any_block(), self.layout());
        let place = layout.place(second.start * SECTOR_BYTES);
        let in_chunk = place.offset_bytes % layout.chunk_bytes / ROW_BYTES;
        if !self.shape.level.has_parity() || in_chunk == 0 || !self.is_whole_block(second.start) {
            return Ok(());
        }
        let back = self.side_rng.usize(1..=in_chunk) * second.len();
        let first = second.start.saturating_sub(back)..second.end.saturating_sub(back);
        if !self.is_whole_block(first.start) {
            return Ok(());
        }
        if !self.reads_reach_members()? {
            return Ok(());
        }
        let unit = self.lose_sector(second.start);
        self.check_sectors(&second)?;
        let reads = self.world.seen(Sight::Read);
        self.world.run_steps_until(HEALING_STEPS, || self.world.seen(Sight::Read) != reads);
        let steps = self.side_rng.u64(..HEALING_STEPS_FEW);
        self.world.run_steps(steps);
        self.lose_sector(first.start);
        self.check_sectors(&first)?;
        if self.keep_house_until(|unit| unit.bad_rows().next().is_none()).is_some() {
            let what = format!(
                "two blocks of a chunk of {} went bad, and one is not healed",
                self.units[unit].name()
            );
            return Err(Checker::Service.violation(what));
        }
        self.units[unit].faults.clear();
        self.expect_whole("blocks of one chunk went bad one after the other")
    }

    /// A scrub passes over unreadable rows, is cut short by the end of the array, and still reports them once
    /// it has continued.
    pub(super) fn tell_again_of_the_unreadable(&mut self) -> Result<(), Violation> {
        let blocks = self.blocks_of_chunks();
        if !self.shape.level.has_parity() || blocks.is_empty() {
            return Ok(());
        }
        self.lose_block(&blocks[0]);
        self.begin_scrub(self.plan.seed.is_multiple_of(2))?;
        let steps = self.side_rng.u64(..SCRUB_STEPS);
        self.world.run_steps(steps);
        let array = self.array().clone();
        self.stop()?;
        let is_cut_short = array.last_scrub().is_some_and(|scrub| scrub.outcome == Some(JobOutcome::Stopped));
        drop(array);
        self.open_plainly()?;
        self.wait_for_jobs()?;
        let last = self.array().last_scrub();
        let has_told = |scrub: &JobReport| matches!(scrub.outcome, Some(JobOutcome::Failed(_)));
        if is_cut_short && !last.as_ref().is_some_and(has_told) {
            let what = format!(
                "a scrub was cut short and resumed, and does not tell what it could not read: {last:?}"
            );
            return Err(Checker::Scrub.violation(what));
        }
        self.find_again("a scrub could not read a block")
    }

    /// The unreadable blocks can be read again, and everything is there.
    fn find_again(&mut self, why: &str) -> Result<(), Violation> {
        self.units.iter().for_each(|unit| unit.faults.clear());
        self.expect_whole(why)
    }

    /// One block in each of some chunks that clients use, in different stripes.
    fn blocks_of_chunks(&self) -> Vec<Range<usize>> {
        let layout = self.layout();
        let stripe = |block: &Range<usize>| {
            layout.stripe_of_row(layout.place(block.start * SECTOR_BYTES).offset_bytes / ROW_BYTES)
        };
        let mut blocks = self.blocks();
        blocks.dedup_by_key(|block| stripe(block));
        blocks.truncate(CHUNKS_MAX);
        blocks
    }

    /// One member more than the level tolerates cannot read its block in this block's row.
    fn lose_block(&mut self, block: &Range<usize>) {
        let place = self.layout().place(block.start * SECTOR_BYTES);
        let serving = self.units_by_role();
        for next in 0..=self.shape.tolerance() {
            let unit = serving[(place.role + next) % serving.len()];
            let start = self.units[unit].data_offset_bytes + place.offset_bytes as u64;
            self.cannot_read(unit, start, u32::MAX);
        }
    }
}
