//! How much may be dirty so that a flush ends in time: what members take until then, as measured.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::Cache;

/// While more is dirty than may be, writes make this part of what is destaged dirty again.
const TAKEN_PARTS: u64 = 2;

/// The limit.
#[derive(Debug)]
pub(super) struct FlushLimit {
    blocks: AtomicU64,
    /// What it should be, and is once no more than that is dirty.
    wanted: AtomicU64,
    /// Blocks that members take in a second; 0 while that is not known.
    blocks_per_s: AtomicU64,
    /// Blocks that had been destaged when the limit was last set.
    destaged: AtomicU64,
}

impl Default for FlushLimit {
    fn default() -> Self {
        let [blocks, wanted] = [u64::MAX; 2].map(AtomicU64::new);
        Self { blocks, wanted, blocks_per_s: AtomicU64::new(0), destaged: AtomicU64::new(0) }
    }
}

impl FlushLimit {
    /// So many blocks may be dirty.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Blocks that members take in a second; 0 while that is not known.
    pub(super) fn blocks_per_s(&self) -> u64 {
        self.blocks_per_s.load(Relaxed)
    }

    /// How much larger than it should be it is, as a part of that.
    fn excess(&self) -> f64 {
        self.blocks() as f64 / self.wanted.load(Relaxed).max(1) as f64 - 1.0
    }

    /// Sets it for a flush of this time, where so many blocks are dirty and so many were destaged so far. If more is dirty
    /// than should be, it goes down with what is destaged, half as fast: writers are slowed, and do not stand still until all
    /// of the rest is destaged.
    fn set(&self, time: Option<Duration>, dirty: u64, destaged: u64) {
        let rate = self.blocks_per_s();
        let time = time.filter(|_| rate > 0);
        let wanted = time.map_or(u64::MAX, |time| (time.as_secs_f64() * rate as f64) as u64);
        let taken = destaged.saturating_sub(self.destaged.swap(destaged, Relaxed)) / TAKEN_PARTS;
        let least = match self.blocks() {
            u64::MAX => dirty,
            before => before.saturating_sub(taken).min(dirty + taken),
        };
        self.wanted.store(wanted, Relaxed);
        self.blocks.store(wanted.max(least), Relaxed);
    }
}

impl Cache {
    /// Members take so many blocks in a second: what may be dirty follows from it.
    pub(crate) fn note_rate(&self, blocks_per_s: f64) {
        self.flush_limit.blocks_per_s.store(blocks_per_s as u64, Relaxed);
        self.limit_flush_time();
    }

    /// How much more may be dirty than should be, as a part of that: as long as that is so, writers are slowed.
    pub(crate) fn dirty_excess(&self) -> f64 {
        self.flush_limit.excess()
    }

    /// Lets no more be dirty than members take in the time that a flush may take.
    pub(crate) fn limit_flush_time(&self) {
        let time = self.settings().flush_time;
        self.flush_limit.set(time, self.dirty_blocks(), self.destaged_blocks());
        self.note_fill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Option<Duration> = Some(Duration::from_secs(10));

    #[test]
    fn nothing_is_limited_until_a_rate_is_known_or_without_a_time() {
        let limit = FlushLimit::default();
        limit.set(TIME, 1000, 0);
        assert_eq!(limit.blocks(), u64::MAX);
        limit.blocks_per_s.store(10, Relaxed);
        limit.set(None, 1000, 0);
        assert_eq!(limit.blocks(), u64::MAX);
        limit.set(TIME, 99, 0);
        assert_eq!(limit.blocks(), 100);
    }

    /// Members take 100 blocks between two looks, and writers all that they may.
    #[test]
    fn writers_go_on_while_too_much_is_dirty() {
        let limit = FlushLimit::default();
        let (mut dirty, mut destaged) = (10_000, 5_000);
        limit.set(TIME, dirty, destaged);
        limit.blocks_per_s.store(100, Relaxed);
        limit.set(TIME, dirty, destaged);
        assert_eq!(limit.blocks(), dirty);
        for _ in 0..1000 {
            (dirty, destaged) = (dirty - 100, destaged + 100);
            limit.set(TIME, dirty, destaged);
            let written = limit.blocks().saturating_sub(dirty);
            assert!((50..=100).contains(&written), "{written} beside {dirty}");
            dirty += written;
            assert_eq!(limit.excess() > 0.0, dirty > 1000);
        }
        assert_eq!(dirty, 1000);
    }

    #[test]
    fn a_limit_that_was_high_is_not_filled_up_to_later() {
        let limit = FlushLimit::default();
        limit.set(TIME, 10_000, 0);
        limit.blocks_per_s.store(100, Relaxed);
        limit.set(TIME, 10_000, 0);
        limit.set(TIME, 10, 9_990);
        limit.set(TIME, 10, 9_990);
        assert_eq!(limit.blocks(), 1000);
    }
}
