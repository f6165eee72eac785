//! Jobs that an operator stopped, or that are done: none of them begins again by itself, neither at once nor
//! at the next opening. The next resync passes what a stopped one had not passed.

use stripewise_engine::{JobKind, JobReport, MemberState, SpeedLimits};

use super::{Story, operator::CRAWL};
use crate::{
    Sight,
    check::{Checker, Violation},
};

/// Blocks written before power fails, so that a resync is due.
const WRITES: usize = 4;
/// The most steps from an opening until its resync has begun.
const BEGIN_STEPS_MAX: u64 = 20_000;
/// The most steps of a resync until it is stopped.
const STOP_STEPS_MAX: u64 = 60;
/// The most steps from when a scrub gives way until it is stopped.
const GIVING_WAY_STEPS_MAX: u64 = 12;
/// Rounds of housekeeping in which a stopped job must not come back.
const IDLE_ROUNDS: u32 = 4;

impl Story {
    /// A resync that an operator stops stays stopped until the array is opened again; then it runs to its
    /// end.
    pub(super) fn stop_a_resync(&mut self) -> Result<(), Violation> {
        for _ in 0..WRITES {
            self.write_any_block()?;
        }
        // Flushed data is certain, and its regions are still marked.
        self.flush_all()?;
        self.lose_power()?;
        self.open_plainly()?;
        if self.side_rng.bool() {
            self.array().pause_jobs();
        }
        self.array().set_speed_limits(CRAWL);
        if self.has_resync_begun() {
            self.say(|_| "a resync is stopped".to_owned());
            let steps = self.side_rng.u64(..STOP_STEPS_MAX);
            self.world.run_steps(steps);
            self.array().stop_job();
            self.expect_no_job()?;
        }
        self.array().set_speed_limits(SpeedLimits::default());
        self.array().resume_jobs();
        self.wait_for_jobs()?;
        self.open_anew()?;
        self.wait_for_jobs()?;
        let all = 0..self.array().geometry().stripes();
        if self.array().stripes(all).iter().any(|stripe| !stripe.synced) {
            let what = "a resync was stopped, and the next opening does not carry it to its end";
            return Err(Checker::Service.violation(what));
        }
        self.expect_whole("a resync was stopped, and the next opening resumed it")
    }

    /// A scrub gives way to the filling of another member and is stopped in that moment: it does not come
    /// back, not even at the next opening.
    pub(super) fn stop_a_scrub_that_gives_way(&mut self) -> Result<(), Violation> {
        let Some(new) = self.spare_unit()? else { return Ok(()) };
        self.flush_all()?;
        let old = self.any_serving();
        self.array().set_speed_limits(CRAWL);
        let mends = self.side_rng.u8(..4) != 0;
        self.begin_scrub(mends)?;
        let array = self.array().clone();
        self.world.run_steps_until(BEGIN_STEPS_MAX, || array.job().is_some_and(|job| job.done_stripes > 0));
        let (from, to) = (self.units[old].name().to_owned(), self.units[new].name().to_owned());
        self.say(|_| format!("a scrub gives way as {to} is to replace {from}, and is stopped"));
        let replacer = array.clone();
        self.world.env().spawn(Box::pin(async move { _ = replacer.replace(&from, &to).await }));
        if mends {
            // A scrub flushes its repairs before it gives way.
            self.wait_to_see(Sight::Flush);
        }
        let steps = self.side_rng.u64(..GIVING_WAY_STEPS_MAX);
        self.world.run_steps(steps);
        array.stop_job();
        let stopped = self.world.now();
        array.set_speed_limits(SpeedLimits::default());
        self.wait_for_jobs()?;
        if let Some(scrub) = array.last_scrub().filter(|scrub| scrub.started > stopped) {
            let what = format!("a scrub gave way and was stopped, and came back: {scrub:?}");
            return Err(Checker::Scrub.violation(what));
        }
        drop(array);
        self.expect_no_scrub_goes_on("a scrub gave way, and was stopped")?;
        self.expect_whole("a scrub that gave way was stopped")
    }

    /// A spare that arrives while a check runs takes a vacant role at once.
    pub(super) fn add_during_a_check(&mut self) -> Result<(), Violation> {
        let has_spares = self.report()?.members.iter().any(|member| member.state == MemberState::Spare);
        if self.shape.tolerance() < 2 || has_spares {
            return Ok(());
        }
        let old = self.any_serving();
        self.fail_calmly(old)?;
        self.array().set_speed_limits(CRAWL);
        self.begin_scrub(false)?;
        let array = self.array().clone();
        let is_under_way = || array.job().is_some_and(|job| job.kind == JobKind::Check);
        if self.world.run_steps_until(BEGIN_STEPS_MAX, is_under_way) {
            self.add_again(old)?;
            self.world.run_for(self.shape.tuning.housekeeping_interval);
            if is_under_way() && self.report()?.degraded() > 0 {
                let what = "a spare came for a vacant role, and a check goes on all the same";
                return Err(Checker::Service.violation(what));
            }
        } else {
            self.add_again(old)?;
        }
        array.set_speed_limits(SpeedLimits::default());
        drop(array);
        self.expect_whole("a spare came while a check ran")
    }

    /// Waits until the resync of an opening has begun. False: none is under way.
    fn has_resync_begun(&self) -> bool {
        let array = self.array();
        let is_resync = |job: JobReport| job.kind == JobKind::Resync;
        let has_begun = || array.job().is_some_and(is_resync);
        self.world.run_steps_until(BEGIN_STEPS_MAX, || has_begun() || array.last_job().is_some())
            && has_begun()
    }

    /// The job under way was told to stop: soon no job is under way, and none begins.
    fn expect_no_job(&self) -> Result<(), Violation> {
        // A job that began would wait, and be seen.
        self.array().pause_jobs();
        self.world.run_for(self.shape.tuning.housekeeping_interval * IDLE_ROUNDS);
        match self.array().job() {
            None => Ok(()),
            Some(job) => {
                let what = format!("an operator stopped the job under way, and a job is under way: {job:?}");
                Err(Checker::Service.violation(what))
            }
        }
    }

    /// The array is opened anew: no scrub continues, as an operator stopped the last one, or it is done.
    pub(super) fn expect_no_scrub_goes_on(&mut self, why: &str) -> Result<(), Violation> {
        self.open_anew()?;
        self.wait_for_jobs()?;
        match self.array().last_scrub() {
            None => Ok(()),
            Some(scrub) => {
                let what = format!("{why}, and at the next opening a scrub went on: {scrub:?}");
                Err(Checker::Scrub.violation(what))
            }
        }
    }

    /// The array is stopped, or power fails; then it is opened with all devices.
    pub(super) fn open_anew(&mut self) -> Result<(), Violation> {
        if self.side_rng.bool() {
            self.stop()?;
        } else {
            self.flush_all()?;
            self.lose_power()?;
        }
        self.open_plainly()
    }
}
