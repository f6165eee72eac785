//! What an array must refuse without changing: requests off its blocks, devices with longer blocks, a member
//! as a spare, a second member for a role that is being filled. And what it must not report: a written block
//! as a hole.

use stripewise_device::{IoBuf, WriteFlags, ZeroFlags};
use stripewise_engine::{ArrayError, SpeedLimits};

use super::{Story, operator::CRAWL};
use crate::{
    Manners,
    check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES},
};

/// The blocks of a device that is too coarse for an array of 512-byte blocks.
const LONG_BLOCK_BYTES: u32 = 4096;

/// The most stripes that are zeroed, and blocks of them that are then written.
const HOLE_STRIPES: usize = 6;
const HOLE_WRITES_MAX: usize = 4;
/// The most steps in which a filled member takes over.
const HAND_OVER_STEPS_MAX: u64 = 200;
/// Sectors of a row of a member.
const ROW_SECTORS: usize = ROW_BYTES / SECTOR_BYTES;
/// Rounds of housekeeping after which nothing is left to do.
const IDLE_ROUNDS: u32 = 4;

impl Story {
    /// Requests of less than a block, or between blocks, are refused.
    pub(super) fn expect_misaligned_refused(&mut self) -> Result<(), Violation> {
        let (block, capacity) = {
            let geometry = self.array().geometry();
            (u64::from(geometry.logical_block_bytes()), geometry.capacity_bytes())
        };
        let start = self.side_rng.u64(..capacity / block) * block;
        for (offset, len) in [(start, block / 2), (start + block / 2, block / 2), (capacity, block)] {
            self.expect_out_of_range(offset, len)?;
        }
        let report = self.report()?;
        match report.degraded() {
            0 => Ok(()),
            _ => Err(Checker::Service.violation("requests that are refused have cost a member")),
        }
    }

    fn expect_out_of_range(&self, offset: u64, len: u64) -> Result<(), Violation> {
        let array = self.array().clone();
        let requests = async move {
            let content = IoBuf::zeroed(len as usize).freeze();
            [
                array.read(offset, IoBuf::with_len(len as usize)).await.map(drop),
                array.write(offset, content, WriteFlags::default()).await,
                array.write_zeroes(offset, len, ZeroFlags::default()).await,
            ]
        };
        let results = self.finish(requests, "requests off the array's blocks")?;
        if results.iter().all(|result| matches!(result, Err(ArrayError::Range { .. }))) {
            return Ok(());
        }
        let what =
            format!("a read, a write and zeroes of {len} bytes at {offset} are to be refused: {results:?}");
        Err(Checker::Service.violation(what))
    }

    /// A device whose blocks are longer than the array's is not added.
    pub(super) fn expect_long_blocks_refused(&mut self) -> Result<(), Violation> {
        if self.array().geometry().logical_block_bytes() >= LONG_BLOCK_BYTES {
            return Ok(());
        }
        let manners = Manners { block_bytes: LONG_BLOCK_BYTES, ..Manners::default() };
        let device = self.world.add_member_with("long", self.shape.member_bytes() * 2, manners);
        let array = self.array().clone();
        let added = self.finish(async move { array.add(device).await }, "adding")?;
        if matches!(added, Err(ArrayError::Member { .. })) {
            return Ok(());
        }
        let what = format!("a device of longer blocks than the array's was to be refused: {added:?}");
        Err(Checker::Service.violation(what))
    }

    /// Some blocks are written in empty stripes: the array reports only the rest as a hole.
    pub(super) fn ask_for_holes(&mut self) -> Result<(), Violation> {
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        let window = self.desk.windows[self.side_rng.usize(..self.desk.windows.len())].clone();
        let first = window.start.next_multiple_of(stripe);
        let stripes = first..window.end.min(first + HOLE_STRIPES * stripe) / stripe * stripe;
        if stripes.is_empty() {
            return Ok(());
        }
        let zeroed = self.try_zero(&stripes)?;
        zeroed.map_err(|error| Checker::Service.violation(format!("zeroes: {error}")))?;
        for _ in 0..self.side_rng.usize(1..=HOLE_WRITES_MAX) {
            let block = self.side_rng.usize(stripes.clone()) / ROW_SECTORS * ROW_SECTORS;
            self.try_write(&(block..(block + ROW_SECTORS).min(stripes.end)))?
                .map_err(|error| Checker::Service.violation(format!("a write: {error}")))?;
        }
        let client = self.crowding_client();
        let asked = async move { client.extents(stripes.start, stripes.len()).await };
        let told = self.finish(asked, "extents")?;
        told.map_err(|error| Checker::Service.violation(format!("extents: {error}")))?;
        self.desk.check()
    }

    /// A member is not added as a spare, and nothing on it changes.
    pub(super) fn expect_member_not_added(&mut self) -> Result<(), Violation> {
        let unit = self.any_serving();
        self.flush_all()?;
        self.world.run_for(self.shape.tuning.housekeeping_interval * IDLE_ROUNDS);
        let (array, device) = (self.array().clone(), self.units[unit].device.clone());
        let before = self.units[unit].sim.changes();
        let added = self.finish(async move { array.add(device).await }, "adding")?;
        let is_as_before = self.units[unit].sim.changes() == before;
        if added.is_err() && is_as_before && self.report()?.degraded() == 0 {
            return Ok(());
        }
        let what = format!(
            "{} is a member; adding it: {added:?}, and it was {}",
            self.units[unit].name(),
            if is_as_before { "left alone" } else { "changed" }
        );
        Err(Checker::Service.violation(what))
    }

    /// A member is replaced a second time just when the first replacement takes over: it has left or is
    /// replaced already, and the member that took its place is not replaced.
    pub(super) fn replace_what_leaves(&mut self) -> Result<(), Violation> {
        let (Some(first), Some(second)) = (self.spare_unit()?, self.spare_unit()?) else { return Ok(()) };
        let old = self.any_serving();
        self.begin_replacing(old, first)?;
        self.wait_for_filling(|job| job.done_stripes == job.total_stripes);
        let steps = self.side_rng.u64(..HAND_OVER_STEPS_MAX);
        self.world.run_steps(steps);
        let again = self.replace_with(old, second)?;
        if again.is_ok() {
            let what = format!("{} was replaced, and is to be replaced again", self.units[old].name());
            return Err(Checker::Service.violation(what));
        }
        self.expect_filled(old)
    }

    /// A role that is being filled takes no second spare.
    pub(super) fn replace_twice(&mut self) -> Result<(), Violation> {
        let (Some(first), Some(second)) = (self.spare_unit()?, self.spare_unit()?) else { return Ok(()) };
        let old = self.any_serving();
        self.array().set_speed_limits(CRAWL);
        self.begin_replacing(old, first)?;
        // By then it may have left its role, and cannot be replaced for that reason.
        let again = self.replace_with(old, second)?;
        self.array().set_speed_limits(SpeedLimits::default());
        if !matches!(again, Err(ArrayError::Member { .. })) {
            let what = format!("a role that is being filled was given to a second spare: {again:?}");
            return Err(Checker::Service.violation(what));
        }
        self.expect_filled(old)
    }
}
