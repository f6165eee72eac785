//! A sequential reader, for which stripes are read ahead into the cache, while other clients write there.

use std::time::Duration;

use fastrand::Rng;
use stripewise_device::IoBuf;
use stripewise_engine::{CacheKind, CacheSettings, ReadCache};

use super::{Slot, Story};
use crate::{
    check::{SECTOR_BYTES, Violation},
    client::Client,
};

/// One calm time in so many of an array that may have a cache.
const ONE_IN: u8 = 4;
/// Stripes that are read one after the other.
const STRIPES: usize = 6;
/// How often.
const TIMES: usize = 4;
/// The most steps between a read and the first write of the next stripe.
const STEPS_MAX: u64 = 40;
/// One in so many writes must be durable.
const FUA_ONE_IN: u8 = 3;

impl Story {
    /// Now and then a client reads some stripes in order, and others write the next stripe meanwhile. What can be read then
    /// is what members hold, too.
    pub(super) fn read_ahead_beside_writes(&mut self) -> Result<(), Violation> {
        if !self.has_caches() || self.cache_rng.u8(..ONE_IN) != 0 {
            return Ok(());
        }
        let Some(first) = self.whole_stripes() else { return Ok(()) };
        let now = self.any_cache_settings();
        let settings = CacheSettings { read: ReadCache::Ahead, idle: Some(Duration::from_millis(1)), ..now };
        if !self.use_cache(CacheSettings { kind: CacheKind::Stripe, ..settings })? {
            return Ok(());
        }
        // Until requests of before have ended, it keeps nothing clean.
        self.world.run_for(2 * self.shape.tuning.housekeeping_interval);
        self.say(|_| format!("stripes are read ahead from sector {first}"));
        for _ in 0..TIMES {
            let clients = self.read_and_write(first)?;
            self.wait_for_clients(&clients)?;
            self.flush_all()?;
            self.pin_stripes(first)?;
        }
        self.use_cache(CacheSettings { kind: CacheKind::None, ..settings })?;
        self.pin_stripes(first)?;
        self.expect_whole("stripes were read ahead")
    }

    /// Sectors of a stripe.
    fn stripe_sectors(&self) -> usize {
        self.layout().stripe_bytes() / SECTOR_BYTES
    }

    /// The first sector of some stripes that clients use as a whole.
    fn whole_stripes(&mut self) -> Option<usize> {
        let stripe = self.stripe_sectors();
        let windows = &self.desk.windows;
        let window = windows[self.cache_rng.usize(..windows.len())].clone();
        let (first, end) = (window.start.next_multiple_of(stripe), window.end);
        let last = end.checked_sub(STRIPES * stripe).filter(|last| first <= *last)?;
        Some(first + self.cache_rng.usize(0..=(last - first) / stripe) * stripe)
    }

    /// Reads the first block of each chunk. Meanwhile, before some chunk of a stripe or after its last, clients begin to
    /// write the next one.
    fn read_and_write(&mut self, first: usize) -> Result<Vec<Slot<()>>, Violation> {
        let (stripe, chunk) = (self.stripe_sectors(), self.shape.chunk_bytes as usize / SECTOR_BYTES);
        let mut clients = Vec::new();
        for index in 0..STRIPES {
            let start = first + index * stripe;
            let begins = start + self.cache_rng.usize(0..=stripe / chunk) * chunk;
            for at in (start..start + stripe).step_by(chunk) {
                if at == begins && index + 1 < STRIPES {
                    clients.push(self.write_some_of(start + stripe, stripe));
                    let steps = self.cache_rng.u64(..STEPS_MAX);
                    self.world.run_steps(steps);
                }
                let (array, offset_bytes) = (self.array().clone(), (at * SECTOR_BYTES) as u64);
                let read = async move { array.read(offset_bytes, IoBuf::with_len(SECTOR_BYTES)).await };
                let _ = self.finish(read, "a read")?;
            }
            let steps = self.cache_rng.u64(..STEPS_MAX);
            self.world.run_steps(steps);
            if begins == start + stripe && index + 1 < STRIPES {
                clients.push(self.write_some_of(start + stripe, stripe));
            }
        }
        Ok(clients)
    }

    /// Starts a write of a whole stripe, or of a block of it.
    fn write_some_of(&mut self, start: usize, stripe: usize) -> Slot<()> {
        let block = super::caching::BLOCK_SECTORS;
        let (first, count) = match self.cache_rng.bool() {
            true => (start, stripe),
            false => (start + self.cache_rng.usize(..stripe / block) * block, block),
        };
        let rng = Rng::with_seed(self.cache_rng.u64(..));
        let (array, desk) = (self.array().clone(), self.desk.clone());
        let client = Client { array, desk, rng, home: 0, fua_one_in: FUA_ONE_IN };
        self.world.start(client.write_run(first, count))
    }

    /// Reads what nobody writes: it holds what it may, and holds it from now on.
    fn pin_stripes(&mut self, first: usize) -> Result<(), Violation> {
        let all = first..first + STRIPES * self.stripe_sectors();
        let content = self.read_window(&all)?;
        self.desk.sectors.lock().adopt(all.start, &content)
    }
}
