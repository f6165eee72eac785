//! Calm times: jobs come to an end, and everything must be well.

use std::ops::Range;

use stripewise_device::Device;
use stripewise_engine::{ArrayError, ArrayReport, JobKind, JobOutcome, JobReport, MemberState, SpeedLimits};

use super::{Story, Unit};
use crate::check::{Checker, Violation, image::Image};

/// How often to check whether pages have their copies.
const COPY_LOOKS: u64 = 20;
/// How often to check whether a resync is over, and steps between two checks.
const RESYNC_LOOKS: u64 = 100;
const RESYNC_STEPS: u64 = 100;

impl Story {
    /// Lets all jobs end, brings the array back to full redundancy if it can be, and checks everything.
    pub(super) fn settle(&mut self) -> Result<(), Violation> {
        self.say(|_| "calm: jobs come to an end".to_owned());
        self.array().resume_jobs();
        self.array().set_speed_limits(SpeedLimits::default());
        self.units.iter().for_each(|unit| unit.sim.set_slowness(1));
        let mut report = self.drop_the_failed()?;
        if report.degraded() > 0 && self.rng.u8(..4) != 0 && self.units.len() < self.shape.members + 6 {
            // A fault that strikes while spares are filled is over once they are.
            let all_sound = self.units.iter().all(Unit::is_sound);
            for _ in 0..report.degraded() {
                self.add_new_unit()?;
            }
            report = self.wait_for_jobs()?;
            if report.degraded() > 0 && all_sound && self.units.iter().all(Unit::is_sound) {
                let job = self.array().last_job();
                let what = format!("spares were added, and the array is degraded still: {job:?}");
                return Err(Checker::Service.violation(what));
            }
        }
        // What clients wrote becomes durable. Twice: a member may fail the first flush, and a spare take over.
        for _ in 0..2 {
            let array = self.array().clone();
            let flushed = self.finish(async move { array.flush().await }, "a flush")?;
            flushed.map_err(|error| Checker::Service.violation(format!("a flush: {error}")))?;
            self.wait_for_jobs()?;
        }
        report = self.drop_the_failed()?;
        self.hole.clear();
        // A member may have been filled while others were lost, and lack blocks that they have now.
        self.units_by_role().into_iter().for_each(|unit| self.look_at_log(unit));
        if report.degraded() == 0 {
            self.check_complete()?;
            let units = &self.units;
            self.lost.retain(|unit| !units[*unit].is_sound());
            self.losses_before = 0;
            self.was_whole = true;
        }
        self.say(|story| {
            let members = report.members.iter().map(|m| format!("{} {}", m.name, m.state.name()));
            let lost: Vec<&str> = story.lost.iter().map(|unit| story.units[*unit].name()).collect();
            let members = members.collect::<Vec<_>>().join(", ");
            format!(
                "members: {members}; not to be counted on: {}",
                if lost.is_empty() { "none".to_owned() } else { lost.join(", ") }
            )
        });
        self.check_content()?;
        self.check_redundancy()?;
        if self.losses() == 0 || self.losses() < self.shape.tolerance() {
            self.heal_all()?;
        }
        let is_whole = report.degraded() == 0 && self.losses() == 0 && self.units.iter().all(Unit::is_sound);
        if !is_whole || self.shape.tolerance() == 0 {
            return Ok(());
        }
        self.try_out()?;
        match self.rng.u8(..14) {
            0 => self.replace_calmly(),
            1 => self.interrupt_scrub(),
            2..5 => self.check_copies(),
            5..9 => self.steer_calmly(),
            _ => self.scrub(),
        }
    }

    /// The superblocks, like the engine, give every role a member in sync.
    fn check_complete(&mut self) -> Result<(), Violation> {
        let is_complete = self.with_image(|image, _| image.in_sync().iter().all(Option::is_some));
        if is_complete == Some(true) {
            return Ok(());
        }
        Err(Checker::Metadata
            .violation("nobody is missing, and the superblocks leave a role without a member"))
    }

    /// After housekeeping, the bitmap has its copies.
    fn check_copies(&mut self) -> Result<(), Violation> {
        // A round may take longer than the interval: it heals listed sectors first.
        let mut checked = Ok(());
        for _ in 0..COPY_LOOKS {
            self.world.run_for(self.shape.tuning.housekeeping_interval * 5 / 2);
            checked = self.with_image(|image, _| image.check_copies()).unwrap_or(Ok(()));
            if checked.is_ok() {
                break;
            }
        }
        checked
    }

    /// Commands that must succeed: a device is added and replaces a member, which is then removed.
    fn replace_calmly(&mut self) -> Result<(), Violation> {
        if self.units.len() >= self.shape.members + 6 {
            return Ok(());
        }
        let serving = self.units_by_role();
        let old = serving[self.rng.usize(..serving.len())];
        self.new_unit();
        let device = self.units[self.units.len() - 1].device.clone();
        let (old, new) = (self.units[old].name().to_owned(), device.info().name.clone());
        self.say(|_| format!("{old} is replaced with {new}"));
        let (array, from, to) = (self.array().clone(), old.clone(), new.clone());
        let replaced = async move {
            array.add(device).await?;
            array.replace(&from, &to).await?;
            array.wait_for_jobs().await;
            array.remove(&from).await?;
            Ok::<_, ArrayError>(array.report().await)
        };
        let report = self.finish(replaced, "replacing a member")?;
        let report =
            report.map_err(|error| Checker::Service.violation(format!("replacing {old}: {error}")))?;
        let state = report.members.iter().find(|member| member.name == new).map(|member| member.state);
        if state == Some(MemberState::InSync) && report.degraded() == 0 {
            return self.check_redundancy();
        }
        Err(Checker::Service.violation(format!("{new} was to replace {old}, and is {state:?}")))
    }

    /// Lets the resync pass, and no more: from then on nothing is forgiven because of it.
    pub(super) fn pass_resync(&mut self) -> Result<(), Violation> {
        let array = self.array().clone();
        let is_over = || array.stripes(0..array.geometry().stripes()).iter().all(|stripe| stripe.synced);
        for _ in 0..RESYNC_LOOKS {
            if is_over() {
                break;
            }
            self.world.run_steps(RESYNC_STEPS);
        }
        if !is_over() {
            return Ok(());
        }
        self.say(|_| "no resync is due any more".to_owned());
        self.hole.clear();
        self.check_content()
    }

    /// Waits for jobs. A member whose request has failed is dropped only once the requests beside it are done: waits for that,
    /// too, and for the jobs that follow.
    pub(super) fn drop_the_failed(&mut self) -> Result<ArrayReport, Violation> {
        let report = self.wait_for_jobs()?;
        if self.units.iter().all(|unit| unit.faults.failed() == 0) {
            return Ok(report);
        }
        self.world.run_for(self.shape.tuning.housekeeping_interval);
        self.wait_for_jobs()
    }

    pub(super) fn wait_for_jobs(&mut self) -> Result<ArrayReport, Violation> {
        let array = self.array().clone();
        let waited = async move {
            array.wait_for_jobs().await;
            array.report().await
        };
        let report = self.finish(waited, "waiting for jobs")?;
        self.check_unfinished_resync()?;
        Ok(report)
    }

    /// A resync that could not read everything except what is lost for good has left work to do.
    fn check_unfinished_resync(&self) -> Result<(), Violation> {
        let array = self.array();
        let is_resync = |job: &JobReport| job.kind == JobKind::Resync;
        let has_failed = |job: &JobReport| matches!(job.outcome, Some(JobOutcome::Failed(_)));
        let failed = array.last_job().filter(|job| is_resync(job) && has_failed(job));
        let Some(failed) = failed.filter(|_| self.losses() < self.shape.tolerance()) else { return Ok(()) };
        let all = 0..array.geometry().stripes();
        if array.stripes(all).iter().any(|stripe| !stripe.synced) {
            return Ok(());
        }
        Err(Checker::Bitmap.violation(format!("a resync failed, and has left nothing to do: {failed:?}")))
    }

    pub(super) fn add_new_unit(&mut self) -> Result<(), Violation> {
        self.new_unit();
        let unit = self.units.last().expect("one was just made");
        let (array, device) = (self.array().clone(), unit.device.clone());
        let added = self.finish(async move { array.add(device).await }, "adding")?;
        added.map_err(|error| Checker::Service.violation(format!("adding a new device: {error}")))
    }

    /// Every sector holds what it may.
    pub(super) fn check_content(&mut self) -> Result<(), Violation> {
        self.desk.windows.clone().iter().try_for_each(|window| self.check_sectors(window))
    }

    /// As [`Story::check_content`], for some sectors.
    pub(super) fn check_sectors(&mut self, sectors: &Range<usize>) -> Result<(), Violation> {
        let ticket = self.desk.sectors.lock().begin_read();
        let content = self.read_window(sectors)?;
        let mut model = self.desk.sectors.lock();
        model.end_read(ticket, sectors.start, &content)?;
        model.settle(sectors.start, &content);
        Ok(())
    }

    /// Everything agrees: data with redundancy, and the choices that members keep. What a cache holds may be on its way to
    /// members: it is flushed first.
    pub(super) fn check_redundancy(&mut self) -> Result<(), Violation> {
        if self.array.as_ref().is_some_and(|array| array.cache().is_some()) {
            self.flush_all()?;
        }
        let look =
            |image: &Image<'_>, _: &mut [Unit]| image.check_redundancy().and_then(|()| image.check_options());
        self.with_image(look).unwrap_or(Ok(()))
    }

    /// The members in sync, as units, by role.
    pub(super) fn units_by_role(&mut self) -> Vec<usize> {
        self.with_image(|image, _| image.in_sync().into_iter().flatten().collect()).unwrap_or_default()
    }

    /// Rests, mostly long enough for the array to become clean: its regions must be looked at twice.
    pub(super) fn rest(&mut self) {
        let time = self.shape.tuning.housekeeping_interval * self.rng.u32(1..=3);
        self.say(|_| format!("{time:?} pass"));
        self.world.run_for(time);
    }

    /// Units that an action may pick: not in the array, or failed in it.
    pub(super) fn idle_units(&self) -> Vec<usize> {
        let array = self.array().clone();
        let report = self.world.run_within(super::STEPS_MAX, async move { array.report().await });
        let busy: Vec<String> = report
            .into_iter()
            .flat_map(|report| report.members)
            .filter(|member| member.state != MemberState::Faulty)
            .map(|member| member.name)
            .collect();
        (0..self.units.len())
            .filter(|unit| !busy.iter().any(|name| name == self.units[*unit].name()))
            .collect()
    }
}
