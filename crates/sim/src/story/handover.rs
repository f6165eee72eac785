//! Power failures around the moment when a member has been filled. If a member that is about to take over
//! from a living one fails in the very change that hands over, the old one stays, whatever a power failure
//! leaves of the change. A member that lacks its last stripes takes no role.

use stripewise_device::{
    Device, IoErrorKind,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::ArrayError;

use super::{
    Story, Unit,
    aim::{METADATA_SLOWNESS, WAIT_STEPS},
    operator::CRAWL,
};
use crate::{
    Sight,
    check::{
        Violation,
        superblock::{SUPERBLOCK_BYTES, Superblock},
    },
};

/// One possible life in so many ends in such a change.
const ONE_IN: u8 = 6;
/// One in so many ends before a member has been filled to its end.
const SHORT_ONE_IN: u8 = 12;
/// The most stripes that it lacks then.
const STRIPES_LACKING: u64 = 2;
/// Steps in which a crawling job gets there.
const CRAWL_STEPS: u64 = 20_000;
/// The most steps from there until power fails.
const SHORT_STEPS: u64 = 40;
/// The most steps in which the remaining members are written.
const STEPS_MAX: u64 = 250;
/// The steps in which they mostly are written once more.
const STEPS_FEW: u64 = 60;

impl Story {
    /// Replaces a member by one that fails when it takes over. False: the array is not whole, or it is not
    /// drawn.
    pub(super) fn hands_over_in_vain(&mut self) -> Result<bool, Violation> {
        if !self.can_fill_another() || self.side_rng.u8(..ONE_IN) != 0 {
            return Ok(false);
        }
        let new = self.start_replacing()?;
        if self.runs_to_last_checkpoint(new) {
            self.fail_to_take_over(new);
        }
        Ok(true)
    }

    /// Whether the array is whole and has room for one more device.
    fn can_fill_another(&self) -> bool {
        let is_whole = self.was_whole && self.losses() == 0 && self.units.iter().all(Unit::is_sound);
        is_whole && self.units.len() < self.shape.members + 5 && self.shape.tolerance() > 0
    }

    /// Fails a member, and fills another one in its role except for the last stripes. False: the array is not
    /// whole, or it is not drawn.
    pub(super) fn fills_all_but_the_end(&mut self) -> Result<bool, Violation> {
        if !self.can_fill_another() || self.shape.is_vast || self.side_rng.u8(..SHORT_ONE_IN) != 0 {
            return Ok(false);
        }
        let serving = self.units_by_role();
        let old = serving[self.side_rng.usize(..serving.len())];
        let Some(old) = self.take_victim(old) else { return Ok(false) };
        self.array().set_speed_limits(CRAWL);
        self.fail_calmly(old)?;
        self.add_new_unit()?;
        let (world, array) = (&self.world, self.array());
        let lacking = |unit: &Unit| Some(self.shape.data_bytes - filled_bytes(unit)? as u64);
        let most = STRIPES_LACKING * u64::from(self.shape.chunk_bytes);
        let is_short = |unit: &Unit| lacking(unit).is_some_and(|bytes| (1..=most).contains(&bytes));
        let mut seen = None;
        world.run_steps_until(CRAWL_STEPS, || {
            let is_news = seen.replace(world.seen(Sight::Superblock)) != Some(world.seen(Sight::Superblock));
            is_news && (self.units.iter().any(is_short) || array.job().is_none())
        });
        let steps = self.side_rng.u64(..SHORT_STEPS);
        self.world.run_steps(steps);
        Ok(true)
    }

    /// Begins to replace a member by a new device. Returns its unit.
    fn start_replacing(&mut self) -> Result<usize, Violation> {
        let serving = self.units_by_role();
        let old = self.units[serving[self.side_rng.usize(..serving.len())]].name().to_owned();
        self.new_unit();
        let new = self.units.len() - 1;
        let (array, device) = (self.array().clone(), self.units[new].device.clone());
        let name = device.info().name.clone();
        self.say(|_| format!("{name} is to replace {old}, in vain"));
        let replace = async move {
            array.add(device).await?;
            array.replace(&old, &name).await?;
            Ok::<_, ArrayError>(())
        };
        drop(self.world.start(replace));
        Ok(new)
    }

    /// Runs until a member's superblock says that it is completely filled. False: that does not happen.
    fn runs_to_last_checkpoint(&mut self, new: usize) -> bool {
        if !self.wait_for_filling(|job| job.done_stripes == job.total_stripes) {
            return false;
        }
        let (world, unit) = (&self.world, &self.units[new]);
        let all_bytes = self.shape.data_bytes as usize;
        let mut seen = None;
        world.run_steps_until(WAIT_STEPS, || {
            let now = [Sight::Superblock, Sight::Header, Sight::Page].map(|sight| world.seen(sight));
            let is_news = seen.replace(now) != Some(now);
            is_news && filled_bytes(unit) == Some(all_bytes)
        })
    }

    /// A filled member's next superblock is not written, and then power fails.
    fn fail_to_take_over(&mut self, new: usize) {
        self.say(|story| format!("{} does not take its next superblock", story.units[new].name()));
        self.units[new].faults.add(FaultRule {
            operation: Operation::Write,
            range_bytes: SUPERBLOCK_BYTES,
            kind: IoErrorKind::Medium,
            times: 1,
            healed_by_write: false,
        });
        if self.side_rng.bool() {
            self.units.iter().for_each(|unit| unit.sim.set_metadata_slowness(METADATA_SLOWNESS));
        }
        let faults = self.units[new].faults.clone();
        let has_failed = self.world.run_steps_until(WAIT_STEPS, || faults.is_quiet());
        faults.clear();
        if has_failed && filled_bytes(&self.units[new]).is_none() {
            // It had taken over: the superblock that it did not take was a later one.
            self.lost.insert(new);
        }
        let steps_max = if self.side_rng.u8(..4) == 0 { STEPS_MAX } else { STEPS_FEW };
        let steps = self.side_rng.u64(..steps_max);
        self.world.run_steps(steps);
    }
}

/// The bytes of a member that are filled, by its superblock. None: it is not being filled.
fn filled_bytes(unit: &Unit) -> Option<usize> {
    Superblock::read(&unit.sim.bytes())?.filled.map(|(bytes, _)| bytes)
}
