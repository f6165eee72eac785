//! Who waits for rows: a job that wants all rows of a stripe is not starved by clients that want one each, and who waits behind one
//! that gives up goes on.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{Slot, Story};
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// Clients that write a row each without a pause, at most.
const WRITERS_MAX: usize = 6;
/// Writes of each in which a scrub of a whole array has long come to its end.
const WRITES_MAX: usize = 1500;
/// Clients that give up what they asked for.
const IMPATIENT: usize = 6;
/// Requests of each, at most.
const GIVEN_UP_MAX: usize = 12;

impl Story {
    /// Clients write rows of one stripe, each its own, one write after the other: a scrub gets the stripe all the same.
    pub(super) fn scrub_beside_busy_rows(&mut self) -> Result<(), Violation> {
        let block = self.any_block();
        let blocks = self.rows_of_chunk(block.start);
        if self.shape.tolerance() == 0 || self.shape.is_vast || blocks.len() < 2 {
            return Ok(());
        }
        let is_enough = Arc::new(AtomicBool::new(false));
        let mut writers = Vec::new();
        for block in blocks {
            let writing = self.crowding_client().keep_writing(block, WRITES_MAX, is_enough.clone());
            writers.push(self.world.start(writing));
        }
        self.say(|_| format!("{} clients write rows of one stripe without a pause", writers.len()));
        let mend = self.side_rng.bool();
        self.begin_scrub(mend)?;
        let has_ended = self.scrub_ends_before(&writers)?;
        is_enough.store(true, Ordering::Relaxed);
        self.wait_for_clients(&writers)?;
        self.wait_for_jobs()?;
        if !has_ended {
            let what = format!("clients have written {WRITES_MAX} times each, and a scrub waits still");
            return Err(Checker::Engine.violation(what));
        }
        self.desk.check()?;
        self.expect_whole("a scrub ran beside clients that wrote without a pause")
    }

    /// Runs until the scrub is over, or all clients have ended before.
    fn scrub_ends_before(&self, clients: &[Slot<()>]) -> Result<bool, Violation> {
        let array = self.array();
        let is_over = || array.job().is_none();
        let have_ended = || clients.iter().all(|client| client.lock().is_some());
        if self.world.run_steps_until(super::STEPS_MAX, || is_over() || have_ended()) {
            return Ok(is_over());
        }
        Err(Checker::Engine.violation("neither a scrub nor the clients beside it come to an end"))
    }

    /// The blocks of the chunk that a sector is in, from that sector's on and as far as clients use them, some at most.
    fn rows_of_chunk(&self, sector: usize) -> Vec<usize> {
        let (row, chunk) = (ROW_BYTES / SECTOR_BYTES, self.shape.chunk_bytes as usize / SECTOR_BYTES);
        let first = sector / chunk * chunk;
        let blocks = (first..first + chunk).step_by(row).filter(|block| self.is_whole_block(*block));
        blocks.take(WRITERS_MAX).collect()
    }

    /// Clients read a block that is recovered from the others, and give up before it is there, while others write it: nobody waits
    /// for who has given up.
    pub(super) fn give_up_reading(&mut self) -> Result<(), Violation> {
        let block = self.any_block();
        if !self.shape.level.has_parity() || !self.is_whole_block(block.start) {
            return Ok(());
        }
        // A spare that waits is not to take the role.
        self.array().pause_jobs();
        let role = self.layout().place(block.start * SECTOR_BYTES).role;
        let missing = self.units_by_role()[role];
        self.fail_calmly(missing)?;
        let mut clients = self.crowd(block.start);
        for _ in 0..IMPATIENT {
            let (client, requests) = (self.crowding_client(), self.side_rng.usize(1..=GIVEN_UP_MAX));
            clients.push(self.world.start(client.give_up(block.start, requests)));
        }
        self.wait_for_clients(&clients)?;
        self.desk.check()?;
        self.add_again(missing)?;
        self.array().resume_jobs();
        self.expect_whole("clients gave up what they had asked for")
    }
}
