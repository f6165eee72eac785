//! An array that has lost as many members as its level tolerates: it does not release one more, has no
//! redundancy to scrub, does not call an unfinished scrub done, and keeps working even if the member that is
//! being filled fails.

use stripewise_engine::{ArrayError, JobKind, JobOutcome, JobReport, MemberState, geometry::MemberIndex};

use super::{Slot, Story};
use crate::check::{Checker, Violation};

/// The most steps until a scrub has reached its target.
const SCRUB_STEPS_MAX: u64 = 50_000;
/// A member fails when a scrub has at most this many stripes left.
const LAST_STRIPES: u64 = 8;
/// Factor on the latency of a member that a scrub waits for meanwhile.
const SLOWNESS: u32 = 20;

impl Story {
    /// Loses as many members of a whole array as its level tolerates, and brings them back.
    pub(super) fn go_to_the_brink(&mut self) -> Result<(), Violation> {
        self.say(|_| "an operator fails as many members as the level tolerates".to_owned());
        let mut serving = self.units_by_role();
        self.side_rng.shuffle(&mut serving);
        let left = serving.split_off(self.shape.tolerance());
        if self.side_rng.bool() && !self.has_spares()? {
            self.fail_while_scrubbing(&serving, left[0])?;
            self.array().pause_jobs();
        } else {
            // Waiting spares must not be filled meanwhile.
            self.array().pause_jobs();
            self.fail_all_of(&serving)?;
        }
        self.expect_kept(left[0])?;
        self.expect_no_scrub()?;
        self.add_again(serving[0])?;
        self.lose_incoming()?;
        self.array().resume_jobs();
        for unit in serving {
            self.come_back(unit)?;
        }
        self.expect_whole("members that had failed were added again")
    }

    /// An operator fails these members, one after the other.
    fn fail_all_of(&mut self, units: &[usize]) -> Result<(), Violation> {
        units.iter().try_for_each(|unit| self.fail_calmly(*unit))
    }

    /// Whether a spare waits.
    pub(super) fn has_spares(&self) -> Result<bool, Violation> {
        Ok(self.report()?.members.iter().any(|member| member.state == MemberState::Spare))
    }

    /// The last of these members fails while a scrub has some of its last stripes left: from then on the
    /// scrub has nothing to compare, and it is not done.
    fn fail_while_scrubbing(&mut self, units: &[usize], slow: usize) -> Result<(), Violation> {
        let (last, before) = units.split_last().expect("a level that tolerates a loss");
        self.fail_all_of(before)?;
        // Reads under way must take longer than the failure.
        self.units[slow].sim.set_slowness(SLOWNESS);
        let mend = self.side_rng.bool();
        self.begin_scrub(mend)?;
        let left = self.side_rng.u64(1..=LAST_STRIPES);
        self.run_to_stripe(self.shape.stripes().saturating_sub(left));
        let failing = self.start_failing(*last);
        let is_cut_short = self.loses_redundancy_in_scrub();
        self.wait_for(failing, "failing a member")?
            .map_err(|error| Checker::Service.violation(format!("failing a member: {error}")))?;
        self.units[slow].sim.set_slowness(1);
        self.wait_for_jobs()?;
        let is_done = |scrub: &JobReport| scrub.outcome == Some(JobOutcome::Done);
        match self.array().last_scrub().filter(is_done) {
            Some(scrub) if is_cut_short => {
                let what = format!("redundancy was lost during a scrub, which is called done: {scrub:?}");
                Err(Checker::Scrub.violation(what))
            }
            _ => Ok(()),
        }
    }

    /// The check or repair under way.
    fn scrub_under_way(&self) -> Option<JobReport> {
        self.array().job().filter(|job| matches!(job.kind, JobKind::Check | JobKind::Repair))
    }

    /// Runs until a scrub has done this many stripes.
    fn run_to_stripe(&self, stripes: u64) {
        let is_so_far = || self.scrub_under_way().is_some_and(|job| job.done_stripes >= stripes);
        self.world.run_steps_until(SCRUB_STEPS_MAX, is_so_far);
    }

    /// An operator begins to fail a member.
    fn start_failing(&mut self, unit: usize) -> Slot<Result<(), ArrayError>> {
        let (array, name) = (self.array().clone(), self.units[unit].name().to_owned());
        self.say(|_| format!("fail {name} during a scrub"));
        self.world.start(async move { array.fail(&name).await })
    }

    /// Runs until no redundancy is left, or the scrub is over. True: the scrub has stripes left.
    fn loses_redundancy_in_scrub(&self) -> bool {
        let (array, last) = (self.array(), self.shape.stripes() - 1);
        let is_lost = || array.stripes(last..last + 1)[0].missing.len() == self.shape.tolerance();
        self.world.run_steps_until(SCRUB_STEPS_MAX, || is_lost() || self.scrub_under_way().is_none());
        is_lost() && self.scrub_under_way().is_some_and(|job| job.done_stripes < job.total_stripes)
    }

    /// An operator cannot fail a member that the array needs.
    fn expect_kept(&mut self, unit: usize) -> Result<(), Violation> {
        let (array, name) = (self.array().clone(), self.units[unit].name().to_owned());
        let failed = self.finish(async move { array.fail(&name).await }, "failing a member")?;
        let report = self.report()?;
        if !matches!(failed, Err(ArrayError::Member { .. })) || report.failed {
            let name = self.units[unit].name();
            let what = format!("{name} is one too many to fail: {failed:?}; failed: {}", report.failed);
            return Err(Checker::Service.violation(what));
        }
        self.write_any_block()
    }

    /// Without redundancy, no scrub starts.
    fn expect_no_scrub(&self) -> Result<(), Violation> {
        let started = self.array().start_scrub(self.plan.seed.is_multiple_of(2));
        if matches!(started, Err(ArrayError::Unsupported(_))) {
            return Ok(());
        }
        let what = format!("no redundancy is left, and a scrub was started: {started:?}");
        Err(Checker::Service.violation(what))
    }

    /// A member that is being filled fails, which takes nothing from the array.
    fn lose_incoming(&mut self) -> Result<(), Violation> {
        if !self.wait_for_filling(|_| true) {
            return Ok(());
        }
        let Some(unit) = self.unit_being_filled()? else { return Ok(()) };
        if self.side_rng.bool() {
            let role = self.role_of(unit)?;
            self.fail_calmly(unit)?;
            if self.role_of(unit)? != role {
                let what = format!(
                    "{} was being filled for {role:?} and failed, and has another role",
                    self.units[unit].name()
                );
                return Err(Checker::Service.violation(what));
            }
        } else {
            self.units[unit].faults.set_gone(true);
            self.say(|story| format!("{}, which is being filled, vanishes", story.units[unit].name()));
            self.array().resume_jobs();
            self.wait_for_jobs()?;
        }
        self.write_any_block()?;
        self.come_back(unit)
    }

    /// The role of a unit, present or past, by the array's report.
    fn role_of(&self, unit: usize) -> Result<Option<MemberIndex>, Violation> {
        let (report, name) = (self.report()?, self.units[unit].name());
        Ok(report.members.iter().find(|member| member.name == name).and_then(|member| member.slot))
    }

    /// A failed unit is added again; one that serves, waits or is being filled stays.
    fn come_back(&mut self, unit: usize) -> Result<(), Violation> {
        self.units[unit].faults.set_gone(false);
        if self.idle_units().contains(&unit) { self.add_again(unit) } else { Ok(()) }
    }
}
