//! A file system as mke2fs makes it, and the writes of making it.

use fastrand::Rng;
use serde::Serialize;
use stripewise_load::Step;

use super::{
    files::{Dirty, Ext3},
    journal::Journal,
    layout::{BLOCK_BYTES, Layout},
    page_cache::PageCache,
};

/// A file system, and the page cache above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Made {
    /// Bytes of the file system.
    pub size_bytes: u64,
    /// Blocks of its journal.
    pub journal_blocks: u64,
    /// Dirty blocks that the page cache holds before it writes them back.
    pub dirty_blocks: u64,
}

impl Made {
    /// In keys.
    pub(crate) fn key(&self) -> String {
        let Self { size_bytes, journal_blocks, dirty_blocks } = self;
        format!("fs={size_bytes} journal={journal_blocks} dirty={dirty_blocks}")
    }

    /// An empty file system, and the page cache for its writes.
    pub(super) fn mount(&self, seed: u64) -> (Ext3, PageCache) {
        let (of, journal) = Ext3::new(self.size_bytes, self.journal_blocks, seed);
        (of, PageCache::new(Journal::new(journal), self.dirty_blocks))
    }

    /// Blocks that mke2fs writes: all groups' metadata, and the journal, which it empties.
    fn written(&self) -> Vec<u32> {
        let (_, journal) = Ext3::new(self.size_bytes, self.journal_blocks, 0);
        Layout::new(self.size_bytes).all_metadata().chain(journal).collect()
    }

    /// Bytes that mke2fs writes.
    pub(crate) fn bytes(&self) -> u64 {
        let layout = Layout::new(self.size_bytes);
        let metadata: u64 = (0..layout.groups()).map(|group| u64::from(layout.metadata(group))).sum();
        (metadata + self.journal_blocks) * BLOCK_BYTES
    }

    /// The writes of mke2fs, which go through the page cache of the device and through no journal.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut cache = PageCache::new(Journal::new(Vec::new()), self.dirty_blocks);
        for data in self.written().chunks(self.dirty_blocks as usize) {
            cache.end_transaction(Dirty { data: data.iter().copied().collect(), ..Dirty::default() });
        }
        cache.into_steps()
    }
}

/// A number of the standard normal distribution: twelve even ones, which need no function that machines compute differently.
pub(super) fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mke2fs_writes_every_block_of_metadata_once() {
        let made = Made { size_bytes: 1 << 30, journal_blocks: 1024, dirty_blocks: 1000 };
        let steps = made.steps();
        let mut places: Vec<_> =
            steps.iter().flat_map(|step| &step.writes).map(|write| write.offset_bytes).collect();
        assert_eq!(places.len() as u64 * 4096, made.bytes());
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[0] < two[1]));
        assert!(steps.iter().all(
            |step| step.writes.len() <= 1000 && step.writes.is_sorted_by_key(|write| write.offset_bytes)
        ));
    }

    #[test]
    fn sizes_are_normally_distributed() {
        let mut rng = Rng::with_seed(1);
        let drawn: Vec<_> = (0..100_000).map(|_| normal(&mut rng)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / drawn.len() as f64;
        assert!(mean.abs() < 0.02 && (0.98..1.02).contains(&variance), "{mean} and {variance}");
    }
}
