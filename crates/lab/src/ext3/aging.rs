//! A file system that is aged on purpose: msc-ct IV-D.

use fastrand::Rng;
use serde::Serialize;
use stripewise_load::Step;

use super::{
    file::File,
    files::Ext3,
    layout::BLOCK_BYTES,
    made::{Made, normal},
};

/// Files of a directory; the paper leaves it open.
const FILES_A_DIRECTORY: usize = 100;
/// The share of the capacity that is filled: msc-ct IV-D.
const FULL: f64 = 0.9;
/// The share of the files that a cycle deletes: msc-ct IV-D.
const DELETED: f64 = 0.2;

/// What is done, and which part of it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Aging {
    /// The file system.
    pub made: Made,
    /// Mean of the files' sizes, in bytes; they are normally distributed, with a quarter of it as their deviation.
    pub mean_bytes: u64,
    /// The cycle whose writes are measured; 0 is that which fills the new file system.
    pub cycle: u32,
}

/// The file system between two cycles.
struct Aged {
    of: Ext3,
    rng: Rng,
    files: Vec<File>,
    /// Directories that lack a file, once for each.
    lacking: Vec<u32>,
    mean_bytes: u64,
}

impl Aging {
    /// In keys.
    pub(crate) fn key(&self) -> String {
        format!("aging mean={} cycle={} {}", self.mean_bytes, self.cycle, self.made.key())
    }

    /// Bytes of files that a cycle writes: what it deleted, or at first all.
    pub(crate) fn written_bytes(&self) -> u64 {
        let share = if self.cycle == 0 { FULL } else { FULL * DELETED };
        (self.made.size_bytes as f64 * share) as u64
    }

    /// The writes of the cycle that is measured.
    pub(crate) fn steps(&self, seed: u64) -> Vec<Step> {
        let (of, mut cache) = self.made.mount(seed);
        let rng = Rng::with_seed(seed);
        let mut aged = Aged { of, rng, files: Vec::new(), lacking: Vec::new(), mean_bytes: self.mean_bytes };
        for _ in 0..self.cycle {
            while aged.create().is_some() {}
            aged.of.take_dirty();
            aged.delete();
        }
        // The deletions' metadata are on the device before the writes begin.
        aged.of.take_dirty();
        while aged.create().is_some() {
            cache.write_when_full(&mut aged.of);
        }
        cache.end(&mut aged.of)
    }
}

impl Aged {
    /// Writes a file where one lacks, or into a new directory; none if the file system is as full as it shall be.
    fn create(&mut self) -> Option<()> {
        let left = self.of.free_blocks() as f64 - self.of.blocks() as f64 * (1.0 - FULL);
        if left <= 0.0 {
            return None;
        }
        let directory = self.lacking.pop().unwrap_or_else(|| {
            let made = self.of.make_directory(None);
            self.lacking.extend(std::iter::repeat_n(made, FILES_A_DIRECTORY - 1));
            made
        });
        let blocks = self.size_blocks();
        let file = self.of.create(directory, blocks);
        self.files.push(file);
        Some(())
    }

    /// Deletes a share of the files. Their directories are filled again in the order in which they were made.
    fn delete(&mut self) {
        let count = (self.files.len() as f64 * DELETED) as usize;
        for _ in 0..count {
            let file = self.files.swap_remove(self.rng.usize(..self.files.len()));
            self.of.remove(&file);
            self.lacking.push(file.directory());
        }
        self.lacking.sort_unstable_by_key(|directory| std::cmp::Reverse(*directory));
    }

    /// A file's size, in blocks.
    fn size_blocks(&mut self) -> u64 {
        let mean = self.mean_bytes as f64;
        let bytes = mean + mean / 4.0 * normal(&mut self.rng);
        (bytes.max(1.0) as u64).div_ceil(BLOCK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aging(mean_bytes: u64, cycle: u32) -> Aging {
        let made = Made { size_bytes: 512 << 20, journal_blocks: 1024, dirty_blocks: 4096 };
        Aging { made, mean_bytes, cycle }
    }

    /// Runs of blocks that lie one behind the other, over all blocks of the writes.
    fn fragments_a_block(aging: Aging) -> f64 {
        let steps = aging.steps(1);
        let places = || steps.iter().flat_map(|step| &step.writes).map(|write| write.offset_bytes);
        let breaks = places().zip(places().skip(1)).filter(|(one, next)| one + BLOCK_BYTES != *next).count();
        breaks as f64 / places().count() as f64
    }

    #[test]
    fn a_cycle_writes_what_it_deleted() {
        for (mean, cycle) in [(16 << 10, 0), (16 << 10, 3), (512 << 10, 3)] {
            let aging = aging(mean, cycle);
            let written: u64 =
                aging.steps(1).iter().flat_map(|step| &step.writes).map(|write| write.len_bytes).sum();
            let share = written as f64 / aging.written_bytes() as f64;
            // Metadata and journal are written, too, and files of normally distributed sizes end in a block of their own; what the
            // file system itself takes was never free.
            assert!((0.8..1.5).contains(&share), "{mean} in cycle {cycle}: {share}");
        }
    }

    #[test]
    fn small_files_are_scattered_and_age_makes_it_worse() {
        let [new, young, old] = [0, 1, 12].map(|cycle| fragments_a_block(aging(16 << 10, cycle)));
        assert!(new < 0.05 && young > 0.1 && old > 1.1 * young, "{new}, {young}, {old}");
        let large = fragments_a_block(aging(1 << 20, 12));
        assert!(large < old / 3.0, "{large} and {old}");
    }
}
