//! An operator's commands in calm times, and their required results: jobs are stopped, paused and resumed,
//! members must not be removed, members take over from others.

use std::ops::Range;

use stripewise_engine::{ArrayError, ArrayReport, MemberState, SpeedLimits};

use super::{Story, Unit};
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// The most units besides the array's members.
pub(super) const SPARE_UNITS_MAX: usize = 8;
/// The most steps of a job until it is paused or stopped.
const STEPS_MAX: u64 = 200;
/// How often one bad block is read: more often than the failed reads after which a member is dropped.
const READS_OF_BAD_BLOCK: usize = 30;
/// Each trial is made in one calm time of so many.
const TRIALS_ONE_IN: u8 = 58;
/// As slow as a job can be.
pub(super) const CRAWL: SpeedLimits = SpeedLimits { min_bytes_per_s: 1 << 16, max_bytes_per_s: 1 << 16 };

impl Story {
    /// Does something to a whole array, after which it is whole again.
    pub(super) fn steer_calmly(&mut self) -> Result<(), Violation> {
        let can_add = self.units.len() + 2 <= self.shape.members + SPARE_UNITS_MAX;
        match self.rng.u8(..5) {
            0 => self.stop_and_scrub(),
            1 => self.pause_and_resume(),
            2 if can_add => self.keep_filling(),
            3 if can_add => self.stop_what_gave_way(),
            _ => self.read_a_bad_block(),
        }
    }

    /// Now and then makes a trial, after which the array is whole again.
    pub(super) fn try_out(&mut self) -> Result<(), Violation> {
        self.keep_what_cannot_be_destaged()?;
        self.cache_a_stream_under_way()?;
        self.read_ahead_beside_writes()?;
        match self.side_rng.u8(..TRIALS_ONE_IN) {
            0 => self.go_to_the_brink(),
            1 => self.wear_out(),
            2 => self.expect_misaligned_refused(),
            3 => self.expect_long_blocks_refused(),
            4 => self.replace_twice(),
            5 => self.find_and_give_way(),
            6 => self.repair_while_filling(),
            7 => self.write_beside_healing(),
            8 => self.list_and_crowd(),
            9 => self.cut_short(),
            10 | 11 => self.meet_a_bad_block(),
            12 => self.expect_member_not_added(),
            13 => self.fail_to_heal(),
            14 => self.fail_while_filling(),
            15 | 16 => self.fail_while_repairing(),
            17 => self.ask_for_holes(),
            18 => self.leave_a_row_unsynced(),
            19 => self.fail_a_metadata_write(),
            20 | 48 => self.rebuild_in_two_openings(),
            21 => self.read_across_bad_blocks(),
            22 => self.heal_while_degraded(),
            23 => self.stop_a_resync(),
            24 => self.remove_a_spare(),
            25 => self.tell_of_a_member(),
            26 => self.stop_a_scrub_that_gives_way(),
            27 => self.add_during_a_check(),
            28 => self.leave_a_row_for_later(),
            29 | 30 => self.lose_power_opening_a_foreign_array(),
            31 | 32 => self.fill_beside_a_crowd(),
            33 => self.stop_a_rebuild(),
            34 => self.release_a_job(),
            35 => self.keep_to_the_limit(),
            36 => self.keep_what_cannot_be_healed(),
            37 => self.tell_again_of_the_unreadable(),
            38 => self.heal_what_is_read(),
            39 => self.meet_a_bad_block_in_healing(),
            40 => self.go_bad_behind_healing(),
            41 => self.replace_what_leaves(),
            42 => self.write_across_bad_blocks(),
            43 => self.write_around_while_degraded(),
            44 => self.keep_nothing(),
            45 => self.scrub_beside_busy_rows(),
            46 => self.give_up_reading(),
            47 => self.add_a_member_without_room(),
            49 => self.write_again_what_is_lost(),
            50 | 51 => self.write_in_doubt(),
            52 | 53 => self.leave_in_doubt(),
            54 | 55 => self.fail_while_others_are_behind(),
            56 | 57 => self.fill_before_a_resync(),
            _ => Ok(()),
        }
    }

    /// The next opening does not resume a stopped scrub, and a scrub started after that runs to its end.
    fn stop_and_scrub(&mut self) -> Result<(), Violation> {
        self.say(|_| "a scrub is stopped, and the next is not".to_owned());
        self.begin_scrub(self.plan.seed.is_multiple_of(2))?;
        if self.array().start_scrub(false).is_ok() {
            return Err(Checker::Service.violation("a second scrub was taken while one is under way"));
        }
        let steps = self.rng.u64(..STEPS_MAX);
        self.world.run_steps(steps);
        self.array().stop_job();
        if self.rng.bool() {
            // Another stop finds nothing to stop.
            self.wait_for_jobs()?;
            self.array().stop_job();
        }
        self.wait_for_jobs()?;
        self.expect_no_scrub_goes_on("an operator stopped a scrub")?;
        self.run_scrub(false).map(drop)
    }

    /// A paused scrub waits, and continues once it is resumed.
    fn pause_and_resume(&mut self) -> Result<(), Violation> {
        self.say(|_| "a scrub is paused and resumed".to_owned());
        let is_paused_first = self.rng.bool();
        if is_paused_first {
            self.array().pause_jobs();
        }
        let asked = self.later();
        self.begin_scrub(false)?;
        let steps = self.rng.u64(..STEPS_MAX);
        self.world.run_steps(steps);
        let job = self.array().job();
        if let Some(job) = job.filter(|job| is_paused_first && !job.paused) {
            let what = format!("jobs were paused before one began, and it does not say so: {job:?}");
            return Err(Checker::Service.violation(what));
        }
        self.array().pause_jobs();
        self.world.run_for(self.shape.tuning.housekeeping_interval);
        let is_over = self.array().last_scrub().is_some_and(|scrub| scrub.started >= asked);
        if is_paused_first && is_over {
            return Err(Checker::Service.violation("a scrub came to its end while jobs were paused"));
        }
        self.array().resume_jobs();
        self.wait_for_jobs().map(drop)
    }

    /// A member that is being filled cannot be removed; a stopped filling continues when members change.
    fn keep_filling(&mut self) -> Result<(), Violation> {
        self.add_new_unit()?;
        let old = self.any_serving();
        self.array().set_speed_limits(CRAWL);
        self.fail_calmly(old)?;
        let filled = self.wait_for_filling(|_| true).then(|| self.unit_being_filled()).transpose()?.flatten();
        if let Some(filled) = filled {
            // By the time of the command it may have been filled: then it is a member like any other.
            if self.remove_calmly(filled)?.is_ok() {
                return Err(Checker::Service.violation("a member that is being filled was removed"));
            }
            if self.rng.bool() {
                self.say(|_| "filling is stopped, and another spare added".to_owned());
                self.stop_and_add()?;
            }
        }
        self.array().set_speed_limits(SpeedLimits::default());
        self.expect_filled(old)
    }

    /// A stopped filling continues when a spare arrives after the stop; an earlier spare does not continue
    /// it.
    fn stop_and_add(&mut self) -> Result<(), Violation> {
        if self.side_rng.bool() && self.units.len() + 2 <= self.shape.members + SPARE_UNITS_MAX {
            self.add_new_unit()?;
        }
        let stopped = self.world.now();
        self.array().stop_job();
        self.wait_for_jobs()?;
        if let Some(job) = self.array().last_job().filter(|job| job.started > stopped) {
            let what = format!("an operator stopped the filling of a member, and a job began: {job:?}");
            return Err(Checker::Service.violation(what));
        }
        self.add_new_unit()
    }

    /// A scrub that gives way to a rebuild and is stopped just then does not come back.
    fn stop_what_gave_way(&mut self) -> Result<(), Violation> {
        self.add_new_unit()?;
        let old = self.any_serving();
        self.say(|_| "a scrub gives way, and is stopped".to_owned());
        self.array().set_speed_limits(CRAWL);
        self.begin_scrub(false)?;
        let array = self.array().clone();
        self.world.run_steps_until(STEPS_MAX, || array.job().is_some_and(|job| job.done_stripes > 0));
        drop(array);
        self.fail_calmly(old)?;
        self.array().stop_job();
        let stopped = self.world.now();
        self.array().set_speed_limits(SpeedLimits::default());
        self.wait_for_jobs()?;
        if let Some(scrub) = self.array().last_scrub().filter(|scrub| scrub.started > stopped) {
            let what = format!("a scrub gave way and was stopped, and came back: {scrub:?}");
            return Err(Checker::Scrub.violation(what));
        }
        // If filling had begun by then, the stop hit the filling.
        self.add_new_unit()?;
        self.expect_filled(old)
    }

    /// An unreadable block costs no member, however often it is read.
    fn read_a_bad_block(&mut self) -> Result<(), Violation> {
        let window = self.desk.windows[self.side_rng.usize(..self.desk.windows.len())].clone();
        let grain = self.array().geometry().logical_block_bytes() as usize / SECTOR_BYTES;
        let first = self.rng.usize(window.clone()) / grain * grain;
        if !self.reads_reach_members()? {
            return Ok(());
        }
        self.lose_sector(first);
        let from_elsewhere = self.side_rng.bool();
        for _ in 0..READS_OF_BAD_BLOCK {
            // Now and then together with the bytes before it: the block counts once, wherever a read begins.
            let start = if from_elsewhere {
                self.side_rng.usize(window.start..=first) / grain * grain
            } else {
                first
            };
            self.check_sectors(&(start.max(window.start)..first + grain))?;
        }
        let report = self.wait_for_jobs()?;
        if report.degraded() > 0 {
            return Err(Checker::Service.violation("one bad block has cost a member"));
        }
        self.heal_all()
    }

    /// Where a resync is due and waits, an unreadable block costs no member either, however often it is read.
    pub(super) fn read_a_bad_block_unsynced(&mut self) -> Result<(), Violation> {
        let array = self.array().clone();
        array.pause_jobs();
        let stripes = array.stripes(0..array.geometry().stripes());
        let (layout, hole) = (self.layout(), &self.hole);
        let is_meant = |block: &Range<usize>| {
            let place = layout.place(block.start * SECTOR_BYTES);
            let row = place.offset_bytes / ROW_BYTES;
            // Where parity may be wrong, a bad block's content is not promised.
            !hole.contains(&row) && !stripes[layout.stripe_of_row(row)].synced
        };
        let blocks: Vec<_> = self.blocks().into_iter().filter(is_meant).collect();
        let is_sound = self.losses() == 0 && self.units.iter().all(Unit::is_sound);
        if !blocks.is_empty() && is_sound && self.report()?.degraded() == 0 && self.reads_reach_members()? {
            let block = blocks[self.side_rng.usize(..blocks.len())].clone();
            self.lose_sector(block.start);
            for _ in 0..READS_OF_BAD_BLOCK {
                self.check_sectors(&block)?;
                self.world.run_for(self.shape.tuning.housekeeping_interval * 3 / 2);
            }
            if self.report()?.degraded() > 0 {
                return Err(
                    Checker::Service.violation("one bad block where a resync is due has cost a member")
                );
            }
        }
        array.resume_jobs();
        Ok(())
    }

    pub(super) fn begin_scrub(&mut self, mend: bool) -> Result<(), Violation> {
        let started = self.array().start_scrub(mend);
        started.map_err(|error| Checker::Service.violation(format!("starting a scrub: {error}")))
    }

    pub(super) fn unit_being_filled(&self) -> Result<Option<usize>, Violation> {
        let array = self.array().clone();
        let report = self.finish(async move { array.report().await }, "a report")?;
        let is_filled = |state| matches!(state, MemberState::Rebuilding | MemberState::Replacing);
        let filled = report.members.iter().find(|member| is_filled(member.state));
        Ok(filled.and_then(|member| self.units.iter().position(|unit| unit.name() == member.name)))
    }

    pub(super) fn any_serving(&mut self) -> usize {
        let serving = self.units_by_role();
        serving[self.rng.usize(..serving.len())]
    }

    /// An operator fails a member.
    pub(super) fn fail_calmly(&mut self, unit: usize) -> Result<(), Violation> {
        let (array, name) = (self.array().clone(), self.units[unit].name().to_owned());
        self.say(|_| format!("fail {name}"));
        let failed = self.finish(async move { array.fail(&name).await }, "failing a member")?;
        failed.map_err(|error| Checker::Service.violation(format!("failing a member: {error}")))
    }

    pub(super) fn remove_calmly(&mut self, unit: usize) -> Result<Result<(), ArrayError>, Violation> {
        let (array, name) = (self.array().clone(), self.units[unit].name().to_owned());
        self.finish(async move { array.remove(&name).await }, "removing a member")
    }

    /// Another member has taken over from a failed one, which is then removed.
    pub(super) fn expect_filled(&mut self, old: usize) -> Result<(), Violation> {
        let report: ArrayReport = self.wait_for_jobs()?;
        let name = self.units[old].name().to_owned();
        let is_faulty = |report: &ArrayReport| {
            report.members.iter().any(|member| member.name == name && member.state == MemberState::Faulty)
        };
        if report.degraded() > 0 || !is_faulty(&report) {
            let states: Vec<_> =
                report.members.iter().map(|m| format!("{} {}", m.name, m.state.name())).collect();
            let what = format!("{name} failed and spares are there; and they are: {}", states.join(", "));
            return Err(Checker::Service.violation(what));
        }
        self.remove_calmly(old)?
            .map_err(|error| Checker::Service.violation(format!("removing a failed member: {error}")))?;
        self.check_redundancy()
    }
}
