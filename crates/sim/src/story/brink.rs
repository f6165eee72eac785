//! An array that has lost as many members as its level tolerates: it does not let go of one more, has no redundancy to scrub, and
//! works on, also if the member that is being filled fails.

use stripewise_engine::ArrayError;

use super::Story;
use crate::check::{Checker, Violation};

impl Story {
    /// Loses as much of an array that is whole as its level tolerates, and brings it back.
    pub(super) fn go_to_the_brink(&mut self) -> Result<(), Violation> {
        self.say(|_| "an operator fails as many members as the level tolerates".to_owned());
        // Spares that wait already are not to be filled meanwhile.
        self.array().pause_jobs();
        let mut serving = self.units_by_role();
        self.side_rng.shuffle(&mut serving);
        let left = serving.split_off(self.shape.tolerance());
        for unit in &serving {
            self.fail_calmly(*unit)?;
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

    /// An operator cannot fail a member that the array cannot do without.
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

    /// Where no redundancy is left, none can be scrubbed.
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
            self.fail_calmly(unit)?;
        } else {
            self.units[unit].faults.set_gone(true);
            self.say(|story| format!("{}, which is being filled, vanishes", story.units[unit].name()));
            self.array().resume_jobs();
            self.wait_for_jobs()?;
        }
        self.write_any_block()?;
        self.come_back(unit)
    }

    /// A unit that failed is added again; one that serves, waits or is being filled stays.
    fn come_back(&mut self, unit: usize) -> Result<(), Violation> {
        self.units[unit].faults.set_gone(false);
        if self.idle_units().contains(&unit) { self.add_again(unit) } else { Ok(()) }
    }
}
