//! Regions that are forgotten while a write comes and goes in one of them: that one must not be forgotten.

use std::{sync::atomic::Ordering, time::Duration};

use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::ArrayError;

use super::Story;
use crate::{
    Sight,
    check::{Checker, SECTOR_BYTES},
};

/// How much longer a flush takes than a write, so that the write comes and goes meanwhile.
const FLUSH_SLOWNESS: u32 = 30;
/// Time in which working clients end.
const CLIENTS_TIME: Duration = Duration::from_millis(50);
/// Sectors of a write.
const WRITE_SECTORS: usize = 8;
/// Steps until the next round of housekeeping.
const IDLE_STEPS: u64 = 20_000;
/// Steps in which the flush and its consequences end.
const CLEARING_STEPS: u64 = 2000;

impl Story {
    /// Waits until no client works and a flush begins that will clear a region; then a client writes there
    /// again. True once the bitmap is written.
    pub(super) fn write_while_clearing(&mut self) -> bool {
        if self.shape.tolerance() == 0 {
            return false;
        }
        let window = self.desk.windows[self.side_rng.usize(..self.desk.windows.len())].clone();
        let home = self.side_rng.usize(window);
        self.world.run_for(CLIENTS_TIME);
        self.start_write(home, false);
        self.world.run_for(self.shape.tuning.housekeeping_interval);
        self.units.iter().for_each(|unit| unit.sim.set_flush_slowness(FLUSH_SLOWNESS));
        let flushes = self.world.seen(Sight::Flush);
        if !self.world.run_steps_until(IDLE_STEPS, || self.world.seen(Sight::Flush) != flushes) {
            return false;
        }
        self.start_write(home, false);
        let pages = self.world.seen(Sight::Page);
        self.world.run_steps_until(CLEARING_STEPS, || self.world.seen(Sight::Page) != pages)
    }

    /// Starts a write of a sector's block, durable or not, without waiting for it.
    pub(super) fn start_write(&mut self, sector: usize, fua: bool) {
        let (array, desk) = (self.array().clone(), self.desk.clone());
        let first = sector / WRITE_SECTORS * WRITE_SECTORS;
        let count = WRITE_SECTORS.min(desk.sectors.lock().count() - first);
        self.world.env().spawn(Box::pin(async move {
            let mut content = IoBuf::with_len(count * SECTOR_BYTES);
            let ticket = {
                let mut sectors = desk.sectors.lock();
                sectors.fill(first, &mut content);
                sectors.begin_write(first, &content)
            };
            let offset = (first * SECTOR_BYTES) as u64;
            let written = array.write(offset, content.freeze(), WriteFlags { fua }).await;
            desk.sectors.lock().end_write(ticket, written.is_ok(), fua);
            if let Err(error) = written
                && error != ArrayError::Closed
                && !desk.is_lenient.load(Ordering::Relaxed)
            {
                desk.report(Checker::Service.violation(format!("a write of a block: {error}")));
            }
        }));
    }
}
