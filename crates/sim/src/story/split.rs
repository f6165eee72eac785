//! Two halves of an array that each ran alone: the result of assembling them together.

use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::AssembleError;

use super::Story;
use crate::check::{Checker, SECTOR_BYTES, Violation};

impl Story {
    /// Each half is opened and written alone; then both are there.
    pub(super) fn split(&mut self) -> Result<(), Violation> {
        let need = self.shape.members - self.shape.tolerance();
        if 2 * need > self.shape.members || self.shape.tolerance() == 0 || !self.is_made_whole()? {
            return Ok(());
        }
        let mut serving = self.units_by_role();
        self.stop()?;
        self.rng.shuffle(&mut serving);
        let sides = [serving[..need].to_vec(), serving[need..2 * need].to_vec()];
        for side in &sides {
            let opening = self.start_opening(false, |unit| side.contains(&unit));
            match self.wait_for(opening, "assembling half of an array")? {
                Ok(array) => self.array = Some(array),
                Err(error) => {
                    let what = format!("half of an array that was stopped cleanly: {error}");
                    return Err(Checker::Service.violation(what));
                }
            }
            self.write_apart()?;
            self.world.crash();
            self.array = None;
        }
        self.say(|_| "two halves went on apart".to_owned());
        let opening = self.start_opening(false, |unit| sides.concat().contains(&unit));
        match self.wait_for(opening, "assembling two halves")? {
            Err(AssembleError::SplitBrain { .. }) => Ok(()),
            Err(error) => {
                Err(Checker::Service
                    .violation(format!("two halves that went on apart, not called so: {error}")))
            }
            Ok(_) => Err(Checker::Currency.violation("two halves that went on apart are put together")),
        }
    }

    /// Some writes that only one half has.
    fn write_apart(&mut self) -> Result<(), Violation> {
        for _ in 0..self.rng.usize(1..4) {
            let window = self.desk.windows[0].clone();
            let first = self.rng.usize(window.start..window.end - 8) / 8 * 8;
            let (array, offset) = (self.array().clone(), (first * SECTOR_BYTES) as u64);
            let content = IoBuf::copy_of(&[self.rng.u8(1..); 8 * SECTOR_BYTES]).freeze();
            let write = async move { array.write(offset, content, WriteFlags { fua: true }).await };
            let written = self.finish(write, "a write to half of an array")?;
            written.map_err(|error| Checker::Service.violation(format!("half of an array: {error}")))?;
        }
        if self.rng.bool() {
            let array = self.array().clone();
            self.finish(async move { array.stop().await }, "stopping")?
                .map_err(|error| Checker::Service.violation(format!("stopping half of an array: {error}")))?;
        }
        Ok(())
    }
}
