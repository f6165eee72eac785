//! Checks and repairs in calm times: they find exactly what is wrong, mend it, and look at every stripe.

use std::{ops::Range, time::Duration};

use stripewise_device::{IoBuf, Timestamp, WriteFlags, ZeroFlags};
use stripewise_engine::{ArrayError, JobKind, JobOutcome, JobReport};

use super::Story;
use crate::{
    Lie,
    check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES},
};

impl Story {
    /// A scrub finds nothing wrong in a sound array; then bytes are made wrong, and it finds these.
    pub(super) fn scrub(&mut self) -> Result<(), Violation> {
        match self.rng.u8(..6) {
            0 => self.expect_mismatches(&[]),
            1 => self.flip_and_check(),
            2 => self.lie_and_repair(),
            3 => self.rot_and_heal(),
            _ => Ok(()),
        }
    }

    /// A moment later than the start of anything so far.
    pub(super) fn later(&mut self) -> Timestamp {
        self.world.run_for(Duration::from_micros(1));
        self.world.now()
    }

    /// Runs a check: it must find exactly these rows.
    fn expect_mismatches(&mut self, rows: &[usize]) -> Result<(), Violation> {
        let layout = self.layout();
        let mut stripes: Vec<u64> = rows.iter().map(|row| layout.stripe_of_row(*row) as u64).collect();
        stripes.dedup();
        let report = self.run_scrub(false)?;
        let found: Vec<u64> = report.mismatches.iter().map(|mismatch| mismatch.stripe).collect();
        if found == stripes && report.mismatched_rows == rows.len() as u64 {
            return Ok(());
        }
        let what =
            format!("a check found {found:?} ({} rows) and rows {rows:?} are wrong", report.mismatched_rows);
        Err(Checker::Scrub.violation(what))
    }

    pub(super) fn run_scrub(&mut self, mend: bool) -> Result<JobReport, Violation> {
        if let Err(error) = self.array().start_scrub(mend) {
            return Err(Checker::Service.violation(format!("starting a scrub: {error}")));
        }
        self.wait_for_jobs()?;
        let report =
            self.array().last_scrub().ok_or_else(|| Checker::Scrub.violation("a scrub did not run"))?;
        match report.outcome {
            Some(JobOutcome::Done) => Ok(report),
            _ => Err(Checker::Scrub.violation(format!("a scrub was not carried to its end: {report:?}"))),
        }
    }

    /// A bit flips on the medium: a check finds its row, and finds nothing once the bit is restored.
    fn flip_and_check(&mut self) -> Result<(), Violation> {
        // What is dirty may be destaged over the flipped bit.
        if self.was_cached {
            self.flush_all()?;
        }
        let units = self.units_by_role();
        let unit = units[self.rng.usize(..units.len())];
        let offset = self.rng.u64(..self.shape.data_bytes);
        let at = self.units[unit].data_offset_bytes + offset;
        self.say(|story| format!("a bit flips on {} at {offset} of its data", story.units[unit].name()));
        let sim = self.units[unit].sim.clone();
        let right = sim.bytes()[at as usize];
        sim.poke(at, &[right ^ 1 << self.rng.u8(..8)]);
        self.expect_mismatches(&[offset as usize / ROW_BYTES])?;
        sim.poke(at, &[right]);
        self.expect_mismatches(&[])
    }

    /// A member loses or misplaces a write that it acknowledges: a check finds the rows, a repair makes them
    /// agree.
    fn lie_and_repair(&mut self) -> Result<(), Violation> {
        let layout = self.layout();
        let units = self.units_by_role();
        let window = self.desk.windows[self.rng.usize(..self.desk.windows.len())].clone();
        let first =
            self.rng.usize(window.start..window.end - 8).next_multiple_of(8).min((window.end - 8) / 8 * 8);
        let unit = units[layout.place(first * SECTOR_BYTES).role];
        // Twice: the first write brings superblocks and bitmap up to date, so that the lie hits data.
        self.write_block(first)?;
        // Nothing tells whether a row agrees if a log lists a part of it.
        self.flush_all()?;
        let data_offset = self.units[unit].data_offset_bytes;
        let elsewhere = self.rng.u64(..self.shape.data_bytes / ROW_BYTES as u64) * ROW_BYTES as u64;
        let lie = if self.rng.bool() { Lie::Lost } else { Lie::Misdirected(data_offset + elsewhere) };
        self.say(|story| format!("{} lies: {lie:?}, at sector {first}", story.units[unit].name()));
        let sim = self.units[unit].sim.clone();
        sim.lie_once(data_offset, lie);
        self.write_block(first)?;
        let wrong = self.disagreeing_rows();
        self.expect_mismatches(&wrong)?;
        self.repair_for_good()?;
        let mut sectors = self.desk.sectors.lock();
        let in_wrong_row =
            |sector: &usize| wrong.contains(&(layout.place(sector * SECTOR_BYTES).offset_bytes / ROW_BYTES));
        let used = self.desk.windows.iter().cloned().flatten();
        let forgiven: Vec<usize> = used.filter(in_wrong_row).collect();
        sectors.forgive(forgiven);
        Ok(())
    }

    /// A repair makes rows agree, even if power fails as soon as it is done.
    fn repair_for_good(&mut self) -> Result<(), Violation> {
        let loses_power = self.side_rng.bool();
        if loses_power {
            // Then no region is marked, and no resync mends what the repair did not.
            self.flush_all()?;
            self.world.run_for(self.shape.tuning.housekeeping_interval * 3);
        }
        self.run_scrub(true)?;
        if loses_power {
            self.lose_power()?;
            self.open_plainly()?;
            self.wait_for_jobs()?;
        }
        self.check_redundancy()
    }

    /// Everything written so far outlasts a power failure.
    pub(super) fn flush_all(&mut self) -> Result<(), Violation> {
        let (array, begun) = (self.array().clone(), self.desk.sectors.lock().begin_flush());
        let flushed = self.finish(async move { array.flush().await }, "a flush")?;
        flushed.map_err(|error| Checker::Service.violation(format!("a flush: {error}")))?;
        self.desk.sectors.lock().end_flush(begun);
        Ok(())
    }

    /// Writes some block that clients use.
    pub(super) fn write_any_block(&mut self) -> Result<(), Violation> {
        let window = self.desk.windows[self.side_rng.usize(..self.desk.windows.len())].clone();
        let first = self.side_rng.usize(window.start..window.end - 8) / 8 * 8;
        self.write_block(first.max(window.start.next_multiple_of(8)))
    }

    fn write_block(&mut self, first: usize) -> Result<(), Violation> {
        let written = self.try_write(&(first..first + 8))?;
        written.map_err(|error| Checker::Service.violation(format!("a write: {error}")))?;
        // What this is for shall happen to members.
        if self.was_cached { self.flush_all() } else { Ok(()) }
    }

    /// Writes sectors with new content.
    pub(super) fn try_write(&mut self, sectors: &Range<usize>) -> Result<Result<(), ArrayError>, Violation> {
        self.try_write_as(sectors, WriteFlags::default())
    }

    /// As [`Story::try_write`], with flags.
    pub(super) fn try_write_as(
        &mut self,
        sectors: &Range<usize>,
        flags: WriteFlags,
    ) -> Result<Result<(), ArrayError>, Violation> {
        let mut content = IoBuf::with_len(sectors.len() * SECTOR_BYTES);
        let ticket = {
            let mut model = self.desk.sectors.lock();
            model.fill(sectors.start, &mut content);
            model.begin_write(sectors.start, &content)
        };
        let array = self.array().clone();
        let offset = (sectors.start * SECTOR_BYTES) as u64;
        let write = async move { array.write(offset, content.freeze(), flags).await };
        let written = self.finish(write, "a write")?;
        self.desk.sectors.lock().end_write(ticket, written.is_ok(), flags.fua);
        Ok(written)
    }

    /// Zeroes sectors.
    pub(super) fn try_zero(&mut self, sectors: &Range<usize>) -> Result<Result<(), ArrayError>, Violation> {
        let ticket = self.desk.sectors.lock().begin_zeroes(sectors.start, sectors.len());
        let (offset, len) = ((sectors.start * SECTOR_BYTES) as u64, (sectors.len() * SECTOR_BYTES) as u64);
        let flags = ZeroFlags { may_unmap: self.side_rng.bool(), ..ZeroFlags::default() };
        let array = self.array().clone();
        let zeroed = self.finish(async move { array.write_zeroes(offset, len, flags).await }, "zeroes")?;
        self.desk.sectors.lock().end_write(ticket, zeroed.is_ok(), false);
        Ok(zeroed)
    }

    fn disagreeing_rows(&mut self) -> Vec<usize> {
        self.with_image(|image, _| image.wrong_rows()).unwrap_or_default()
    }

    /// A check or repair that the array's end cuts short continues at the next opening, and looks at every
    /// stripe; a repair mends what became wrong in the part that it had not reached. At the opening after
    /// that, none continues.
    pub(super) fn interrupt_scrub(&mut self) -> Result<(), Violation> {
        let mend = self.side_rng.bool();
        let units = self.units_by_role();
        units.iter().for_each(|unit| self.units[*unit].sim.watch_reads());
        let (steps, asked) = (super::STEPS_MAX, self.later());
        self.begin_scrub(mend)?;
        let (array, stripes) = (self.array().clone(), self.rng.u64(1..=self.shape.stripes()));
        // This scrub must have begun, not another job or an earlier scrub; else the end would not cut it
        // short.
        self.world.run_steps_until(steps, || {
            let is_scrub = |job: &JobReport| matches!(job.kind, JobKind::Check | JobKind::Repair);
            let has_come = |job: JobReport| is_scrub(&job) && job.done_stripes >= stripes;
            let is_over = |scrub: JobReport| scrub.started >= asked;
            array.job().is_some_and(has_come) || array.last_scrub().is_some_and(is_over)
        });
        self.stop()?;
        let scrub = array.last_scrub().filter(|scrub| scrub.started >= asked);
        drop(array);
        if mend && scrub.is_some_and(|scrub| scrub.done_stripes < self.shape.stripes()) {
            let last = self.shape.stripes() - 1;
            self.make_wrong(units[self.mendable_role(last)], last);
        }
        self.open_plainly()?;
        self.wait_for_jobs()?;
        self.check_redundancy()?;
        self.expect_all_seen(&units)?;
        self.expect_no_scrub_goes_on("a scrub was cut short, resumed, and finished")
    }

    /// Since the watch began, each row was read from the role that has its first parity, or is its first
    /// mirror.
    fn expect_all_seen(&self, units: &[usize]) -> Result<(), Violation> {
        let layout = self.layout();
        let seen: Vec<_> = units.iter().map(|unit| self.units[*unit].sim.watched_reads()).collect();
        let role = |stripe: usize| if layout.level == 1 { 0 } else { layout.parity_role(stripe) };
        let is_seen = |row: &usize| {
            let role = role(layout.stripe_of_row(*row));
            let first = self.units[units[role]].data_offset_bytes as usize / ROW_BYTES;
            seen[role].contains(first + row)
        };
        match (0..layout.rows()).find(|row| !is_seen(row)) {
            None => Ok(()),
            Some(row) => {
                let what = format!("a scrub that was cut short and resumed did not look at row {row}");
                Err(Checker::Scrub.violation(what))
            }
        }
    }
}
