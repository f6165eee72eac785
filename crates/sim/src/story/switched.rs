//! A cache that comes while writes of a stream are gathered: they reach members beside it, and later than what it
//! destages.

use std::{ops::Range, time::Duration};

use fastrand::Rng;
use stripewise_engine::{ArrayError, CacheKind, CacheSettings};

use super::{Slot, Story, caching::BLOCK_SECTORS};
use crate::{
    check::{Checker, SECTOR_BYTES, Violation},
    client::Client,
};

/// One calm time in so many of an array that may have a cache.
const ONE_IN: u8 = 4;
/// The blocks of the stream.
const BLOCKS: Range<usize> = 5..9;
/// The most steps between two of its writes, and from the last one until the cache comes.
const STEPS_BETWEEN: u64 = 3;
const STEPS_MAX: u64 = 30;
/// How often a cache comes and goes.
const TIMES: usize = 6;
/// One in so many writes of the stream must be durable, and of those after it.
const SELDOM_FUA: u8 = 100;
const ALWAYS_FUA: u8 = 1;

impl Story {
    /// Now and then clients write a stream, a cache comes meanwhile, and they write the same blocks again. What they read
    /// then is what members hold, too.
    pub(super) fn cache_a_stream_under_way(&mut self) -> Result<(), Violation> {
        if !self.has_caches() || self.cache_rng.u8(..ONE_IN) != 0 {
            return Ok(());
        }
        let blocks = self.blocks_of_a_stream();
        if blocks.len() < BLOCKS.start || !self.another_cache(CacheKind::None)? {
            return Ok(());
        }
        self.say(|_| format!("a cache comes while {blocks:?} are written"));
        for _ in 0..TIMES {
            let mut clients = self.write_each(&blocks, SELDOM_FUA);
            let steps = self.cache_rng.u64(..STEPS_MAX);
            self.world.run_steps(steps);
            self.another_cache(CacheKind::Stripe)?;
            clients.extend(self.write_each(&blocks, ALWAYS_FUA));
            self.wait_for_clients(&clients)?;
            self.flush_all()?;
            self.pin(&blocks)?;
            self.another_cache(CacheKind::None)?;
            self.pin(&blocks)?;
        }
        self.expect_whole("a cache came while a stream was written")
    }

    /// Neighbouring blocks of one stripe, all of which clients use.
    fn blocks_of_a_stream(&mut self) -> Vec<usize> {
        let stripe = self.layout().stripe_bytes() / SECTOR_BYTES;
        let windows = &self.desk.windows;
        let window = windows[self.cache_rng.usize(..windows.len())].clone();
        let at = self.cache_rng.usize(window) / stripe * stripe;
        let count = self.cache_rng.usize(BLOCKS);
        let of_stripe = (at..at + stripe).step_by(BLOCK_SECTORS);
        of_stripe.filter(|block| self.is_whole_block(*block)).take(count).collect()
    }

    /// Puts another cache in the place of this one. False if this array keeps no choice of one.
    fn another_cache(&mut self, kind: CacheKind) -> Result<bool, Violation> {
        let now = self.array().cache_settings();
        // It must be another one, even if there is one of this kind.
        let size_bytes = self.any_cache_settings().size_bytes;
        let idle = Some(Duration::from_millis(1));
        self.use_cache(CacheSettings { kind, size_bytes, idle, ..now })
    }

    /// Changes the cache, and waits until that is done. False if this array keeps no choice of one.
    pub(super) fn use_cache(&mut self, settings: CacheSettings) -> Result<bool, Violation> {
        self.was_cached |= settings.kind != CacheKind::None;
        let array = self.array().clone();
        match self.finish(async move { array.set_cache(settings).await }, "a change of the cache")? {
            Ok(()) => Ok(true),
            Err(ArrayError::Unsupported(_)) => Ok(false),
            Err(error) => Err(Checker::Service.violation(format!("a change of the cache: {error}"))),
        }
    }

    /// Starts a write of each block, of a client of its own, which is durable or is not.
    fn write_each(&mut self, blocks: &[usize], fua_one_in: u8) -> Vec<Slot<()>> {
        let mut clients = Vec::new();
        for block in blocks {
            let (array, desk, rng) =
                (self.array().clone(), self.desk.clone(), Rng::with_seed(self.cache_rng.u64(..)));
            let client = Client { array, desk, rng, home: 0, fua_one_in };
            clients.push(self.world.start(client.write_block(*block)));
            let steps = self.cache_rng.u64(..STEPS_BETWEEN);
            self.world.run_steps(steps);
        }
        clients
    }

    /// Reads blocks that nobody writes: they hold what they may, and hold it from now on.
    fn pin(&mut self, blocks: &[usize]) -> Result<(), Violation> {
        for block in blocks {
            let content = self.read_window(&(*block..block + BLOCK_SECTORS))?;
            self.desk.sectors.lock().adopt(*block, &content)?;
        }
        Ok(())
    }
}
