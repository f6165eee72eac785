//! How some stories end: with more members lost than the level tolerates, or with two halves that each went on alone.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use fastrand::Rng;
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::AssembleError;

use super::{Story, Unit};
use crate::check::{Checker, SECTOR_BYTES, Violation};

/// How a story ends, after its last life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// As it is.
    Plain,
    /// More members are lost than the level tolerates, and come back.
    Beyond,
    /// Two halves go on apart.
    Split,
}

const ENDINGS: [Ending; 8] = [
    Ending::Beyond,
    Ending::Split,
    Ending::Plain,
    Ending::Plain,
    Ending::Plain,
    Ending::Plain,
    Ending::Plain,
    Ending::Plain,
];

impl Story {
    /// Ends the story.
    pub(super) fn end(&mut self) -> Result<(), Violation> {
        self.rng = Rng::with_seed(self.plan.seed.rotate_left(31) ^ 0x454e_4400);
        match ENDINGS[self.rng.usize(..ENDINGS.len())] {
            Ending::Plain => Ok(()),
            Ending::Beyond => self.go_beyond(),
            Ending::Split => self.split(),
        }
    }

    /// Opens the array, and brings it back to full redundancy. False: that cannot be.
    fn is_made_whole(&mut self) -> Result<bool, Violation> {
        if self.array.is_none() {
            self.open()?;
        }
        self.settle()?;
        Ok(self.was_whole && self.losses() == 0 && self.units.iter().all(Unit::is_sound))
    }

    /// One member too many vanishes at once: from then on there are errors or what is right, nothing moves on the others, and
    /// when all are back the array is there.
    fn go_beyond(&mut self) -> Result<(), Violation> {
        if !self.is_made_whole()? || self.shape.tolerance() == 0 {
            return Ok(());
        }
        self.desk.is_lenient.store(true, Ordering::Relaxed);
        self.start_clients();
        let steps = self.rng.u64(..400);
        self.world.run_steps(steps);
        let mut serving = self.units_by_role();
        self.rng.shuffle(&mut serving);
        let too_many: BTreeSet<usize> = serving.drain(..=self.shape.tolerance()).collect();
        for unit in &too_many {
            self.units[*unit].faults.set_gone(true);
        }
        self.say(|story| {
            let names: Vec<&str> = too_many.iter().map(|unit| story.units[*unit].name()).collect();
            format!("too many vanish at once: {}", names.join(", "))
        });
        let steps = self.rng.u64(..1000);
        self.world.run_steps(steps);
        self.expect_failed()?;
        self.expect_still(&serving)?;
        self.desk.check()?;
        self.lost = too_many;
        self.crash()?;
        self.desk.is_lenient.store(false, Ordering::Relaxed);
        self.bring_back()
    }

    /// A write to each member at least finds that too many are gone.
    fn expect_failed(&mut self) -> Result<(), Violation> {
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        let window = self.desk.windows[0].clone();
        let sectors = window.start..window.end.min(window.start.next_multiple_of(stripe) + stripe);
        for _ in 0..2 {
            // Twice: the first may only find out, the second is refused.
            let (array, offset) = (self.array().clone(), (sectors.start * SECTOR_BYTES) as u64);
            let mut content = IoBuf::with_len(sectors.len() * SECTOR_BYTES);
            let ticket = {
                let mut model = self.desk.sectors.lock();
                model.fill(sectors.start, &mut content);
                model.begin_write(sectors.start, &content)
            };
            let write = async move { array.write(offset, content.freeze(), WriteFlags::default()).await };
            let written = self.finish(write, "a write beyond the level's tolerance")?;
            self.desk.sectors.lock().end_write(ticket, written.is_ok(), false);
            if written.is_ok() {
                let what = "a write of a whole stripe is acknowledged, and too many members are gone for it";
                return Err(Checker::Service.violation(what));
            }
        }
        let array = self.array().clone();
        let report = self.finish(async move { array.report().await }, "a report")?;
        if report.failed {
            Ok(())
        } else {
            Err(Checker::Service.violation("too many members are gone, and the array has not failed"))
        }
    }

    /// Nothing is written to the superblocks of those that are left.
    fn expect_still(&mut self, left: &[usize]) -> Result<(), Violation> {
        let events = |story: &mut Self| {
            let of = |unit: &usize| story.with_image(|image, _| image.superblock(*unit).map(|sb| sb.events));
            left.iter().map(of).collect::<Vec<_>>()
        };
        let before = events(self);
        self.world.run_for(2 * self.shape.tuning.housekeeping_interval);
        let after = events(self);
        if before == after {
            return Ok(());
        }
        let what = format!("the array has failed, and its superblocks went on from {before:?} to {after:?}");
        Err(Checker::Metadata.violation(what))
    }

    /// All members are back: the array is opened, by force if need be, and has what it must.
    fn bring_back(&mut self) -> Result<(), Violation> {
        self.units.iter().for_each(|unit| unit.faults.set_gone(false));
        self.note_hole();
        let mut spoiled = 0;
        loop {
            let force = spoiled > 0 || self.rng.bool();
            let opened = if spoiled < 2 && self.rng.u8(..3) == 0 {
                spoiled += 1;
                let steps = self.rng.u64(..150);
                self.open_for(force, steps)?
            } else {
                Some(self.open_as(force)?)
            };
            match opened {
                None => {}
                Some(Ok(())) => break,
                Some(Err(error)) if !force => {
                    self.say(|_| format!("it is refused: {error}"));
                    match self.open_as(true)? {
                        Ok(()) => break,
                        Err(error) => return Err(refused(&error)),
                    }
                }
                Some(Err(error)) => return Err(refused(&error)),
            }
        }
        // Rows that were being written are as the hole leaves them, on whichever role.
        self.forgive_hole(|_, _| true);
        for window in self.desk.windows.clone() {
            let content = self.read_window(&window)?;
            self.desk.sectors.lock().adopt(window.start, &content)?;
        }
        self.settle()
    }

    /// Opens the array with all devices there are.
    fn open_as(&mut self, force: bool) -> Result<Result<(), AssembleError>, Violation> {
        let opening = self.start_opening(force, |_| true);
        let opened = self.wait_for(opening, "assembling")?;
        Ok(opened.map(|array| {
            self.say(|_| format!("assembled{}", if force { " with force" } else { "" }));
            self.array = Some(array);
        }))
    }

    /// As [`Story::open_as`], but power fails after so many steps. None: it did.
    fn open_for(&mut self, force: bool, steps: u64) -> Result<Option<Result<(), AssembleError>>, Violation> {
        let opening = self.start_opening(force, |_| true);
        self.world.run_steps(steps);
        self.say(|_| format!("power fails {steps} steps into assembling"));
        drop(opening);
        self.lose_power()?;
        Ok(None)
    }

    /// Two halves are each opened and written alone; then both are there.
    fn split(&mut self) -> Result<(), Violation> {
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

fn refused(error: &AssembleError) -> Violation {
    Checker::Service.violation(format!("all members are back, and the array is refused: {error}"))
}
