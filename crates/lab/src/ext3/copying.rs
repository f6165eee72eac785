//! Files that are read from the file system and written to another directory of it: msc-ct IV-E's *self-copy*.

use std::collections::BTreeSet;

use fastrand::Rng;
use serde::Serialize;
use stripewise_load::{Extent, Step};

use super::{
    file::{File, Run},
    files::Ext3,
    layout::BLOCK_BYTES,
    made::{Made, normal},
    page_cache::{PageCache, extent},
};

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Files {
    /// How many files.
    pub count: u32,
    /// Their mean size, in bytes.
    pub mean_bytes: u64,
    /// How their sizes are distributed.
    pub sizes: Sizes,
    /// How many of them share a directory.
    pub a_directory: u32,
}

/// How files' sizes are distributed around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// All alike.
    Alike,
    /// Normally, with a quarter of the mean as their deviation.
    Normal,
    /// As those of programs' sources: half of the files are shorter than a third of the mean, and the longest have five times
    /// the mean. They are the fourth power of an even number.
    Sources,
}

/// A copy, on a file system that held nothing but the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Copying {
    /// The file system.
    pub made: Made,
    /// The files.
    pub files: Files,
    /// Blocks that a file's window set aside stay empty when the file is closed, as the paper has it.
    pub keeps_windows: bool,
}

impl Copying {
    /// In keys.
    pub(crate) fn key(&self) -> String {
        let Files { count, mean_bytes, sizes, a_directory } = self.files;
        let kept = if self.keeps_windows { " windows-kept" } else { "" };
        let (sizes, made) = (sizes.word(), self.made.key());
        format!("copy {count} of {mean_bytes} {sizes} dir={a_directory}{kept} {made}")
    }

    /// Bytes of the files.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.files.count) * self.files.mean_bytes
    }

    /// What is read and written for the copy.
    pub(crate) fn steps(&self, seed: u64) -> Vec<Step> {
        let (mut of, mut cache) = self.made.mount(seed);
        if self.keeps_windows {
            of.keep_windows();
        }
        let files = self.sources(&mut of, &mut Rng::with_seed(seed));
        of.take_dirty();
        let mut known = BTreeSet::new();
        let top = of.make_directory(None);
        for files in files.chunks(self.files.a_directory as usize) {
            let directory = of.make_directory(Some(top));
            for file in files {
                let metadata: Vec<_> = of.read_for(file).filter(|block| known.insert(*block)).collect();
                cache.read(metadata.into_iter().map(|block| extent((block, 1))));
                copy(&mut of, &mut cache, file, directory);
            }
        }
        cache.end(&mut of)
    }

    /// Writes the files that will be copied.
    fn sources(&self, of: &mut Ext3, rng: &mut Rng) -> Vec<File> {
        let top = of.make_directory(None);
        let mut directory = top;
        let make = |index: u32| {
            if index.is_multiple_of(self.files.a_directory) {
                directory = of.make_directory(Some(top));
            }
            of.create(directory, self.files.size_blocks(rng))
        };
        (0..self.files.count).map(make).collect()
    }
}

/// Reads a file and writes it to a directory.
fn copy(of: &mut Ext3, cache: &mut PageCache, file: &File, directory: u32) {
    let mut growing = of.begin(directory);
    for window in file.data.iter().flat_map(read_ahead) {
        cache.read([window]);
        for _ in 0..window.len_bytes / BLOCK_BYTES {
            of.append(&mut growing);
            cache.write_when_full(of);
        }
    }
    of.close(growing);
}

impl Sizes {
    /// In keys.
    fn word(self) -> &'static str {
        match self {
            Self::Alike => "alike",
            Self::Normal => "normal",
            Self::Sources => "sources",
        }
    }
}

impl Files {
    /// A file's size, in blocks.
    fn size_blocks(&self, rng: &mut Rng) -> u64 {
        let mean = self.mean_bytes as f64;
        let bytes = match self.sizes {
            Sizes::Alike => mean,
            Sizes::Normal => mean + mean / 4.0 * normal(rng),
            Sizes::Sources => {
                let even = rng.f64();
                5.0 * mean * even * even * even * even
            }
        };
        (bytes.max(1.0) as u64).div_ceil(BLOCK_BYTES)
    }
}

/// Blocks of a window of read-ahead (`VM_MAX_READAHEAD`).
const READ_AHEAD: u32 = (128 << 10) / BLOCK_BYTES as u32;

/// The requests that read a run: each is a window of read-ahead.
pub(super) fn read_ahead((first, count): &Run) -> impl Iterator<Item = Extent> {
    let (first, end) = (*first, *first + *count);
    (first..end).step_by(READ_AHEAD as usize).map(move |at| extent((at, READ_AHEAD.min(end - at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copying(files: Files) -> Copying {
        let made = Made { size_bytes: 1 << 30, journal_blocks: 1024, dirty_blocks: 4096 };
        Copying { made, files, keeps_windows: false }
    }

    #[test]
    fn all_that_is_written_was_read() {
        let files = Files { count: 700, mean_bytes: 20 << 10, sizes: Sizes::Sources, a_directory: 25 };
        let copying = copying(files);
        let steps = copying.steps(1);
        let blocks = |extents: fn(&Step) -> &Vec<Extent>| {
            let bytes: u64 = steps.iter().flat_map(extents).map(|extent| extent.len_bytes).sum();
            bytes as f64 / copying.bytes() as f64
        };
        // Files end in a block of their own, half of which is empty; metadata come on top.
        let (read, written) = (blocks(|step| &step.reads), blocks(|step| &step.writes));
        assert!((1.0..1.3).contains(&read) && (read..1.4).contains(&written), "{read} and {written}");
    }

    #[test]
    fn sizes_have_their_mean() {
        let mut rng = Rng::with_seed(1);
        for sizes in [Sizes::Alike, Sizes::Normal, Sizes::Sources] {
            let files = Files { count: 1, mean_bytes: 1 << 20, sizes, a_directory: 1 };
            let mean = (0..20_000).map(|_| files.size_blocks(&mut rng)).sum::<u64>() as f64 / 20_000.0;
            assert!((250.0..262.0).contains(&mean), "{sizes:?}: {mean} blocks");
        }
    }

    #[test]
    fn runs_are_read_in_windows() {
        let lens: Vec<_> = read_ahead(&(7, 70)).map(|extent| extent.len_bytes / BLOCK_BYTES).collect();
        assert_eq!(lens, [32, 32, 6]);
    }
}
