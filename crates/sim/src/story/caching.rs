//! The caches of stories' arrays: in some stories, of a few stripes, so that they are full most of the time.

use fastrand::Rng;
use stripewise_engine::{CacheKind, CacheSettings};

use super::Story;
use crate::check::{Checker, Violation};

/// One story in so many is of an array with a cache.
const CACHED_ONE_IN: u64 = 3;

impl Story {
    /// The cache of the next opening.
    pub(super) fn any_cache(&mut self) -> CacheSettings {
        self.was_cached = false;
        if !self.plan.caches || self.plan.seed % CACHED_ONE_IN != 1 || !self.may_cache {
            return CacheSettings::default();
        }
        let rng: &mut Rng = &mut self.cache_rng;
        let kind = [CacheKind::Stripe, CacheKind::Stripe, CacheKind::Pbg, CacheKind::None][rng.usize(..4)];
        let stripes = [2, 2, 3, 5, 16, 200][rng.usize(..6)];
        let stripe_bytes = u64::from(self.shape.chunk_bytes) * self.shape.data_columns() as u64;
        let size_bytes = (stripes * stripe_bytes * 5 / 4 + 16384).min(32 << 20);
        self.say(|_| format!("cache: {kind:?} of {size_bytes} bytes"));
        self.was_cached = kind != CacheKind::None;
        CacheSettings::new(kind, size_bytes)
    }

    /// The next opening has none.
    pub(super) fn no_cache(&mut self) -> CacheSettings {
        self.was_cached = false;
        CacheSettings::default()
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
