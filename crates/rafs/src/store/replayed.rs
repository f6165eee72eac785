//! Blocks of files that records brought along, while records are repeated.

use std::{collections::BTreeMap, ops::Range};

use stripewise_device::SharedBuf;

use super::FileBlocks;
use crate::mutants::{Mutant, lives};

/// The newest content of each block that is in the journal, by file and block. So a record may change many of them.
#[derive(Debug, Default)]
pub(crate) struct ReplayedData(BTreeMap<(u64, u64), SharedBuf>);

impl ReplayedData {
    /// A file has these blocks. They come in the place of older ones.
    pub(crate) fn put(&mut self, inode: u64, first: u64, blocks: Vec<SharedBuf>) {
        self.0.extend((first..).zip(blocks).map(|(block, bytes)| ((inode, block), bytes)));
    }

    /// Blocks of a file that came along no longer count.
    pub(crate) fn forget(&mut self, inode: u64, gone: Range<u64>) {
        if gone.is_empty() || lives(Mutant::ReplayForgetsNothing) {
            return;
        }
        let gone: Vec<(u64, u64)> =
            self.0.range((inode, gone.start)..(inode, gone.end)).map(|(at, _)| *at).collect();
        for at in gone {
            self.0.remove(&at);
        }
    }

    /// What is left, in runs of neighbours.
    pub(crate) fn into_runs(self) -> Vec<FileBlocks> {
        let mut runs: Vec<FileBlocks> = Vec::new();
        for ((inode, block), bytes) in self.0 {
            let is_next =
                |run: &&mut FileBlocks| run.inode == inode && run.first + run.blocks.len() as u64 == block;
            match runs.last_mut().filter(is_next) {
                Some(run) => run.blocks.push(bytes),
                None => runs.push(FileBlocks { inode, first: block, blocks: vec![bytes] }),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use stripewise_device::IoBuf;

    use super::*;

    fn block(byte: u8) -> SharedBuf {
        IoBuf::copy_of(&[byte]).freeze()
    }

    /// File, first block, and a byte of each block.
    fn runs(data: ReplayedData) -> Vec<(u64, u64, Vec<u8>)> {
        let bytes = |run: &FileBlocks| run.blocks.iter().map(|block| block[0]).collect();
        data.into_runs().iter().map(|run| (run.inode, run.first, bytes(run))).collect()
    }

    #[test]
    fn the_newest_content_counts_until_it_is_forgotten() {
        let mut data = ReplayedData::default();
        data.put(5, 10, (0..6).map(block).collect());
        data.put(4, 12, vec![block(40)]);
        data.put(5, 12, vec![block(50), block(51)]);
        data.put(5, 16, vec![block(60)]);
        data.forget(5, 14..15);
        data.forget(5, 3..3);
        data.forget(3, 0..u64::MAX);
        assert_eq!(runs(data), [(4, 12, vec![40]), (5, 10, vec![0, 1, 50, 51]), (5, 15, vec![5, 60])]);
    }

    /// A record may have a million changes: a walk over all blocks for each of them would take minutes.
    #[test]
    fn a_record_may_change_many_files() {
        let (mut data, one) = (ReplayedData::default(), block(1));
        for inode in 0..100_000 {
            data.put(inode, 0, vec![one.clone(), one.clone()]);
        }
        (0..100_000).for_each(|inode| data.forget(inode, 0..1));
        assert_eq!(data.into_runs().len(), 100_000);
    }
}
