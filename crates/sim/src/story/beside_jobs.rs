//! Requests, failures and speeds beside a job: the content of a member that is being filled while clients
//! crowd, the position that an interrupted rebuild records, and the limits of a job's speed.

use std::time::Duration;

use stripewise_engine::{JobKind, MemberState, SpeedLimits};

use super::{Slot, Story, operator::CRAWL};
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES, superblock::Superblock};

/// Steps between events that are to meet.
const MEETING_STEPS: u64 = 40;
/// Steps in which a job begins and does some work.
const JOB_STEPS: u64 = 20_000;
/// Time in which an unlimited job does the rest of a batch and another one.
const RELEASED: Duration = Duration::from_millis(400);
/// Time in which a job's speed is measured.
const MEASURED: Duration = Duration::from_secs(20);

impl Story {
    /// Clients write, read and zero one stripe while a member is filled, either to replace another or in a
    /// vacant role, and a member that it is filled from may fail: all reads are right, and so is the new
    /// member's content.
    pub(super) fn fill_beside_a_crowd(&mut self) -> Result<(), Violation> {
        let block = self.any_block();
        if !self.is_whole_block(block.start) {
            return Ok(());
        }
        let Some(new) = self.spare_unit()? else { return Ok(()) };
        self.flush_all()?;
        let (old, is_vacant) = (self.any_serving(), self.side_rng.bool());
        let clients = if self.side_rng.bool() {
            let clients = self.crowd(block.start);
            self.pass_steps(MEETING_STEPS);
            self.begin_filling(old, new, is_vacant)?;
            clients
        } else {
            self.array().set_speed_limits(CRAWL);
            self.begin_filling(old, new, is_vacant)?;
            self.crowd_before_filling(block.start)
        };
        self.pass_steps(MEETING_STEPS);
        let other = self.source_beside(old, block.start);
        let may_fail = !is_vacant || self.shape.tolerance() > 1;
        let fails_one = may_fail && self.side_rng.bool() && self.fail_if_there(other)?;
        self.wait_for_clients(&clients)?;
        self.wait_for_jobs()?;
        self.check_content()?;
        if fails_one {
            self.add_again(other)?;
        }
        self.expect_whole("clients crowded while a member was filled")
    }

    /// A member that another one is filled from, beside a crowd: the replaced one, the one that holds the
    /// crowded block, or any.
    fn source_beside(&mut self, old: usize, sector: usize) -> usize {
        let any = self.any_serving();
        let serving = self.units_by_role();
        let role = self.layout().place(sector * SECTOR_BYTES).role;
        match self.side_rng.u8(..3) {
            0 if serving.contains(&old) => old,
            1 => self.unit_of_role(role).unwrap_or(any),
            _ => any,
        }
    }

    /// An operator fails a member, which may just have left for its replacement. False: it has.
    fn fail_if_there(&mut self, unit: usize) -> Result<bool, Violation> {
        let (array, name) = (self.array().clone(), self.units[unit].name().to_owned());
        self.say(|_| format!("fail {name}"));
        let failed = self.finish(async move { array.fail(&name).await }, "failing a member")?;
        match failed {
            Ok(()) => Ok(true),
            Err(_) if self.state_of(unit)? == Some(MemberState::Faulty) => Ok(false),
            Err(error) => Err(Checker::Service.violation(format!("failing a member: {error}"))),
        }
    }

    /// Begins to fill a member in the role of another one, which is still there or has failed.
    fn begin_filling(&mut self, old: usize, new: usize, is_vacant: bool) -> Result<(), Violation> {
        if is_vacant { self.fail_calmly(old) } else { self.begin_replacing(old, new) }
    }

    /// Fills a member, slowly, up to the stripe of a sector; then many clients crowd there, and filling
    /// continues.
    fn crowd_before_filling(&mut self, sector: usize) -> Vec<Slot<()>> {
        let stripe = (sector * SECTOR_BYTES / self.layout().stripe_bytes()) as u64;
        self.wait_for_filling(|job| job.done_stripes >= stripe.min(job.total_stripes - 1));
        let mut clients = self.crowd(sector);
        clients.extend(self.crowd(sector));
        self.pass_steps(MEETING_STEPS);
        self.array().set_speed_limits(SpeedLimits::default());
        clients
    }

    /// A stopped rebuild has recorded its position.
    pub(super) fn stop_a_rebuild(&mut self) -> Result<(), Violation> {
        let Some(new) = self.spare_unit()? else { return Ok(()) };
        let old = self.any_serving();
        self.array().set_speed_limits(CRAWL);
        self.begin_replacing(old, new)?;
        let array = self.array().clone();
        let drawn = self.side_rng.u64(1..=self.shape.stripes());
        self.world.run_steps_until(JOB_STEPS, || array.job().is_some_and(|job| job.done_stripes >= drawn));
        let jobs_end = self.side_rng.bool();
        if jobs_end {
            array.stop_job();
            self.wait_for_jobs()?;
        }
        self.stop()?;
        let filled = Superblock::read(&self.units[new].sim.bytes()).and_then(|block| block.filled);
        let stopped = array.last_job().filter(|job| job.kind == JobKind::Replace);
        drop(array);
        if let (Some((filled, _)), Some(job)) = (filled, stopped) {
            let done = (job.done_stripes * job.chunk_bytes).min(self.shape.data_bytes);
            if (filled as u64) < done / ROW_BYTES as u64 * ROW_BYTES as u64 {
                let what =
                    format!("{done} bytes were filled when it was stopped, and {filled} are on record");
                return Err(Checker::Metadata.violation(what));
            }
        }
        self.open_plainly()?;
        self.wait_for_jobs()?;
        self.expect_whole("a replacement went on at the next opening")
    }

    /// A job that waits because of its limit continues as soon as the limit is raised.
    pub(super) fn release_a_job(&mut self) -> Result<(), Violation> {
        self.array().set_speed_limits(CRAWL);
        self.begin_scrub(false)?;
        self.world.run_for(Duration::from_millis(self.side_rng.u64(1..500)));
        let array = self.array().clone();
        let before = array.job();
        array.set_speed_limits(SpeedLimits::default());
        self.world.run_for(RELEASED);
        if let (Some(before), Some(after)) = (before, array.job())
            && before.done_stripes == after.done_stripes
        {
            let what = format!("a check was slow, may be as fast as it can, and waits: {after:?}");
            return Err(Checker::Service.violation(what));
        }
        drop(array);
        self.wait_for_jobs().map(drop)
    }

    /// The upper limit holds, even if the lower one is above it and clients are busy.
    pub(super) fn keep_to_the_limit(&mut self) -> Result<(), Violation> {
        let max_bytes_per_s = CRAWL.max_bytes_per_s;
        self.array().set_speed_limits(SpeedLimits { min_bytes_per_s: u64::MAX, max_bytes_per_s });
        self.begin_scrub(false)?;
        let array = self.array().clone();
        let done = || array.job().map(|job| job.done_stripes * job.chunk_bytes);
        self.world.run_steps_until(JOB_STEPS, || done().is_some_and(|bytes| bytes > 0));
        let (before, begun) = (done(), self.world.now());
        while self.world.now().since(begun) < MEASURED && done().is_some() {
            self.write_any_block()?;
            self.world.run_for(MEASURED / 100);
        }
        let seconds = self.world.now().since(begun).as_secs_f64();
        let over = array.last_scrub().filter(|scrub| scrub.started.0 < begun.0 && scrub.outcome.is_some());
        let bytes = before.zip(done().or(over.map(|scrub| scrub.done_stripes * scrub.chunk_bytes)));
        // Bytes on their way count when they are done.
        let may_be = seconds * max_bytes_per_s as f64 + 2.0 * self.on_its_way() as f64;
        array.set_speed_limits(SpeedLimits::default());
        drop(array);
        self.wait_for_jobs()?;
        match bytes.filter(|(before, after)| (after - before) as f64 > may_be) {
            None => Ok(()),
            Some((before, after)) => {
                let what = format!(
                    "a check that may read {max_bytes_per_s} bytes a second has read {} in {seconds} s",
                    after - before
                );
                Err(Checker::Service.violation(what))
            }
        }
    }

    /// Bytes of each member that a job may have on its way.
    fn on_its_way(&self) -> u64 {
        let tuning = &self.shape.tuning;
        let batch = tuning.disk_batch_bytes.max(tuning.flash_batch_bytes);
        tuning.in_flight_bytes.max(batch) + batch + u64::from(self.shape.chunk_bytes)
    }

    fn pass_steps(&mut self, most: u64) {
        let steps = self.side_rng.u64(..most);
        self.world.run_steps(steps);
    }
}
