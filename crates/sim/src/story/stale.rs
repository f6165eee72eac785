//! Too few current members are left: the array is refused, and with `--force` the least stale member is
//! taken. The writes since it left may be lost; nothing else. A member that was never completely filled is
//! not taken, not even by force.

use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::AssembleError;

use super::{Story, operator::CRAWL};
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES, superblock::Superblock};

/// The most blocks written between two members' leaving.
const WRITES_MAX: usize = 8;

impl Story {
    /// Members leave one after the other; then one too many is absent.
    pub(super) fn take_stale(&mut self) -> Result<(), Violation> {
        // A remaining member must be able to tell that the others are behind.
        let can_tell = self.shape.members > self.shape.tolerance() + 1;
        if !self.is_made_whole()? || !self.shape.level.has_parity() || !can_tell {
            return Ok(());
        }
        self.flush_all()?;
        let mut serving = self.units_by_role();
        self.rng.shuffle(&mut serving);
        let mut since = Vec::new();
        for unit in serving.drain(..self.shape.tolerance()) {
            self.lost.insert(unit);
            self.fail_calmly(unit)?;
            since = self.write_durably()?;
        }
        if self.rng.bool() {
            // A half-filled member is no better than none.
            self.half_fill_one()?;
            if let Some(filled) = self.unit_being_filled()?.filter(|_| self.side_rng.bool()) {
                return self.take_none_half_filled(filled, &serving);
            }
        }
        self.crash()?;
        if !self.are_just_current(&serving) {
            return Ok(());
        }
        self.leave_out_one_too_many(serving[0]);
        self.expect_too_few(false)?;
        if let Err(error) = self.open_as(true)? {
            return Err(Checker::Service
                .violation(format!("members that are behind are refused with force: {error}")));
        }
        self.expect_but(&since)
    }

    /// Fills a new member in part.
    fn half_fill_one(&mut self) -> Result<(), Violation> {
        self.array().set_speed_limits(CRAWL);
        self.add_new_unit()?;
        self.wait_for_filling(|job| job.done_stripes > 0);
        Ok(())
    }

    /// Whether exactly these units are current; a completely filled member counts like any other.
    fn are_just_current(&mut self, units: &[usize]) -> bool {
        self.with_image(|image, _| image.as_good_as_in_sync().len()) == Some(units.len())
    }

    fn leave_out_one_too_many(&mut self, absent: usize) {
        self.units[absent].faults.set_gone(true);
        self.lost.insert(absent);
        self.say(|story| format!("{} is absent, and one too many", story.units[absent].name()));
    }

    /// The array is refused because too few members are there.
    fn expect_too_few(&mut self, force: bool) -> Result<(), Violation> {
        match self.open_as(force)? {
            Err(AssembleError::TooFew { .. }) => Ok(()),
            Err(error) => {
                Err(Checker::Service.violation(format!("too few members, and not called so: {error}")))
            }
            Ok(()) => Err(Checker::Currency
                .violation(format!("too few members are there, and the array is open; by force: {force}"))),
        }
    }

    /// A member that is being filled vanishes, and the array continues without it. It comes back when it
    /// alone could make up for an absent member: it is not taken. With the absent one the array is complete.
    fn take_none_half_filled(&mut self, filled: usize, serving: &[usize]) -> Result<(), Violation> {
        self.say(|story| format!("{}, which is half filled, vanishes", story.units[filled].name()));
        self.units[filled].faults.set_gone(true);
        self.write_durably()?;
        self.crash()?;
        let superblock = Superblock::read(&self.units[filled].sim.bytes());
        let is_half_filled = superblock.is_some_and(|superblock| superblock.filled.is_some());
        if !is_half_filled || !self.are_just_current(serving) {
            return Ok(());
        }
        // A unit that once was completely filled and has left might be taken by force.
        for unit in 0..self.units.len() {
            self.units[unit].faults.set_gone(unit != filled && !serving.contains(&unit));
        }
        self.leave_out_one_too_many(serving[0]);
        self.expect_too_few(false)?;
        self.expect_too_few(true)?;
        self.units[serving[0]].faults.set_gone(false);
        self.lost.remove(&serving[0]);
        if let Err(error) = self.open_as(true)? {
            let what = format!("no more members are absent than the level tolerates: {error}");
            return Err(Checker::Service.violation(what));
        }
        self.wait_for_jobs()?;
        self.check_content()
    }

    /// Writes some blocks durably. Returns their rows.
    pub(super) fn write_durably(&mut self) -> Result<Vec<usize>, Violation> {
        let mut rows = Vec::new();
        for _ in 0..self.rng.usize(1..=WRITES_MAX) {
            let blocks = self.blocks();
            let block = blocks[self.rng.usize(..blocks.len())].clone();
            let mut content = IoBuf::with_len(block.len() * SECTOR_BYTES);
            let ticket = {
                let mut sectors = self.desk.sectors.lock();
                sectors.fill(block.start, &mut content);
                sectors.begin_write(block.start, &content)
            };
            let (array, offset) = (self.array().clone(), (block.start * SECTOR_BYTES) as u64);
            let write = async move { array.write(offset, content.freeze(), WriteFlags { fua: true }).await };
            let written = self.finish(write, "a write")?;
            self.desk.sectors.lock().end_write(ticket, written.is_ok(), true);
            written.map_err(|error| {
                Checker::Service.violation(format!("a write to a degraded array: {error}"))
            })?;
            rows.push(self.layout().place(block.start * SECTOR_BYTES).offset_bytes / ROW_BYTES);
        }
        Ok(rows)
    }

    /// Everything is right except these rows, whose content stays as it is first read.
    fn expect_but(&mut self, rows: &[usize]) -> Result<(), Violation> {
        let layout = self.layout();
        let row = |sector: &usize| layout.place(sector * SECTOR_BYTES).offset_bytes / ROW_BYTES;
        let used = self.desk.windows.iter().cloned().flatten();
        let forgiven: Vec<usize> = used.filter(|sector| rows.contains(&row(sector))).collect();
        self.desk.sectors.lock().forgive(forgiven);
        for window in self.desk.windows.clone() {
            let content = self.read_window(&window)?;
            self.desk.sectors.lock().adopt(window.start, &content)?;
        }
        self.wait_for_jobs()?;
        self.check_content()
    }
}
