//! Requests that get in each other's way where the engine must not be late: beside the first write of a
//! region, beside writes of sectors listed as bad, beside the healing of a block.

use std::ops::Range;

use fastrand::Rng;

use super::{Slot, Story};
use crate::{
    Sight,
    check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES, listed::log_in_use},
    client::Client,
};

/// How much longer the first page write of a region takes than the data writes meanwhile.
const MARKING_SLOWNESS: u32 = 30;
/// Steps until the page write of a first write begins.
const PAGE_STEPS: u64 = 500;
/// Rounds of housekeeping after which no region is marked without writes to it.
const IDLE_ROUNDS: u32 = 4;
/// Blocks that are crowded, at most.
const BLOCKS_MAX: usize = 4;
/// Clients of a crowd.
const CLIENTS: usize = 3;
/// Requests of each, at most.
const REQUESTS_MAX: usize = 12;
/// The most steps from a log's write until power fails.
const LOG_STEPS: u64 = 12;
/// Blocks that are healed one after the other, at most.
const HEALINGS_MAX: usize = 6;
/// Steps in which housekeeping begins to heal.
const HEALING_STEPS: u64 = 20_000;
/// The most steps from the first read of a healing until a client writes there.
const AFTER_READ_STEPS: u64 = 10;

impl Story {
    /// A client that works on some block.
    pub(super) fn crowding_client(&mut self) -> Client {
        let (array, desk) = (self.array().clone(), self.desk.clone());
        Client { array, desk, rng: Rng::with_seed(self.side_rng.u64(..)), home: 0, fua_one_in: 4 }
    }

    /// Some clients that write and read one block.
    pub(super) fn crowd(&mut self, block: usize) -> Vec<Slot<()>> {
        self.say(|_| format!("clients crowd at sector {block}"));
        let start = |_| {
            let (client, requests) = (self.crowding_client(), self.side_rng.usize(1..=REQUESTS_MAX));
            self.world.start(client.crowd(block, requests))
        };
        (0..CLIENTS).map(start).collect()
    }

    /// If members list sectors, clients crowd there half of the time: listed sectors are good only once a
    /// write of them is done.
    pub(super) fn crowd_at_listed(&mut self) -> Vec<Slot<()>> {
        let mut clients = Vec::new();
        for _ in 0..self.side_rng.usize(..=BLOCKS_MAX) {
            let sector = self.listed_sector().filter(|sector| self.is_whole_block(*sector));
            clients.extend(sector.into_iter().flat_map(|sector| self.crowd(sector)));
        }
        clients
    }

    /// Another program lists sectors of a stopped array; once it is opened again, clients crowd there. Now
    /// and then power fails when a log is written; or a member's log cannot be read, and the member is left
    /// out.
    pub(super) fn list_and_crowd(&mut self) -> Result<(), Violation> {
        let serving = self.units_by_role();
        self.stop()?;
        self.list_as_another(&serving);
        match self.side_rng.u8(..5) {
            0 => self.open_without_log()?,
            1 => self.lose_power_at_log()?,
            2 => self.write_listed_and_stop()?,
            _ => {
                self.open_plainly()?;
                let clients = self.crowd_at_listed();
                self.wait_for_clients(&clients)?;
            }
        }
        self.wait_for_jobs()?;
        self.flush_all()?;
        self.hole.clear();
        self.check_content()?;
        self.expect_unlisted()?;
        self.check_redundancy()
    }

    fn lose_power_at_log(&mut self) -> Result<(), Violation> {
        self.open_plainly()?;
        self.crowd_at_listed();
        self.wait_to_see(Sight::Log);
        let steps = self.side_rng.u64(..LOG_STEPS);
        self.world.run_steps(steps);
        self.lose_power()?;
        self.note_hole();
        self.open_until_it_serves()
    }

    /// A listed block is written, and the array stopped at once: it is no longer listed.
    fn write_listed_and_stop(&mut self) -> Result<(), Violation> {
        self.open_plainly()?;
        let listed = self.listed_sector().filter(|sector| self.is_whole_block(*sector));
        let Some(sector) = listed else { return Ok(()) };
        let place = self.layout().place(sector * SECTOR_BYTES);
        let unit = self.units_by_role()[place.role];
        let block = sector..sector + ROW_BYTES / SECTOR_BYTES;
        let grain = self.array().geometry().logical_block_bytes() as usize / SECTOR_BYTES;
        let part = sector + self.side_rng.usize(..block.len() / grain) * grain;
        for sectors in [part..part + grain, block.clone()] {
            let written = self.try_write(&sectors)?;
            written
                .map_err(|error| Checker::Service.violation(format!("writing what is listed: {error}")))?;
            self.check_sectors(&block)?;
        }
        self.stop()?;
        self.look_at_log(unit);
        if self.units[unit].listed.contains(&(place.offset_bytes / ROW_BYTES)) {
            let what = format!(
                "sector {sector} was written, the array stopped, and {} lists it",
                self.units[unit].name()
            );
            return Err(Checker::Service.violation(what));
        }
        self.open_plainly()
    }

    /// If one member lists sectors and its log cannot be read, the others have all of its data; a new one
    /// takes its role.
    fn open_without_log(&mut self) -> Result<(), Violation> {
        let listing = self.units_listing();
        let [unit] = listing[..] else { return self.open_plainly() };
        let Some(log) = log_in_use(&self.units[unit].sim.bytes()) else { return self.open_plainly() };
        self.cannot_read(unit, log.start, u32::MAX);
        self.open_plainly()?;
        self.check_content()?;
        self.units[unit].renew(&self.shape);
        self.add_new_unit()
    }

    /// The next column's block in the same row, if clients use it: it changes what a block is recovered from.
    fn beside(&self, sector: usize) -> usize {
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        let chunk = self.shape.chunk_bytes as usize / SECTOR_BYTES;
        let first = sector / stripe * stripe;
        let next = first + (sector - first + chunk) % stripe;
        if self.shape.level.has_parity() && self.is_whole_block(next) { next } else { sector }
    }

    /// Whether a block of 4 KiB that clients use begins at this sector.
    pub(super) fn is_whole_block(&self, sector: usize) -> bool {
        let block = ROW_BYTES / SECTOR_BYTES;
        let holds = |window: &Range<usize>| window.start <= sector && sector + block <= window.end;
        sector.is_multiple_of(block) && self.desk.windows.iter().any(holds)
    }

    /// Waits until nothing is marked; then a write marks its region, which takes long, and other writes reach
    /// the region before that is done. True once the page is being written.
    pub(super) fn write_while_marking(&mut self) -> bool {
        if self.shape.tolerance() == 0 {
            return false;
        }
        let window = self.desk.windows[self.side_rng.usize(..self.desk.windows.len())].clone();
        let home = self.side_rng.usize(window.clone());
        self.world.run_for(self.shape.tuning.housekeeping_interval * IDLE_ROUNDS);
        self.units.iter().for_each(|unit| unit.sim.set_metadata_slowness(MARKING_SLOWNESS));
        let pages = self.world.seen(Sight::Page);
        self.start_write(home, false);
        if !self.world.run_steps_until(PAGE_STEPS, || self.world.seen(Sight::Page) != pages) {
            return false;
        }
        for _ in 0..self.side_rng.usize(1..=CLIENTS) {
            let near = home + self.side_rng.usize(..2 * ROW_BYTES / SECTOR_BYTES);
            self.start_write(near.min(window.end - 1), false);
        }
        true
    }

    /// Unreadable blocks are healed, and clients write there at just that moment: their data stays.
    pub(super) fn write_beside_healing(&mut self) -> Result<(), Violation> {
        self.flush_all()?;
        for _ in 0..self.side_rng.usize(1..=HEALINGS_MAX) {
            let block = self.any_block();
            if self.is_whole_block(block.start) {
                self.write_while_healed(block)?;
            }
        }
        self.check_content()?;
        self.check_redundancy()
    }

    fn write_while_healed(&mut self, block: Range<usize>) -> Result<(), Violation> {
        if !self.reads_reach_members()? {
            return Ok(());
        }
        let unit = self.lose_sector(block.start);
        let failed = self.units[unit].faults.failed();
        self.check_sectors(&block)?;
        if self.units[unit].faults.failed() > failed {
            // Of mirrors another one may have been read.
            let (failed, reads) = (self.units[unit].faults.failed(), self.world.seen(Sight::Read));
            let is_early = self.side_rng.bool();
            self.world.run_steps_until(HEALING_STEPS, || match is_early {
                true => self.world.seen(Sight::Read) != reads,
                false => self.units[unit].faults.failed() != failed,
            });
        }
        let steps = self.side_rng.u64(..AFTER_READ_STEPS);
        self.world.run_steps(steps);
        let crowded = if self.side_rng.bool() { self.beside(block.start) } else { block.start };
        let clients = self.crowd(crowded);
        self.wait_for_clients(&clients)?;
        self.world.run_for(2 * self.shape.tuning.housekeeping_interval);
        self.desk.check()
    }
}
