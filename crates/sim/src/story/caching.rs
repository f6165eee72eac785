//! The caches of stories' arrays: in some stories, of a few stripes, so that they are full most of the time. And a life
//! of such an array that ends when a durable write of a row is acknowledged that others write and flush.

use fastrand::Rng;
use std::time::Duration;
use stripewise_engine::{
    Array, CacheAlloc, CacheKind, CachePast, CacheSettings, ReadCache, StrideLimit, StrideLimits,
    destage::{WHAT, WHEN},
    plan::passes::GapRule,
};

use super::{Shape, Story};
use crate::{
    check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES},
    client::Client,
};

/// The cache is changed after one action of so many.
const CHANGES_ONE_IN: u8 = 4;
/// All but one in so many times, strides are limited.
const LIMITS_ONE_LESS_IN: u8 = 4;
/// One life in so many of an array with a cache ends while clients crowd in a row.
const CROWD_ONE_IN: u8 = 4;
/// The most requests before a write is started that must be durable, and until it is.
const REQUESTS_MAX: usize = 40;
/// The most steps between two requests.
const STEPS_BETWEEN: u64 = 12;
/// One of so many of their writes must be durable.
const FUA_ONE_IN: u8 = 8;
/// How much longer a flush takes than a write: what is destaged without FUA is not durable for a while.
const FLUSH_SLOWNESS: u32 = 20;

/// Sectors of a block.
pub(super) const BLOCK_SECTORS: usize = ROW_BYTES / SECTOR_BYTES;

/// Any settings of a cache for an array of this shape; one in five is of none. Mostly it has room for a few stripes.
pub(crate) fn draw_settings(shape: &Shape, rng: &mut Rng) -> CacheSettings {
    draw_settings_for(u64::from(shape.chunk_bytes) * shape.data_columns() as u64, rng)
}

/// As [`draw_settings`], for stripes of so many bytes of data.
pub(crate) fn draw_settings_for(stripe_bytes: u64, rng: &mut Rng) -> CacheSettings {
    let min_bytes = 2 * stripe_bytes * 5 / 4 + 16384;
    let kind = CacheKind::ALL[rng.usize(..CacheKind::ALL.len())];
    let stripes = [2, 2, 3, 5, 16, 200][rng.usize(..6)];
    let size_bytes = (stripes * stripe_bytes * 5 / 4 + 16384).min(32 << 20).max(min_bytes);
    let mut time =
        || [None, Some(1), Some(30), Some(1000), Some(30_000)][rng.usize(..5)].map(Duration::from_millis);
    let (age, idle, flush_time) = (time(), time(), time());
    let low_percent = rng.u8(1..99);
    CacheSettings {
        when: WHEN[rng.usize(..WHEN.len())],
        what: WHAT[rng.usize(..WHAT.len())],
        low_percent,
        high_percent: rng.u8(low_percent + 1..=100),
        age,
        idle,
        flush_time,
        read: ReadCache::ALL[rng.usize(..ReadCache::ALL.len())],
        alloc: CacheAlloc::ALL[rng.usize(..CacheAlloc::ALL.len())],
        past: CachePast::ALL[usize::from(rng.u8(..4) == 0)],
        gaps: GapRule::ALL[rng.usize(..GapRule::ALL.len())],
        ..CacheSettings::new(kind, size_bytes)
    }
}

impl Story {
    /// The cache of the next opening.
    pub(super) fn any_cache(&mut self) -> CacheSettings {
        self.was_cached = false;
        if !self.has_caches() {
            return CacheSettings::default();
        }
        let settings = self.any_cache_settings();
        self.was_cached = settings.kind != CacheKind::None;
        settings
    }

    /// The cache of the next opening: now and then the one that members keep.
    pub(super) fn any_cache_of_opening(&mut self) -> Option<CacheSettings> {
        let settings = self.any_cache();
        let is_kept = self.has_caches() && self.cache_rng.u8(..4) == 0;
        // Perhaps there is one.
        self.was_cached |= is_kept;
        (!is_kept).then_some(settings)
    }

    /// Whether the array of this story has a cache now and then.
    pub(super) fn has_caches(&self) -> bool {
        self.plan.has_caches() && self.may_cache && self.shape.level.has_parity()
    }

    pub(super) fn any_cache_settings(&mut self) -> CacheSettings {
        let settings = draw_settings(&self.shape, &mut self.cache_rng);
        self.say(|_| format!("cache: {settings:?}"));
        settings
    }

    /// Mostly, an operator of a cache that fills gaps says which, before clients work.
    pub(super) fn limit_strides(&mut self) {
        let fills_gaps = |array: &Array| array.cache_settings().kind.fills_gaps();
        if !self.array.as_ref().is_some_and(fills_gaps) || self.cache_rng.u8(..LIMITS_ONE_LESS_IN) == 0 {
            return;
        }
        let mut limit = || Some(StrideLimit::Blocks([1, 2, 3, 4, 9, 64, 256][self.cache_rng.usize(..7)]));
        let limits = StrideLimits { read: limit(), write: limit() };
        let array = self.array().clone();
        self.command(format!("{limits:?}"), async move { array.limit_strides(limits).await });
    }

    /// Now and then an operator changes the cache while clients work.
    pub(super) fn change_cache(&mut self) {
        if !self.has_caches() || self.cache_rng.u8(..CHANGES_ONE_IN) != 0 || self.array.is_none() {
            return;
        }
        let mut settings = self.any_cache_settings();
        if self.cache_rng.bool() {
            // What is changed without another cache.
            let now = self.array().cache_settings();
            (settings.kind, settings.size_bytes) = (now.kind, now.size_bytes);
        }
        self.was_cached |= settings.kind != CacheKind::None;
        let array = self.array().clone();
        self.command("another cache".to_owned(), async move { array.set_cache(settings).await });
    }

    /// From now on all reads reach members. False if this array keeps no choice of a cache, and has one.
    pub(super) fn does_without_cache(&mut self) -> Result<bool, Violation> {
        let array = self.array().clone();
        let settings = CacheSettings { kind: CacheKind::None, ..array.cache_settings() };
        Ok(array.cache().is_none() || self.use_cache(settings)?)
    }

    /// From now on, until something is written, all reads reach members. False if this array keeps no choice of a cache, and
    /// has one: then they may not.
    pub(super) fn reads_reach_members(&mut self) -> Result<bool, Violation> {
        let array = self.array().clone();
        if array.cache().is_none() {
            return Ok(true);
        }
        let settings = CacheSettings { read: ReadCache::Nothing, ..array.cache_settings() };
        if settings != array.cache_settings() && !self.use_cache(settings)? {
            return Ok(false);
        }
        self.flush_all()?;
        Ok(true)
    }

    /// Clients write, flush and write durably in one row, which is being destaged all the time. True once a durable
    /// write there is acknowledged: power fails at once. False: there is no cache, or it is not drawn.
    pub(super) fn crowds_in_a_row(&mut self) -> Result<bool, Violation> {
        if self.array().cache().is_none() || self.cache_rng.u8(..CROWD_ONE_IN) != 0 {
            return Ok(false);
        }
        let blocks = self.row_of_blocks();
        if blocks.is_empty() {
            return Ok(false);
        }
        self.say(|_| format!("clients crowd in the row of {blocks:?}"));
        self.units.iter().for_each(|unit| unit.sim.set_flush_slowness(FLUSH_SLOWNESS));
        for _ in 0..self.cache_rng.usize(..=REQUESTS_MAX) {
            self.ask_in_row(&blocks);
        }
        let (client, block) = (self.client_of_row(1), blocks[self.cache_rng.usize(..blocks.len())]);
        let written = self.world.start(client.write_block(block));
        for _ in 0..REQUESTS_MAX {
            if written.lock().is_some() {
                break;
            }
            self.ask_in_row(&blocks);
        }
        self.wait_for(written, "a durable write in a row")?;
        self.say(|_| format!("block {block} is written durably"));
        self.desk.check().map(|()| true)
    }

    /// One client writes something of a row or flushes, and others go on for some steps.
    fn ask_in_row(&mut self, blocks: &[usize]) {
        let client = self.client_of_row(FUA_ONE_IN);
        self.world.env().spawn(Box::pin(client.write_or_flush(blocks.to_vec())));
        let steps = self.cache_rng.u64(..STEPS_BETWEEN);
        self.world.run_steps(steps);
    }

    fn client_of_row(&mut self, fua_one_in: u8) -> Client {
        let (array, desk) = (self.array().clone(), self.desk.clone());
        Client { array, desk, rng: Rng::with_seed(self.cache_rng.u64(..)), home: 0, fua_one_in }
    }

    /// The blocks of some row that clients use, of all columns.
    pub(super) fn row_of_blocks(&mut self) -> Vec<usize> {
        let blocks = self.blocks();
        let block = blocks[self.cache_rng.usize(..blocks.len())].start / BLOCK_SECTORS * BLOCK_SECTORS;
        let (stripe, chunk) =
            (self.layout().stripe_bytes() / SECTOR_BYTES, self.shape.chunk_bytes as usize / SECTOR_BYTES);
        let first = block / stripe * stripe + block % stripe % chunk;
        let columns = (0..self.shape.data_columns()).map(|column| first + column * chunk);
        columns.filter(|block| self.is_whole_block(*block)).collect()
    }

    /// The cache takes no more memory than it may.
    pub(super) fn check_cache(&self) -> Result<(), Violation> {
        let Some(cache) = self.array.as_ref().and_then(|array| array.cache()) else { return Ok(()) };
        if cache.used_bytes <= cache.size_bytes {
            return Ok(());
        }
        let what = format!("the cache takes {} of {} bytes", cache.used_bytes, cache.size_bytes);
        Err(Checker::Service.violation(what))
    }
}
