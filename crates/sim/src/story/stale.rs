//! Too few members are left that are current: the array is refused, and with `--force` the one that is the least behind is taken.
//! What was written since it left may be lost; nothing else.

use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{AssembleError, SpeedLimits};

use super::Story;
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// Blocks that are written between two members' leaving.
const WRITES_MAX: usize = 8;

impl Story {
    /// Members leave one after the other; then one too many is absent.
    pub(super) fn take_stale(&mut self) -> Result<(), Violation> {
        // A member that is left must be able to tell that the others are behind.
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
            // A member that is half filled is no better than none.
            self.array().set_speed_limits(SpeedLimits { min_bytes_per_s: 1 << 16, max_bytes_per_s: 1 << 16 });
            self.add_new_unit()?;
            self.wait_for_filling(|job| job.done_stripes > 0);
        }
        let absent = serving[0];
        self.crash()?;
        // What is filled by now is a member as good as any; else one too many is gone.
        if self.with_image(|image, _| image.as_good_as_in_sync().len()) != Some(serving.len()) {
            return Ok(());
        }
        self.units[absent].faults.set_gone(true);
        self.lost.insert(absent);
        self.say(|story| format!("{} is absent, and one too many", story.units[absent].name()));
        match self.open_as(false)? {
            Err(AssembleError::TooFew { .. }) => {}
            Err(error) => {
                return Err(
                    Checker::Service.violation(format!("too few members, and not called so: {error}"))
                );
            }
            Ok(()) => {
                return Err(Checker::Currency.violation("too few members are current, and the array is open"));
            }
        }
        if let Err(error) = self.open_as(true)? {
            return Err(Checker::Service
                .violation(format!("members that are behind are refused with force: {error}")));
        }
        self.expect_but(&since)
    }

    /// Writes some blocks for good. Returns their rows.
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

    /// All is right but for these rows, and stays as it is read first.
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
