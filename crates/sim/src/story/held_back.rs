//! A spare is filled where a resync was stopped. Then another member is lost, so that nothing is left
//! to compare with: what the spare holds must not count as equal to the rest.

use stripewise_engine::{JobKind, JobReport, SpeedLimits};

use super::{Story, operator::CRAWL};
use crate::check::{SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// Steps in which a job begins, or a crawling rebuild passes a stripe.
const STEPS_MAX: u64 = 20_000;

impl Story {
    /// Power fails and leaves a row with wrong Q. One member is lost, the resync is stopped, and the lost
    /// member's role is filled beyond that row when another member is lost.
    pub(super) fn fill_before_a_resync(&mut self) -> Result<(), Violation> {
        if self.shape.tolerance() < 2 || !self.shape.level.has_parity() || self.shape.is_vast {
            return Ok(());
        }
        let (block, layout) = (self.any_block(), self.layout());
        let place = layout.place(block.start * SECTOR_BYTES);
        let row = place.offset_bytes / ROW_BYTES;
        let stripe = layout.stripe_of_row(row);
        let serving = self.units_by_role();
        let q_role = layout.q_role(stripe);
        let mut roles: Vec<usize> = (0..serving.len()).filter(|role| *role != q_role).collect();
        self.side_rng.shuffle(&mut roles);
        let (first, second) = (serving[roles[0]], serving[roles[1]]);
        self.flush_all()?;
        self.write_well(&block)?;
        self.flush_all()?;
        self.lose_power()?;
        self.spoil(serving[q_role], row, 0);
        self.hole.insert(row);
        self.open_plainly()?;
        self.array().pause_jobs();
        self.lost.insert(first);
        self.fail_calmly(first)?;
        self.add_again(first)?;
        self.array().set_speed_limits(CRAWL);
        self.array().resume_jobs();
        self.stop_the_resync();
        let is_filled_there =
            |job: JobReport| job.kind == JobKind::Rebuild && job.done_stripes > stripe as u64;
        let array = self.array().clone();
        self.world.run_steps_until(STEPS_MAX, || array.job().is_some_and(is_filled_there));
        self.say(|_| format!("row {row} is wrong, and the spare is filled there"));
        // What parity gives back in this row may be wrong.
        self.lost.insert(second);
        self.forgive_hole(|role, _| role == roles[0] || role == roles[1]);
        self.fail_calmly(second)?;
        array.stop_job();
        array.set_speed_limits(SpeedLimits::default());
        self.wait_for_jobs()?;
        self.add_again(second)?;
        self.wait_for_jobs()?;
        self.flush_all()?;
        self.lost.remove(&first);
        self.lost.remove(&second);
        self.hole.remove(&row);
        self.expect_whole("a spare was filled where a resync was stopped, and another member was lost")
    }

    /// Stops a resync, if one is under way or due.
    fn stop_the_resync(&mut self) {
        let array = self.array().clone();
        self.world.run_steps_until(STEPS_MAX, || array.job().is_some());
        if array.job().is_some_and(|job| job.kind == JobKind::Resync) {
            array.stop_job();
        }
    }
}
