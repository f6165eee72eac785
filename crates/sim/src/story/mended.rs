//! Scrubs and failures beside members that are being filled: a scrub that gives way keeps its findings, a
//! repair also mends members that are not yet whole, and a member that fails while it is filled takes no
//! role.

use stripewise_device::{
    IoErrorKind,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::{JobKind, MemberState, SpeedLimits, geometry::Level};

use super::{Story, operator::CRAWL};
use crate::check::{Checker, Violation, layout::ROW_BYTES};

/// Stripes at the start of the array; one of them is made wrong.
const FIRST_STRIPES: u64 = 4;
/// The most steps from the first writes to a repair, and from that to a failure.
const REPAIR_STEPS: u64 = 30;
/// Steps that a crawling job has to reach its target.
const STEPS_MAX: u64 = 20_000;

impl Story {
    /// A check that found something and gives way to a rebuild continues, and reports what it had found.
    pub(super) fn find_and_give_way(&mut self) -> Result<(), Violation> {
        if self.spare_unit()?.is_none() {
            return Ok(());
        }
        let old = self.any_serving();
        let stripe = self.side_rng.u64(..self.shape.stripes().min(FIRST_STRIPES));
        self.make_wrong(old, stripe);
        self.array().set_speed_limits(CRAWL);
        self.begin_scrub(false)?;
        let array = self.array().clone();
        let has_found = self.world.run_steps_until(STEPS_MAX, || {
            array.job().is_some_and(|job| job.kind == JobKind::Check && job.mismatched_rows > 0)
        });
        drop(array);
        // The member leaves, and the wrong byte with it.
        self.fail_calmly(old)?;
        self.array().set_speed_limits(SpeedLimits::default());
        self.wait_for_jobs()?;
        let found = self.array().last_scrub().map(|scrub| scrub.mismatched_rows);
        if has_found && found != Some(1) {
            let what =
                format!("a check had found a row in stripe {stripe}, gave way, and tells of {found:?}");
            return Err(Checker::Scrub.violation(what));
        }
        self.expect_filled(old)
    }

    /// A repair beside a half-done replacement also mends what that has copied.
    pub(super) fn repair_while_filling(&mut self) -> Result<(), Violation> {
        let Some(new) = self.spare_unit()? else { return Ok(()) };
        let stripe = self.side_rng.u64(..self.shape.stripes().min(FIRST_STRIPES));
        let role = self.mendable_role(stripe);
        let old = self.units_by_role()[role];
        self.array().set_speed_limits(CRAWL);
        self.begin_replacing(old, new)?;
        self.wait_for_filling(|job| job.done_stripes > stripe);
        self.array().stop_job();
        self.array().set_speed_limits(SpeedLimits::default());
        self.wait_for_jobs()?;
        if self.unit_being_filled()? == Some(new) {
            self.say(|_| "what was copied is wrong, and repaired".to_owned());
            let offset = self.make_wrong(old, stripe);
            self.copy_byte(old, new, offset);
            self.run_scrub(true)?;
            self.check_redundancy()?;
            // A change of members lets filling continue.
            self.fail_calmly(old)?;
        }
        self.expect_filled(old)
    }

    /// A member that fails a write or a flush while it is filled is dropped, and the next one takes the role.
    pub(super) fn fail_while_filling(&mut self) -> Result<(), Violation> {
        let Some(new) = self.spare_unit()? else { return Ok(()) };
        let old = self.any_serving();
        self.array().set_speed_limits(CRAWL);
        self.begin_replacing(old, new)?;
        let operation = if self.side_rng.bool() { Operation::Write } else { Operation::Flush };
        self.units[new].faults.add(FaultRule {
            operation,
            range_bytes: self.units[new].data_offset_bytes..u64::MAX,
            kind: IoErrorKind::Medium,
            times: 1,
            healed_by_write: false,
        });
        self.say(|story| format!("{} fails its next {operation:?}", story.units[new].name()));
        self.array().set_speed_limits(SpeedLimits::default());
        // A flush that housekeeping has begun on all members drops it only once the others have answered, too.
        self.drop_the_failed()?;
        let has_failed = self.units[new].faults.failed() > 0;
        let state = self.state_of(new)?;
        if has_failed && state != Some(MemberState::Faulty) {
            let what = format!(
                "{} failed a {operation:?} while it was filled, and is {state:?}",
                self.units[new].name()
            );
            return Err(Checker::Service.violation(what));
        }
        self.expect_whole("a member failed while it was filled to replace another")
    }

    /// A member is failed while a repair waits for rows that clients write to: the repair uses nothing of
    /// that member.
    pub(super) fn fail_while_repairing(&mut self) -> Result<(), Violation> {
        if self.shape.level == Level::Raid1 {
            return Ok(());
        }
        self.flush_all()?;
        let block = self.any_block();
        let clients = self.crowd(block.start);
        let steps = self.side_rng.u64(..REPAIR_STEPS);
        self.world.run_steps(steps);
        self.begin_scrub(true)?;
        let steps = self.side_rng.u64(..REPAIR_STEPS);
        self.world.run_steps(steps);
        let old = self.any_serving();
        self.fail_calmly(old)?;
        self.wait_for_clients(&clients)?;
        self.wait_for_jobs()?;
        self.check_content()?;
        self.add_again(old)?;
        self.expect_whole("a member was failed while a repair ran")
    }

    /// A role of a stripe that a repair writes: of parity, or of a mirror that is not the first.
    pub(super) fn mendable_role(&self, stripe: u64) -> usize {
        let layout = self.layout();
        if layout.level == 1 { layout.members - 1 } else { layout.parity_role(stripe as usize) }
    }

    /// Gives a unit the same wrong byte as another one.
    fn copy_byte(&mut self, from: usize, to: usize, offset: u64) {
        let wrong = self.units[from].sim.bytes()[(self.units[from].data_offset_bytes + offset) as usize];
        self.units[to].sim.poke(self.units[to].data_offset_bytes + offset, &[wrong]);
    }

    /// Flips a bit of a unit's data in a stripe; returns where.
    pub(super) fn make_wrong(&mut self, unit: usize, stripe: u64) -> u64 {
        let chunk = u64::from(self.shape.chunk_bytes);
        let end = ((stripe + 1) * chunk).min(self.shape.data_bytes);
        let offset = self.side_rng.u64(stripe * chunk..end);
        let at = self.units[unit].data_offset_bytes + offset;
        let sim = self.units[unit].sim.clone();
        let right = sim.bytes()[at as usize];
        sim.poke(at, &[right ^ 1 << self.side_rng.u8(..8)]);
        self.say(|story| {
            let (name, row) = (story.units[unit].name(), offset as usize / ROW_BYTES);
            format!("a bit flips on {name} in row {row}")
        });
        offset
    }
}
