//! Streams in an array whose cache is full. Writes of a stream that pass the cache by are gathered, unless the cache is to
//! write some of their blocks: those are newer than what members have, and older than the stream.

use fastrand::Rng;

use super::{Slot, Story, caching::BLOCK_SECTORS};
use crate::{
    check::{SECTOR_BYTES, Violation},
    client::Client,
};

/// One busy time in so many of an array with a cache begins with such a stream.
const ONE_IN: u8 = 2;
/// The most blocks that are written elsewhere, so that the cache is full.
const ELSEWHERE_MAX: usize = 60;
/// The most blocks of a write of the stream.
const BLOCKS_MAX: usize = 3;
/// The most steps between two writes of the stream.
const STEPS_BETWEEN: u64 = 2;
/// One of so many writes must be durable.
const FUA_ONE_IN: u8 = 64;

impl Story {
    /// Now and then, some blocks of a stripe are written, then others until the cache may be full, and then a stream goes
    /// over that stripe.
    pub(super) fn streams_over_what_is_dirty(&mut self) -> Result<(), Violation> {
        if self.array().cache().is_none() || self.stream_rng.u8(..ONE_IN) != 0 {
            return Ok(());
        }
        let run = self.run_in_a_stripe();
        self.say(|_| format!("a stream goes over {} blocks from sector {:?} on", run.len(), run.first()));
        let mut writing: Vec<Slot<()>> = Vec::new();
        for block in &run {
            if self.stream_rng.bool() {
                writing.push(self.write_run(*block, 1));
            }
        }
        self.wait_for_clients(&writing)?;
        let blocks = self.blocks();
        for _ in 0..self.stream_rng.usize(..=ELSEWHERE_MAX) {
            let block = blocks[self.stream_rng.usize(..blocks.len())].start;
            if self.is_whole_block(block) {
                writing.push(self.write_run(block, 1));
            }
        }
        let mut left = run.as_slice();
        while let Some(first) = left.first().copied() {
            let count = self.stream_rng.usize(1..=BLOCKS_MAX).min(left.len());
            left = &left[count..];
            writing.push(self.write_run(first, count));
            let steps = self.stream_rng.u64(..STEPS_BETWEEN);
            self.world.run_steps(steps);
        }
        self.wait_for_clients(&writing)?;
        for block in run {
            self.check_sectors(&(block..block + BLOCK_SECTORS))?;
        }
        self.desk.check()
    }

    /// A client begins to write so many blocks.
    fn write_run(&mut self, first: usize, blocks: usize) -> Slot<()> {
        let (array, desk, rng) =
            (self.array().clone(), self.desk.clone(), Rng::with_seed(self.stream_rng.u64(..)));
        let client = Client { array, desk, rng, home: 0, fua_one_in: FUA_ONE_IN };
        self.world.start(client.write_run(first, blocks * BLOCK_SECTORS))
    }

    /// Blocks of some stripe that follow one another.
    fn run_in_a_stripe(&mut self) -> Vec<usize> {
        let all: Vec<usize> = self.blocks().into_iter().map(|block| block.start).collect();
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        let number = all[self.stream_rng.usize(..all.len())] / stripe;
        let mut run: Vec<usize> = Vec::new();
        for block in all.into_iter().filter(|block| block / stripe == number && self.is_whole_block(*block)) {
            if run.last().is_none_or(|last| last + BLOCK_SECTORS == block) {
                run.push(block);
            }
        }
        run
    }
}
