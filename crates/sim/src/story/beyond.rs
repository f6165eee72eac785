//! More members are lost at once than the level tolerates, while clients write. From then on requests return
//! errors or right data, and nothing changes on the remaining members, whatever an operator does and
//! whichever member vanishes next; when all are back, the array is back.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use stripewise_device::{
    IoErrorKind, WriteFlags, ZeroFlags,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::{
    AssembleError, MemberReport, MemberState,
    geometry::{Level, MemberIndex},
};

use super::{
    Story,
    aim::{METADATA_SLOWNESS, WAIT_STEPS},
};
use crate::{
    Sight,
    check::{Checker, SECTOR_BYTES, Violation},
};

/// The most steps of a failure's recording before the next member is lost.
const RECORDING_STEPS: u64 = 60;
/// Rounds of housekeeping after which no region is marked without writes to it.
const IDLE_ROUNDS: u32 = 4;
/// Writes that start meanwhile.
const WAITING_WRITES: usize = 4;

impl Story {
    /// One member too many vanishes at once: from then on requests return errors or right data, nothing
    /// changes on the others, and when all are back the array is back.
    pub(super) fn go_beyond(&mut self) -> Result<(), Violation> {
        if !self.is_made_whole()? {
            return Ok(());
        }
        let before = self.units_by_role();
        self.desk.is_lenient.store(true, Ordering::Relaxed);
        if self.side_rng.bool() {
            self.start_clients();
            let steps = self.rng.u64(..400);
            self.world.run_steps(steps);
        } else {
            // No region is marked, so any request would have to be announced.
            self.world.run_for(self.shape.tuning.housekeeping_interval * IDLE_ROUNDS);
        }
        let mut serving = before.clone();
        self.rng.shuffle(&mut serving);
        let too_many: BTreeSet<usize> = serving.drain(..=self.shape.tolerance()).collect();
        let a_rebuild_waits = self.shape.tolerance() > 0 && self.rng.u8(..3) == 0;
        if a_rebuild_waits {
            // No job must continue once the array has failed.
            self.array().pause_jobs();
            self.add_new_unit()?;
            self.fail_calmly(*too_many.first().expect("one too many at least"))?;
        }
        let too_many_left: Vec<usize> = too_many.iter().copied().skip(usize::from(a_rebuild_waits)).collect();
        let one_by_one = self.shape.level == Level::Raid1 || self.side_rng.u8(..3) == 0;
        match one_by_one {
            true if !a_rebuild_waits => self.lose_while_recording(&too_many_left),
            _ => too_many_left.iter().for_each(|unit| self.lose_unit(*unit, !a_rebuild_waits)),
        }
        let steps = self.rng.u64(..1000);
        self.world.run_steps(steps);
        let has_failed = self.expect_failed(&before)?;
        self.expect_right_or_errors()?;
        if !has_failed {
            return self.desk.check();
        }
        self.expect_still(&serving)?;
        self.expect_right_or_errors()?;
        self.desk.check()?;
        self.lost = too_many;
        self.crash()?;
        self.desk.is_lenient.store(false, Ordering::Relaxed);
        self.bring_back(&before)
    }

    /// Members are lost one after the other, the last while the loss of the one before is being recorded.
    fn lose_while_recording(&mut self, units: &[usize]) {
        self.units.iter().for_each(|unit| unit.sim.set_metadata_slowness(METADATA_SLOWNESS));
        let (last, before) = units.split_last().expect("one too many at least");
        for unit in before {
            let headers = self.world.seen(Sight::Header);
            self.units[*unit].sim.fail_once();
            self.say(|story| format!("{} fails its next write", story.units[*unit].name()));
            self.world.run_steps_until(WAIT_STEPS, || self.world.seen(Sight::Header) != headers);
        }
        // These wait until the loss is recorded, and may not be acknowledged if it never is.
        for _ in 0..WAITING_WRITES {
            let window = self.desk.windows[0].clone();
            let sector = self.side_rng.usize(window);
            self.start_write(sector, true);
        }
        let steps = self.side_rng.u64(..RECORDING_STEPS);
        self.world.run_steps(steps);
        self.say(|story| format!("{} vanishes: one of too many", story.units[*last].name()));
        // All of them: a member that was not written to meanwhile would still serve.
        units.iter().for_each(|unit| self.units[*unit].faults.set_gone(true));
    }

    /// A member vanishes, or takes no more writes and can still be read.
    fn lose_unit(&mut self, unit: usize, may_vanish: bool) {
        let vanishes = may_vanish && self.rng.u8(..3) != 0;
        self.say(|story| {
            let how = if vanishes { "vanishes" } else { "takes no write any more" };
            format!("{} {how}: one of too many", story.units[unit].name())
        });
        if vanishes {
            return self.units[unit].faults.set_gone(true);
        }
        self.units[unit].faults.add(FaultRule {
            operation: Operation::Write,
            range_bytes: self.units[unit].data_offset_bytes..u64::MAX,
            kind: IoErrorKind::Medium,
            times: u32::MAX,
            healed_by_write: false,
        });
    }

    /// A write to each member finds at the latest that too many are lost. False: a spare took over from one
    /// before the others were lost.
    fn expect_failed(&mut self, before: &[usize]) -> Result<bool, Violation> {
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        let window = self.desk.windows[0].clone();
        let sectors = window.start..window.end.min(window.start.next_multiple_of(stripe) + stripe);
        // A cache takes what is not a whole stripe, unless it must be durable.
        let flags = WriteFlags { fua: self.was_cached };
        // Twice: the first write may only discover it, the second is refused.
        let is_refused = [self.try_write_as(&sectors, flags)?, self.try_write_as(&sectors, flags)?]
            .iter()
            .all(Result::is_err);
        let array = self.array().clone();
        let report = self.finish(async move { array.report().await }, "a report")?;
        let is_new = |name: &str| !before.iter().any(|unit| self.units[*unit].name() == name);
        let took_over = |member: &MemberReport| member.state == MemberState::InSync && is_new(&member.name);
        if !report.failed && report.members.iter().any(took_over) {
            return Ok(false);
        }
        match (is_refused, report.failed) {
            (true, true) => Ok(true),
            (false, _) => {
                let what = "a write of a whole stripe is acknowledged, and too many members are gone for it";
                Err(Checker::Service.violation(what))
            }
            _ => Err(Checker::Service.violation("too many members are gone, and the array has not failed")),
        }
    }

    /// Readable data is right.
    fn expect_right_or_errors(&mut self) -> Result<(), Violation> {
        for block in self.blocks() {
            let ticket = self.desk.sectors.lock().begin_read();
            let read = self.try_read(&block)?;
            let mut sectors = self.desk.sectors.lock();
            match read {
                Ok(content) => sectors.end_read(ticket, block.start, &content)?,
                Err(_) => sectors.give_up_read(ticket),
            }
        }
        Ok(())
    }

    /// Nothing is written to the remaining members any more, whatever the requests.
    fn expect_still(&mut self, left: &[usize]) -> Result<(), Violation> {
        self.world.run_for(2 * self.shape.tuning.housekeeping_interval);
        let changes =
            |story: &Self| left.iter().map(|unit| story.units[*unit].sim.changes()).collect::<Vec<_>>();
        let before = changes(self);
        let array = self.array().clone();
        array.resume_jobs();
        let (len, flags) = (self.desk.windows[0].len() * SECTOR_BYTES, ZeroFlags::default());
        let offset = (self.desk.windows[0].start * SECTOR_BYTES) as u64;
        let asked = async move {
            [array.write_zeroes(offset, len as u64, flags).await, array.discard(offset, len as u64).await]
        };
        // A discard may do nothing, and succeed.
        let [zeroed, _] = self.finish(asked, "zeroes beyond the level's tolerance")?;
        if zeroed.is_ok() {
            return Err(
                Checker::Service.violation("zeroes are acknowledged, and too many members are gone for them")
            );
        }
        self.expect_commands_refused()?;
        self.expect_left_as_it_is()?;
        if !left.is_empty() && self.side_rng.bool() {
            self.lose_one_more(left)?;
        }
        self.world.run_for(2 * self.shape.tuning.housekeeping_interval);
        if before == changes(self) {
            return Ok(());
        }
        Err(Checker::Metadata
            .violation("the array has failed, and something is written to the members that are left"))
    }

    /// An operator can no longer fail or remove any member.
    fn expect_commands_refused(&mut self) -> Result<(), Violation> {
        let array = self.array().clone();
        for member in self.report()?.members {
            let (array, name) = (array.clone(), member.name.clone());
            let asked = async move { [array.fail(&name).await, array.remove(&name).await] };
            let [failed, removed] = self.finish(asked, "commands beyond the level's tolerance")?;
            if failed.is_ok() || removed.is_ok() {
                let (name, state) = (member.name, member.state.name());
                let what = format!(
                    "the array has failed, and takes commands: failing {name}, {state}: {failed:?}; removing it: {removed:?}"
                );
                return Err(Checker::Service.violation(what));
            }
        }
        Ok(())
    }

    /// A device to be added is refused, and not written to: it may be a lost member under another name.
    fn expect_left_as_it_is(&mut self) -> Result<(), Violation> {
        self.new_unit();
        let unit = self.units.last().expect("one was just made");
        let (array, device, sim) = (self.array().clone(), unit.device.clone(), unit.sim.clone());
        let before = sim.changes();
        let added = self.finish(async move { array.add(device).await }, "adding a device")?;
        if added.is_err() && sim.changes() == before {
            return Ok(());
        }
        let what = format!("the array has failed, and a device was added to it or written to: {added:?}");
        Err(Checker::Service.violation(what))
    }

    /// One more of the remaining members vanishes: a read discovers it, and nothing is recorded.
    fn lose_one_more(&mut self, left: &[usize]) -> Result<(), Violation> {
        let unit = left[self.side_rng.usize(..left.len())];
        self.say(|story| format!("{} vanishes, too", story.units[unit].name()));
        self.units[unit].faults.set_gone(true);
        self.expect_right_or_errors()
    }

    /// All members are back: the array opens, by force if needed, and has its data.
    fn bring_back(&mut self, before: &[usize]) -> Result<(), Violation> {
        self.units.iter().for_each(|unit| {
            unit.faults.clear();
            unit.sim.calm_down();
        });
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
        self.forgive_lost(before)?;
        for window in self.desk.windows.clone() {
            let content = self.read_window(&window)?;
            self.desk.sectors.lock().adopt(window.start, &content)?;
        }
        self.settle()
    }

    /// Forgives the write hole: data of rows being written on members that are not back in their roles.
    fn forgive_lost(&mut self, before: &[usize]) -> Result<(), Violation> {
        let array = self.array().clone();
        let report = self.finish(async move { array.report().await }, "a report")?;
        let is_back = |role: usize| {
            let name = self.units[before[role]].name();
            let holds = |member: &MemberReport| {
                member.name == name
                    && member.slot == Some(MemberIndex(role))
                    && member.state == MemberState::InSync
            };
            report.members.iter().any(holds)
        };
        let back: Vec<bool> = (0..before.len()).map(is_back).collect();
        // Any mirror may be read until the resync has passed.
        let is_mirrored = self.shape.level == Level::Raid1;
        self.forgive_hole(|role, _| is_mirrored || !back[role]);
        Ok(())
    }

    /// Opens the array with all devices.
    pub(super) fn open_as(&mut self, force: bool) -> Result<Result<(), AssembleError>, Violation> {
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
}

fn refused(error: &AssembleError) -> Violation {
    Checker::Service.violation(format!("all members are back, and the array is refused: {error}"))
}
