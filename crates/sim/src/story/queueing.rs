//! Requests that wait for rows: a job that wants all rows of a stripe is not starved by clients that want one
//! each, and a request that waits behind one that is given up proceeds.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use stripewise_device::Timestamp;
use stripewise_engine::JobReport;

use super::{Slot, Story};
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// The most clients that write a row each without a pause.
const WRITERS_MAX: usize = 6;
/// Writes of each client; a scrub of a whole array ends long before.
const WRITES_MAX: usize = 1500;
/// Clients that give up their requests.
const IMPATIENT: usize = 6;
/// The most requests of each.
const GIVEN_UP_MAX: usize = 12;

impl Story {
    /// Clients write rows of one stripe, each its own, one write after the other: a scrub gets the stripe all
    /// the same.
    pub(super) fn scrub_beside_busy_rows(&mut self) -> Result<(), Violation> {
        let block = self.any_block();
        let blocks = self.rows_of_stripe(block.start);
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
        let (mend, asked) = (self.side_rng.bool(), self.later());
        self.begin_scrub(mend)?;
        let has_ended = self.scrub_ends_before(asked, &writers)?;
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

    /// Runs until the scrub started at `asked` is over, or all clients have ended before.
    fn scrub_ends_before(&self, asked: Timestamp, clients: &[Slot<()>]) -> Result<bool, Violation> {
        let array = self.array();
        let has_ended = |scrub: JobReport| scrub.started >= asked && scrub.outcome.is_some();
        let is_over = || array.last_scrub().is_some_and(has_ended);
        let have_ended = || clients.iter().all(|client| client.lock().is_some());
        if self.world.run_steps_until(super::STEPS_MAX, || is_over() || have_ended()) {
            return Ok(is_over());
        }
        Err(Checker::Engine.violation("neither a scrub nor the clients beside it come to an end"))
    }

    /// Blocks of the sector's stripe in different rows, none of them right behind another: those would be
    /// written as one.
    fn rows_of_stripe(&self, sector: usize) -> Vec<usize> {
        let (stripe, columns) = (self.layout().stripe_bytes() / SECTOR_BYTES, self.shape.data_columns());
        let (row, chunk) = (ROW_BYTES / SECTOR_BYTES, self.shape.chunk_bytes as usize / SECTOR_BYTES);
        let first = sector / stripe * stripe;
        let rows = (0..chunk / row).step_by(if columns == 1 { 2 } else { 1 });
        let blocks = rows.map(|number| first + number % columns * chunk + number * row);
        blocks.filter(|block| self.is_whole_block(*block)).take(WRITERS_MAX).collect()
    }

    /// Clients read a block that is recovered from the others, and give up before it is there, while others
    /// write it: no request waits for one that was given up.
    pub(super) fn give_up_reading(&mut self) -> Result<(), Violation> {
        let block = self.any_block();
        if !self.shape.level.has_parity() || !self.is_whole_block(block.start) {
            return Ok(());
        }
        // A waiting spare must not take the role.
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
