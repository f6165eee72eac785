//! Rows that have lost more than redundancy makes up for: as many members are lost as the level tolerates,
//! and others have bad blocks. These rows return errors where they are lost. Everything else is right, also
//! once the members were replaced and after a crash; and data written anew is right again.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use stripewise_engine::{ArrayError, geometry::Level};

use super::Story;
use crate::{
    Sight,
    check::{
        Checker, SECTOR_BYTES, Violation,
        layout::{Layout, ROW_BYTES},
        superblock::{Rewrite, SUPERBLOCK_BYTES},
    },
};

/// The usual maximum of bad blocks of a member.
const BAD_FEW: usize = 3;
/// And now and then this many: more than the failed reads after which a member is dropped, and than a log of
/// one sector lists.
const BAD_MANY: usize = 120;
/// Entries in a sector of a log.
const ENTRIES_OF_SECTOR: usize = SECTOR_BYTES / 8;
/// Sectors of the logs that mdadm makes.
const LOG_SECTORS: u16 = 8;
/// The most power failures while members are filled.
const CRASHES_MAX: u8 = 4;
/// The most steps to wait for the write of a log or superblock.
const FILLING_STEPS_MAX: u64 = 20_000;
/// The most steps from a superblock's write until power fails.
const CRASH_STEPS_MAX: u64 = 60;
/// The most blocks written while members are filled.
const WRITES_MAX: usize = 12;
/// The most steps from one of these writes to the next.
const STEPS_BETWEEN_WRITES: u64 = 100;
/// Rounds of housekeeping after which written sectors are no longer listed.
const ROUNDS: u32 = 4;

/// The losses.
pub(super) struct Lost {
    pub(super) layout: Layout,
    /// Roles without a member.
    roles: BTreeSet<usize>,
    /// For each row, the roles with a bad block.
    pub(super) bad: BTreeMap<usize, BTreeSet<usize>>,
    /// A member has so many bad blocks that it may be dropped for them, once others make up for it.
    may_be_dropped: bool,
    /// Entries that fit in every log.
    room: usize,
}

impl Lost {
    /// Whether a member may stay unfilled because its log cannot list all blocks that it would lack.
    fn may_stay_unfilled(&self) -> bool {
        self.bad.len() > self.room
    }

    /// Whether a sector of the array may be an error.
    pub(super) fn may_fail(&self, sector: usize) -> bool {
        let place = self.layout.place(sector * SECTOR_BYTES);
        let Some(bad) = self.bad.get(&(place.offset_bytes / ROW_BYTES)) else { return false };
        self.layout.level == 1
            || self.may_be_dropped
            || bad.contains(&place.role)
            || self.roles.contains(&place.role)
    }
}

impl Story {
    /// Loses rows of a whole array, and brings it back.
    pub(super) fn lose_rows(&mut self) -> Result<(), Violation> {
        if !self.is_made_whole()? || self.shape.tolerance() == 0 {
            return Ok(());
        }
        self.flush_all()?;
        let room = self.draw_log_size()?;
        let mut lost = self.draw_lost(room)?;
        self.expect_rest(&lost)?;
        // Else they may be filled by the time that they are added.
        self.array().pause_jobs();
        self.fill_lost_members()?;
        self.array().resume_jobs();
        for _ in 0..self.rng.u8(..CRASHES_MAX) {
            self.crash_while_filling()?;
        }
        self.write_some(&lost)?;
        let report = self.wait_for_jobs()?;
        if report.degraded() > 0 && !lost.may_be_dropped && !lost.may_stay_unfilled() {
            let what = format!(
                "members with bad blocks keep others from being filled: {:?}",
                self.array().last_job()
            );
            return Err(Checker::Service.violation(what));
        }
        self.expect_rest(&lost)?;
        if lost.may_be_dropped || lost.may_stay_unfilled() {
            return self.crash_and_expect_rest(&lost);
        }
        self.heal_beside_lost(&lost)?;
        self.reopen()?;
        self.expect_rest(&lost)?;
        if self.shape.is_vast {
            return Ok(());
        }
        self.write_far_from_lost(&lost)?;
        self.write_rows_anew(&lost)?;
        lost.bad.clear();
        self.expect_rest(&lost)?;
        self.reopen()?;
        self.expect_rest(&lost)?;
        self.expect_nothing_listed()
    }

    /// Gives members logs as mdadm makes them, smaller ones, or none. Returns how many entries fit in each.
    fn draw_log_size(&mut self) -> Result<usize, Violation> {
        let sectors = [LOG_SECTORS, LOG_SECTORS, 1, 0, 0][self.rng.usize(..5)];
        if sectors == LOG_SECTORS {
            return Ok(usize::from(sectors) * ENTRIES_OF_SECTOR);
        }
        self.stop()?;
        for unit in &self.units {
            let superblock =
                unit.sim.bytes()[SUPERBLOCK_BYTES.start as usize..SUPERBLOCK_BYTES.end as usize].to_vec();
            if unit.has_superblock {
                unit.sim.poke(SUPERBLOCK_BYTES.start, &Rewrite::of(superblock).log_of(sectors).done());
            }
        }
        self.say(|_| format!("bad-block logs have {sectors} sectors"));
        self.open_plainly()?;
        self.wait_for_jobs()?;
        // On a member with longer blocks a log of one sector is unusable.
        Ok(if self.shape.block_bytes as usize == SECTOR_BYTES {
            usize::from(sectors) * ENTRIES_OF_SECTOR
        } else {
            0
        })
    }

    /// Power fails while members are filled: at a log write that lists losses, or at superblocks that rely on
    /// it.
    fn crash_while_filling(&mut self) -> Result<(), Violation> {
        let at_log = self.rng.bool();
        let sight = if at_log { Sight::Log } else { Sight::Superblock };
        // A log is only written for lost rows, of which there are few.
        let awaited = self.world.seen(sight) + self.rng.u64(1..=if at_log { 2 } else { 4 });
        self.world.run_steps_until(FILLING_STEPS_MAX, || self.world.seen(sight) >= awaited);
        let steps = self.rng.u64(..if at_log { 8 } else { CRASH_STEPS_MAX });
        self.world.run_steps(steps);
        self.say(|_| "power is to fail while members are filled".to_owned());
        self.crash()?;
        self.open_by_force()
    }

    fn crash_and_expect_rest(&mut self, lost: &Lost) -> Result<(), Violation> {
        self.crash_flushed()?;
        self.open_by_force()?;
        self.expect_rest(lost)
    }

    fn crash_flushed(&mut self) -> Result<(), Violation> {
        self.flush_all()?;
        self.crash()
    }

    /// No rows were being written: force loses nothing.
    fn open_by_force(&mut self) -> Result<(), Violation> {
        let opened = self.open_as(true)?;
        opened.map_err(|error| Checker::Service.violation(format!("it is refused by force: {error}")))
    }

    /// As many members fail as may, and others have bad blocks that stay bad until they are written.
    fn draw_lost(&mut self, room: usize) -> Result<Lost, Violation> {
        let serving = self.units_by_role();
        let mut roles: Vec<usize> = (0..serving.len()).collect();
        self.rng.shuffle(&mut roles);
        let left = roles.split_off(self.shape.tolerance());
        for role in &roles {
            let unit = serving[*role];
            self.lost.insert(unit);
            self.fail_calmly(unit)?;
        }
        let mut lost = Lost {
            layout: self.layout(),
            roles: roles.into_iter().collect(),
            bad: BTreeMap::new(),
            may_be_dropped: false,
            room,
        };
        let with_bad = self.rng.usize(1..=2.min(left.len()));
        for role in &left[..with_bad] {
            let has_many = self.rng.u8(..4) == 0;
            lost.may_be_dropped |= has_many;
            let most = if has_many { BAD_MANY } else { BAD_FEW };
            for _ in 0..self.rng.usize(1..=most) {
                let sector = self.used_sector();
                let start = self.units[serving[*role]].data_offset_bytes + sector * SECTOR_BYTES as u64;
                self.units[serving[*role]].bad_sectors.push(start);
                self.cannot_read(serving[*role], start, u32::MAX);
                lost.bad.entry(sector as usize * SECTOR_BYTES / ROW_BYTES).or_default().insert(*role);
            }
        }
        Ok(lost)
    }

    /// Every sector is right, except those that may be errors; and an error names the first one that fails.
    fn expect_rest(&mut self, lost: &Lost) -> Result<(), Violation> {
        for block in self.blocks() {
            if self.read_right(&block)?.is_ok() {
                continue;
            }
            let grain = self.array().geometry().logical_block_bytes() as usize / SECTOR_BYTES;
            for start in block.clone().step_by(grain) {
                let Err(error) = self.read_right(&(start..start + grain))? else { continue };
                let is_named = matches!(error, ArrayError::Unreadable { offset_bytes } if offset_bytes == (start * SECTOR_BYTES) as u64);
                if !is_named || !(start..start + grain).any(|sector| lost.may_fail(sector)) {
                    let what =
                        format!("sector {start}, of which enough is left, or which was not named: {error}");
                    return Err(Checker::Service.violation(what));
                }
            }
        }
        self.desk.windows.clone().iter().try_for_each(|window| self.expect_first_named(window))
    }

    /// Reads sectors; if the read succeeds, they must be right.
    pub(super) fn read_right(&mut self, sectors: &Range<usize>) -> Result<Result<(), ArrayError>, Violation> {
        let ticket = self.desk.sectors.lock().begin_read();
        let read = self.try_read(sectors)?;
        let mut model = self.desk.sectors.lock();
        match read {
            Ok(content) => model.end_read(ticket, sectors.start, &content).map(Ok),
            Err(error) => {
                model.give_up_read(ticket);
                Ok(Err(error))
            }
        }
    }

    /// An error of a long read names the first block that cannot be read as a whole: all before it can.
    fn expect_first_named(&mut self, window: &Range<usize>) -> Result<(), Violation> {
        let Err(error) = self.read_right(window)? else { return Ok(()) };
        let ArrayError::Unreadable { offset_bytes } = error else {
            return Err(Checker::Service.violation(format!("reading what is lost: {error}")));
        };
        let named = offset_bytes as usize / SECTOR_BYTES;
        let block_end = (named + 1).next_multiple_of(ROW_BYTES / SECTOR_BYTES).min(window.end);
        let is_first = window.contains(&named)
            && (named == window.start || self.read_right(&(window.start..named))?.is_ok())
            && self.read_right(&(named..block_end))?.is_err();
        if is_first {
            return Ok(());
        }
        let what =
            format!("sector {named} is named as the first of {window:?} that cannot be read, and is not");
        Err(Checker::Service.violation(what))
    }

    /// New members take the roles of the failed ones.
    fn fill_lost_members(&mut self) -> Result<(), Violation> {
        (0..self.shape.tolerance()).try_for_each(|_| self.add_new_unit())
    }

    /// Some blocks, and stripes with losses, are written while members are filled; where rows are lost, that
    /// may fail.
    fn write_some(&mut self, lost: &Lost) -> Result<(), Violation> {
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        for _ in 0..self.rng.usize(..=WRITES_MAX) {
            let blocks = self.blocks();
            let block = blocks[self.rng.usize(..blocks.len())].clone();
            let written = self.lost_stripe(lost).unwrap_or(block);
            let stripe = written.start / stripe * stripe..(written.start / stripe + 1) * stripe;
            if let Err(error) = self.try_write(&written)?
                && !stripe.clone().any(|sector| lost.may_fail(sector))
            {
                let what = format!("a write to {written:?}, where nothing is lost: {error}");
                return Err(Checker::Service.violation(what));
            }
            let steps = self.side_rng.u64(..STEPS_BETWEEN_WRITES);
            self.world.run_steps(steps);
        }
        Ok(())
    }

    /// A stripe with losses, half of the time: while it is written anew, more losses may be found.
    fn lost_stripe(&mut self, lost: &Lost) -> Option<Range<usize>> {
        if self.shape.is_vast || lost.bad.is_empty() || self.side_rng.bool() {
            return None;
        }
        let row = *lost.bad.keys().nth(self.side_rng.usize(..lost.bad.len()))?;
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        let start = lost.layout.stripe_of_row(row) * stripe;
        Some(start..(start + stripe).min(self.desk.windows[0].end))
    }

    /// Writes each stripe with losses as a whole.
    fn write_rows_anew(&mut self, lost: &Lost) -> Result<(), Violation> {
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        let all = self.desk.windows[0].clone();
        let is_lost = |block: &Range<usize>| block.clone().any(|sector| lost.may_fail(sector));
        let at_level_1 = self.shape.level == Level::Raid1;
        let blocks = self.blocks().into_iter().filter(is_lost);
        let stripes = blocks.map(|block| match at_level_1 {
            true => block,
            false => block.start / stripe * stripe..((block.start / stripe + 1) * stripe).min(all.end),
        });
        let mut stripes: Vec<_> = stripes.collect();
        // If only parity was lost, no block of the array is.
        let rows = lost.bad.keys().map(|row| self.layout().stripe_of_row(*row) * stripe);
        stripes.extend(rows.filter(|_| !at_level_1).map(|start| start..start + stripe));
        stripes.sort_unstable_by_key(|stripe| stripe.start);
        stripes.dedup();
        for stripe in stripes {
            let zeroes = self.side_rng.bool();
            let written = if zeroes { self.try_zero(&stripe)? } else { self.try_write(&stripe)? };
            written.map_err(|error| {
                Checker::Service.violation(format!("whole stripes written anew, {stripe:?}: {error}"))
            })?;
        }
        Ok(())
    }

    /// The array is stopped, or power fails after a flush of everything; and it is opened again.
    fn reopen(&mut self) -> Result<(), Violation> {
        self.world.run_for(self.shape.tuning.housekeeping_interval * ROUNDS);
        self.expect_logs_agree()?;
        if self.rng.bool() {
            self.stop()?;
        } else {
            self.crash_flushed()?;
        }
        self.open_plainly()?;
        self.wait_for_jobs().map(drop)
    }

    /// Data written anew is no longer listed as bad.
    fn expect_nothing_listed(&mut self) -> Result<(), Violation> {
        let serving = self.units_by_role();
        serving.iter().for_each(|unit| self.look_at_log(*unit));
        let Some(unit) = serving.iter().find(|unit| !self.units[**unit].listed.is_empty()) else {
            return Ok(());
        };
        let unit = &self.units[*unit];
        let what =
            format!("rows {:?} of {} were written anew and are listed still", unit.listed, unit.name());
        Err(Checker::Service.violation(what))
    }
}
