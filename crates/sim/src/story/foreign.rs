//! Other programs' changes to members between two lives: mdadm makes arrays whose data begins elsewhere; the
//! kernel's md, which knows nothing of our header and bitmap, writes an array and leaves those as they are.

use fastrand::Rng;
use stripewise_device::{
    IoErrorKind,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::geometry::Level;

use super::Story;
use crate::{
    Sight,
    check::{
        SECTOR_BYTES, Violation,
        md_bitmap::md_bitmap,
        superblock::{Rewrite, SUPERBLOCK_BYTES, Superblock},
    },
};

/// The most blocks that another program writes.
const FOREIGN_WRITES_MAX: usize = 4;
/// One array in so many was made by mdadm with a bitmap.
const MD_BITMAP_ONE_IN: u8 = 2;
/// Smaller members have no room for a bitmap.
const MD_BITMAP_DATA_MIN: u64 = 64 << 10;
/// One array in so many that another program does not stop has a member that it left one event behind.
const BEHIND_ONE_IN: u8 = 3;
/// Events that pass while another program has an array.
const EVENTS: u64 = 4;
/// The most steps from the first superblock write of an opening until power fails.
const OPENING_STEPS_MAX: u64 = 60;
/// Sectors of such a block: a row.
const BLOCK_SECTORS: usize = 8;

impl Story {
    /// Moves the data of some members, as in arrays that other programs made.
    pub(super) fn shift_offsets(&mut self) -> Result<(), Violation> {
        if !self.hardware.offsets_differ {
            return Ok(());
        }
        self.stop()?;
        for unit in 0..self.units.len() {
            if self.hardware_rng.bool() {
                let blocks = self.hardware_rng.u64(1..=super::unit::SHIFT_BYTES_MAX / 4096);
                self.move_data(unit, self.units[unit].data_offset_bytes + blocks * 4096);
            }
        }
        self.is_foreign = true;
        Ok(())
    }

    /// Gives members bitmaps of md's own, as mdadm makes them.
    pub(super) fn give_md_bitmaps(&mut self) -> Result<(), Violation> {
        let mut rng = Rng::with_seed(self.plan.seed.rotate_left(7) ^ 0x4249_544d);
        let has_room = self.shape.level != Level::Raid0 && self.shape.data_bytes >= MD_BITMAP_DATA_MIN;
        if !has_room || rng.u8(..MD_BITMAP_ONE_IN) != 0 {
            return Ok(());
        }
        if self.array.is_some() {
            self.stop()?;
        }
        for unit in 0..self.units.len() {
            self.rewrite_superblock(unit, Rewrite::with_md_bitmap);
            self.renew_md_bitmap(unit, false);
        }
        self.say(|_| "members have bitmaps of md's own".to_owned());
        self.is_foreign = true;
        Ok(())
    }

    /// Changes a member's superblock as another program would.
    pub(super) fn rewrite_superblock(&mut self, unit: usize, change: impl FnOnce(Rewrite) -> Rewrite) {
        let sim = self.units[unit].sim.clone();
        let superblock = sim.bytes()[SUPERBLOCK_BYTES.start as usize..SUPERBLOCK_BYTES.end as usize].to_vec();
        sim.poke(SUPERBLOCK_BYTES.start, &change(Rewrite::of(superblock)).done());
    }

    /// Brings md's own bitmap on a member up to its superblock, as md does. Without such a bitmap there is
    /// nothing to do.
    pub(super) fn renew_md_bitmap(&mut self, unit: usize, marks: bool) {
        let sim = self.units[unit].sim.clone();
        let known = Superblock::read(&sim.bytes());
        if let Some((superblock, offset)) = known.and_then(|block| Some((block.clone(), block.md_bitmap?))) {
            let bitmap = md_bitmap(&superblock.array, superblock.events, self.shape.data_bytes, marks);
            sim.poke(offset as u64, &bitmap);
        }
    }

    /// Makes a member's data begin at this byte, as another program would.
    pub(super) fn move_data(&mut self, unit: usize, to: u64) {
        let (sim, from) = (self.units[unit].sim.clone(), self.units[unit].data_offset_bytes);
        let data = sim.bytes()[from as usize..(from + self.shape.data_bytes) as usize].to_vec();
        sim.poke(to, &data);
        self.rewrite_superblock(unit, |superblock| superblock.data_from(to));
        self.units[unit].data_offset_bytes = to;
        self.say(|story| {
            format!("the data of {} is moved from byte {from} to {to}", story.units[unit].name())
        });
    }

    /// Another program opens the array, which was stopped cleanly and is whole, writes to it, and stops it
    /// cleanly or not.
    pub(super) fn write_as_another(&mut self) {
        let is_whole = self.losses() == 0 && self.units.iter().all(super::Unit::is_sound);
        let serving = self.with_image(|image, _| image.freshest().clean.then(|| image.in_sync())).flatten();
        let Some(serving) = serving.filter(|_| is_whole && self.shape.tolerance() > 0) else { return };
        let Some(serving) = serving.into_iter().collect::<Option<Vec<usize>>>() else { return };
        let stops_cleanly = self.rng.u8(..3) != 0;
        if !stops_cleanly {
            self.write_without_parity(&serving);
        } else if self.side_rng.bool() {
            self.list_as_another(&serving);
        }
        let events = self.rng.u64(2..=9);
        let is_one_behind = !stops_cleanly && self.side_rng.u8(..BEHIND_ONE_IN) == 0;
        let behind = is_one_behind.then(|| serving[self.side_rng.usize(..serving.len())]);
        self.advance_all(events, stops_cleanly, behind);
        self.is_foreign = true;
        self.say(|_| {
            let how = if stops_cleanly { "stops it cleanly" } else { "does not stop it" };
            format!("another program has the array for {events} events, and {how}")
        });
    }

    /// Leaves superblocks, and bitmaps of md's own, as another program does after some events. One member is
    /// one event behind, and takes no superblock any more.
    fn advance_all(&mut self, events: u64, stops_cleanly: bool, behind: Option<usize>) {
        let belonging = self.with_image(|image, units| {
            (0..units.len()).filter(|unit| image.belongs(*unit)).collect::<Vec<_>>()
        });
        for unit in belonging.into_iter().flatten() {
            let events = events - u64::from(behind == Some(unit));
            self.rewrite_superblock(unit, |block| block.advance(events, stops_cleanly));
            self.renew_md_bitmap(unit, !stops_cleanly);
        }
        behind.into_iter().for_each(|unit| self.break_superblock(unit));
    }

    /// Power fails while an array is opened that another program did not stop and one of whose members takes
    /// no superblock: it is resynced all the same.
    pub(super) fn lose_power_opening_a_foreign_array(&mut self) -> Result<(), Violation> {
        if self.shape.tolerance() < 2 {
            return Ok(());
        }
        self.flush_all()?;
        self.stop()?;
        let serving = self.units_by_role();
        self.say(|_| "another program has the array, and does not stop it".to_owned());
        self.write_without_parity(&serving);
        let behind = serving[self.side_rng.usize(..serving.len())];
        self.advance_all(EVENTS, false, Some(behind));
        self.is_foreign = true;
        let opening = self.start_opening(false, |_| true);
        self.wait_to_see(Sight::Superblock);
        let steps = self.side_rng.u64(..OPENING_STEPS_MAX);
        self.world.run_steps(steps);
        drop(opening);
        self.lose_power()?;
        self.note_hole();
        self.open_until_it_serves()?;
        self.wait_for_jobs()?;
        // A resync's writes are as volatile as any.
        self.flush_all()?;
        self.hole.clear();
        if self.report()?.degraded() > 0 {
            self.add_new_unit()?;
        }
        self.wait_for_jobs()?;
        self.lost.remove(&behind);
        self.units[behind].faults.clear();
        self.expect_whole("another program had left the array as it was")
    }

    /// A member that another program has left one event behind takes no superblock any more.
    fn break_superblock(&mut self, unit: usize) {
        self.say(|story| {
            format!("{} is left an event behind, and takes no superblock", story.units[unit].name())
        });
        self.lost.insert(unit);
        // It will be dropped, and its data in rows written without parity is lost.
        self.note_hole();
        let role = self.with_image(|image, _| image.standing(unit)).flatten().map(|(role, _)| role);
        self.forgive_hole(|lost, _| Some(lost) == role);
        self.units[unit].faults.add(FaultRule {
            operation: Operation::Write,
            range_bytes: SUPERBLOCK_BYTES,
            kind: IoErrorKind::Medium,
            times: u32::MAX,
            healed_by_write: false,
        });
    }

    /// Writes blocks on their own member, or on the first of mirrors, and nowhere else.
    fn write_without_parity(&mut self, serving: &[usize]) {
        let layout = self.layout();
        for _ in 0..self.rng.usize(1..=FOREIGN_WRITES_MAX) {
            let window = self.desk.windows[self.rng.usize(..self.desk.windows.len())].clone();
            let last = (window.end - BLOCK_SECTORS) / BLOCK_SECTORS;
            let first = self.rng.usize(window.start / BLOCK_SECTORS..=last) * BLOCK_SECTORS;
            let mut content = vec![0; BLOCK_SECTORS * SECTOR_BYTES];
            let ticket = {
                let mut sectors = self.desk.sectors.lock();
                sectors.fill(first, &mut content);
                sectors.begin_write(first, &content)
            };
            let place = layout.place(first * SECTOR_BYTES);
            let unit = &self.units[serving[place.role]];
            unit.sim.poke(unit.data_offset_bytes + place.offset_bytes as u64, &content);
            self.desk.sectors.lock().end_write(ticket, false, false);
        }
    }
}
