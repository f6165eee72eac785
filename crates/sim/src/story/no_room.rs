//! Members whose data begins so early that our header and bitmap pages have no room. Neither is ever written
//! over their data.

use stripewise_device::Device;
use stripewise_engine::MemberState;

use super::{Story, Unit};
use crate::check::{
    Checker, Violation,
    image::Image,
    superblock::{SUPERBLOCK_BYTES, Superblock},
};

/// Where the data of such a member begins, at least and at most: behind md's metadata, and before ours has
/// room.
const START_MIN: u64 = 128 << 10;
const START_MAX: u64 = 256 << 10;
/// Blocks written then.
const WRITES: usize = 6;
/// Rounds of housekeeping after which every member that holds the bitmap has its pages.
const ROUNDS: u32 = 4;

impl Story {
    /// Another program makes a member's data begin early; so a device as small as the data may take the
    /// place, and the number, of a member that had room.
    pub(super) fn add_a_member_without_room(&mut self) -> Result<(), Violation> {
        let mut serving = self.units_by_role();
        if self.shape.tolerance() == 0 || self.shape.is_vast || self.has_spares()? {
            return Ok(());
        }
        self.side_rng.shuffle(&mut serving);
        let (early, left) = (serving[0], serving[1]);
        self.flush_all()?;
        self.stop()?;
        let start = self.side_rng.u64(START_MIN / 4096..=START_MAX / 4096) * 4096;
        self.take_room_of(early, start);
        self.forget_strangers(&serving);
        let numbers = self.crop_tables();
        self.open_plainly()?;
        self.fail_calmly(left)?;
        self.remove_calmly(left)?
            .map_err(|error| Checker::Service.violation(format!("removing a failed member: {error}")))?;
        let small = self.add_small_unit(start)?;
        self.expect_serving(small)?;
        self.leave_to_full_members(small, early, left)?;
        self.restore_tables(numbers)
    }

    /// Moves a member's data to a place before which, by the superblock, only md's metadata lies.
    fn take_room_of(&mut self, unit: usize, start: u64) {
        let ours = start.max(SUPERBLOCK_BYTES.end)..self.units[unit].data_offset_bytes;
        let data = self.units[unit].sim.clone();
        self.move_data(unit, start);
        let end = start + self.shape.data_bytes;
        if end < ours.end {
            data.poke(end, &vec![0; (ours.end - end) as usize]);
        }
        self.units[unit].pages = 0;
    }

    /// Empties devices that are no longer members: one that came back would take a number that another device
    /// was given for the member it knew.
    fn forget_strangers(&mut self, serving: &[usize]) {
        for (index, unit) in self.units.iter_mut().enumerate() {
            if !serving.contains(&index) {
                let len = (SUPERBLOCK_BYTES.end - SUPERBLOCK_BYTES.start) as usize;
                unit.sim.poke(SUPERBLOCK_BYTES.start, &vec![0; len]);
                unit.renew(&self.shape);
            }
        }
    }

    /// Removes table entries of superblocks for numbers that no device had: the next device gets a number
    /// that another device had. Returns the number of entries before.
    fn crop_tables(&mut self) -> usize {
        let numbers = self.with_image(|image, _| {
            let freshest = image.freshest();
            (freshest.roles.len(), freshest.numbers_used())
        });
        let (before, used) = numbers.unwrap_or_default();
        self.resize_tables(used);
        before
    }

    /// From now on no number is given to a second device.
    fn restore_tables(&mut self, numbers: usize) -> Result<(), Violation> {
        self.stop()?;
        let now = self.with_image(|image, _| image.freshest().roles.len()).unwrap_or_default();
        self.resize_tables(numbers.max(now));
        self.open_plainly()?;
        self.expect_whole("tables of roles were restored")
    }

    fn resize_tables(&mut self, numbers: usize) {
        let belonging = |image: &Image<'_>, units: &mut [Unit]| {
            (0..units.len()).filter(|unit| image.belongs(*unit)).collect::<Vec<_>>()
        };
        for unit in self.with_image(belonging).into_iter().flatten() {
            self.rewrite_superblock(unit, |superblock| superblock.with_numbers(numbers));
        }
    }

    /// Adds a device with no more than this much room beside the data.
    fn add_small_unit(&mut self, room_bytes: u64) -> Result<usize, Violation> {
        let unit = self.new_unit_of(room_bytes + self.shape.data_bytes);
        let (array, device) = (self.array().clone(), self.units[unit].device.clone());
        let name = device.info().name.clone();
        self.say(|_| format!("{name}, a small device, is added"));
        let added = self.finish(async move { array.add(device).await }, "adding")?;
        added.map_err(|error| {
            Checker::Service.violation(format!("adding a device as small as a member is: {error}"))
        })?;
        let superblock = Superblock::read(&self.units[unit].sim.bytes());
        self.units[unit].data_offset_bytes = superblock.map_or(room_bytes, |block| block.data_offset as u64);
        Ok(unit)
    }

    /// A member without room has its data, whatever is written and marked.
    fn expect_serving(&mut self, small: usize) -> Result<(), Violation> {
        self.wait_for_jobs()?;
        for _ in 0..WRITES {
            self.write_any_block()?;
        }
        self.world.run_for(self.shape.tuning.housekeeping_interval * ROUNDS);
        let state = self.state_of(small)?;
        if state != Some(MemberState::InSync) {
            let what = format!("{}, which has no room for a bitmap, is {state:?}", self.units[small].name());
            return Err(Checker::Service.violation(what));
        }
        self.expect_whole("a member has no room for a bitmap")
    }

    /// Members with room take the roles of those without.
    fn leave_to_full_members(&mut self, small: usize, early: usize, left: usize) -> Result<(), Violation> {
        self.fail_calmly(small)?;
        self.add_again(left)?;
        self.expect_whole("a member without room left")?;
        self.remove_calmly(small)?
            .map_err(|error| Checker::Service.violation(format!("removing a failed member: {error}")))?;
        debug_assert_eq!(small + 1, self.units.len(), "it was the last that came");
        self.units.pop();
        self.fail_calmly(early)?;
        self.add_again(early)?;
        self.expect_whole("a member whose data began early was added again")
    }
}
