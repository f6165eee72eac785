//! A crash leaves some members an event behind, and one of the others fails when the array is opened again.

use super::Story;
use crate::{Sight, check::Violation};

/// Members that may keep pages of the bitmap.
const HOLDERS: usize = 3;
/// The most steps from the first superblock that a change writes to the power failure.
const CHANGE_STEPS_MAX: u64 = 3;
/// The same for the first superblock that an opening writes.
const OPENING_STEPS_MAX: u64 = 14;

impl Story {
    /// Power fails while superblocks are written. A member fails while the array is opened again, and power
    /// fails while that is recorded: no other member may be two events behind.
    pub(super) fn fail_while_others_are_behind(&mut self) -> Result<(), Violation> {
        if !self.shape.level.has_parity() || self.shape.is_vast {
            return Ok(());
        }
        self.flush_all()?;
        let serving = self.units_by_role();
        let array = self.array().clone();
        // The policy that it has: only the event count grows.
        let change = async move { _ = array.set_policy(array.policy()).await };
        self.world.env().spawn(Box::pin(change));
        self.lose_power_after_a_superblock(CHANGE_STEPS_MAX)?;
        let holder = serving[self.side_rng.usize(..HOLDERS.min(serving.len()))];
        let Some(unit) = self.take_victim(holder) else { return self.open_plainly() };
        self.units[unit].sim.fail_once();
        self.say(|story| format!("{} fails its next write, others are behind", story.units[unit].name()));
        let opening = self.start_opening(false, |_| true);
        self.lose_power_after_a_superblock(OPENING_STEPS_MAX)?;
        drop(opening);
        self.open_until_it_serves()?;
        self.wait_for_jobs()?;
        if self.report()?.degraded() > 0 {
            self.add_again(unit)?;
        }
        self.wait_for_jobs()?;
        self.flush_all()?;
        self.lost.remove(&unit);
        self.expect_whole("a member failed while others were behind")
    }

    fn lose_power_after_a_superblock(&mut self, steps_max: u64) -> Result<(), Violation> {
        self.wait_to_see(Sight::Superblock);
        let steps = self.side_rng.u64(..steps_max);
        self.world.run_steps(steps);
        self.lose_power()
    }
}
