//! Reads and writes of a large file, in sequence or in pieces at random: msc-ct IV-E.

use fastrand::Rng;
use serde::Serialize;
use stripewise_load::{Extent, Step};

use super::{copying::read_ahead, file::File, layout::BLOCK_BYTES, made::Made, page_cache::extent};

/// Reads or writes of a large file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OneFile {
    /// The file system.
    pub made: Made,
    /// Bytes of the file, and of what is read or written in all.
    pub file_bytes: u64,
    /// Whether it is read.
    pub read: bool,
    /// Bytes of the pieces that are taken at random; without, all is taken in sequence.
    pub random_bytes: Option<u64>,
}

impl OneFile {
    /// In keys.
    pub(crate) fn key(&self) -> String {
        let way = if self.read { "read" } else { "write" };
        let pieces =
            self.random_bytes.map_or_else(|| "sequential".to_owned(), |bytes| format!("random={bytes}"));
        format!("{way} file={} {pieces} {}", self.file_bytes, self.made.key())
    }

    /// Its requests. The file exists before, unless it is written in sequence.
    pub(crate) fn steps(&self, seed: u64) -> Vec<Step> {
        let (mut of, mut cache) = self.made.mount(seed);
        let directory = of.make_directory(None);
        let is_measured = !self.read && self.random_bytes.is_none();
        let mut growing = of.begin(directory);
        for _ in 0..self.file_bytes / BLOCK_BYTES {
            of.append(&mut growing);
            if is_measured {
                cache.write_when_full(&mut of);
            }
        }
        let file = of.close(growing);
        if is_measured {
            return cache.end(&mut of);
        }
        of.take_dirty();
        let Some(bytes) = self.random_bytes else {
            return reads(file.data.iter().flat_map(read_ahead));
        };
        let pieces = self.pieces(&file, bytes / BLOCK_BYTES, seed);
        if self.read {
            return reads(pieces.iter().flat_map(|blocks| runs(blocks)));
        }
        for piece in pieces {
            of.overwrite(&file, &piece);
            cache.write_when_full(&mut of);
        }
        cache.end(&mut of)
    }

    /// As many pieces at random as the file has, each of these blocks.
    fn pieces(&self, file: &File, piece: u64, seed: u64) -> Vec<Vec<u32>> {
        let blocks: Vec<_> = file.blocks().collect();
        let (mut rng, count) = (Rng::with_seed(seed), blocks.len() / piece as usize);
        let mut draw =
            || blocks.chunks_exact(piece as usize).nth(rng.usize(..count)).unwrap_or_default().to_vec();
        (0..count).map(|_| draw()).collect()
    }
}

/// One step of reads.
fn reads(reads: impl Iterator<Item = Extent>) -> Vec<Step> {
    vec![Step { reads: reads.collect(), writes: Vec::new() }]
}

/// A request for each run of blocks that lie one behind the other.
fn runs(blocks: &[u32]) -> impl Iterator<Item = Extent> {
    blocks.chunk_by(|one, next| one + 1 == *next).map(|run| extent((run[0], run.len() as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(read: bool, random_bytes: Option<u64>) -> [u64; 2] {
        let made = Made { size_bytes: 1 << 30, journal_blocks: 1024, dirty_blocks: 4096 };
        let file = OneFile { made, file_bytes: 64 << 20, read, random_bytes };
        let steps = file.steps(1);
        let sum =
            |of: fn(&Step) -> &Vec<Extent>| steps.iter().flat_map(of).map(|extent| extent.len_bytes).sum();
        [sum(|step| &step.reads), sum(|step| &step.writes)]
    }

    #[test]
    fn as_much_is_read_or_written_as_the_file_has() {
        let all = 64 << 20;
        assert_eq!([bytes(true, None), bytes(true, Some(512 << 10))], [[all, 0]; 2]);
        let [read, written] = bytes(false, None);
        assert!(read == 0 && (all..all + (1 << 20)).contains(&written), "{written}");
        let [read, written] = bytes(false, Some(512 << 10));
        // A piece that is drawn twice while it is dirty is written once.
        assert!(read == 0 && (all / 2..all).contains(&written), "{written}");
    }
}
