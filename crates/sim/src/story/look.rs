//! Inspects an array that is not open, as an operator does before deciding anything: read-only, which changes
//! no member.

use stripewise_device::IoBuf;
use stripewise_engine::{AssembleOptions, assemble};

use super::{Story, Unit};
use crate::check::{Checker, SECTOR_BYTES, Violation};

/// One opening in so many follows an inspection.
const ONE_IN: u8 = 8;

impl Story {
    /// Now and then opens the array read-only, reads, and drops it. A member may vanish meanwhile. Afterwards
    /// no member has changed.
    pub(super) fn look(&mut self) -> Result<(), Violation> {
        if self.array.is_some() || !self.was_open || self.side_rng.u8(..ONE_IN) != 0 {
            return Ok(());
        }
        self.say(|_| "a look, read-only".to_owned());
        let changes = |story: &Self| story.units.iter().map(|unit| unit.sim.changes()).collect::<Vec<_>>();
        let before = changes(self);
        self.read_only()?;
        // Its remains, such as tasks, end with the process.
        self.world.crash();
        self.array = None;
        if before == changes(self) {
            return Ok(());
        }
        Err(Checker::Metadata.violation("an array that was opened read-only has changed its members"))
    }

    fn read_only(&mut self) -> Result<(), Violation> {
        let is_whole = self
            .with_image(|image, _| image.freshest().clean && image.in_sync().iter().all(Option::is_some))
            == Some(true);
        let is_sound = is_whole && self.losses() == 0 && self.units.iter().all(Unit::is_sound);
        let options = AssembleOptions::default().run(true).read_only(true).tuning(self.shape.tuning);
        let (devices, env) = (self.devices(|_| true), self.world.env());
        let opening = self.world.start(async move { assemble(env, devices, &options).await });
        match self.wait_for(opening, "assembling read-only")? {
            Ok(array) => self.array = Some(array),
            Err(error) if is_sound => {
                return Err(
                    Checker::Service.violation(format!("a clean array is refused read-only: {error}"))
                );
            }
            Err(_) => return Ok(()),
        }
        if is_sound && !self.was_cached && self.shape.tolerance() > 0 && self.side_rng.bool() {
            let unit = self.side_rng.usize(..self.units.len());
            self.units[unit].faults.set_gone(true);
            let read = self.read_all_right();
            self.units[unit].faults.set_gone(false);
            return read;
        }
        // Without a bitmap a superblock that says clean says nothing about flushed data.
        match self.shape.tolerance() {
            0 => Ok(()),
            // What was in a cache when power failed is not in the array, whatever the superblocks say.
            _ if is_sound && !self.was_cached => self.read_all_right(),
            _ => self.read_nothing_wrong(),
        }
    }

    /// Of an array that a crash has left, with members missing: readable data is right, and the rest is an
    /// error.
    fn read_nothing_wrong(&mut self) -> Result<(), Violation> {
        if !self.shape.level.has_parity() || self.losses() > self.shape.tolerance() {
            return Ok(());
        }
        for block in self.blocks() {
            let (array, offset) = (self.array().clone(), (block.start * SECTOR_BYTES) as u64);
            let into = IoBuf::with_len(block.len() * SECTOR_BYTES);
            let read = self.finish(async move { array.read(offset, into).await }, "a read")?;
            if let Ok(content) = read {
                self.desk.sectors.lock().check_left(block.start, &content)?;
            }
        }
        Ok(())
    }

    fn read_all_right(&mut self) -> Result<(), Violation> {
        for window in self.desk.windows.clone() {
            let ticket = self.desk.sectors.lock().begin_read();
            let content = self.read_window(&window)?;
            debug_assert_eq!(content.len(), window.len() * SECTOR_BYTES);
            self.desk.sectors.lock().end_read(ticket, window.start, &content)?;
        }
        Ok(())
    }
}
