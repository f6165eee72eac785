//! Blocks that came along with commits: they are durable in the journal, and are in the buffer until they are written out.

use std::{collections::BTreeMap, ops::Range};

/// Such blocks, by file, and whether what is in the journal is what the file has now.
#[derive(Debug, Default)]
pub(super) struct Journaled(BTreeMap<u64, BTreeMap<u64, bool>>);

impl Journaled {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the journal has a block as it is now.
    pub(super) fn is_current(&self, inode: u64, block: u64) -> bool {
        self.0.get(&inode).is_some_and(|blocks| blocks.get(&block) == Some(&true))
    }

    /// Blocks of a file come along with a commit. Returns those of which the journal had no older version.
    pub(super) fn add(&mut self, inode: u64, blocks: Range<u64>) -> Vec<u64> {
        if blocks.is_empty() {
            return Vec::new();
        }
        let all = self.0.entry(inode).or_default();
        blocks.filter(|block| all.insert(*block, true).is_none()).collect()
    }

    /// Blocks of a file are overwritten in the buffer: those in the journal are older ones.
    pub(super) fn outdate(&mut self, inode: u64, blocks: Range<u64>) {
        if let Some(all) = self.0.get_mut(&inode) {
            all.range_mut(blocks).for_each(|(_, is_current)| *is_current = false);
        }
    }

    /// Takes out some blocks of a file. Returns the runs that were there.
    pub(super) fn remove(&mut self, inode: u64, blocks: Range<u64>) -> Vec<Range<u64>> {
        let Some(all) = self.0.get_mut(&inode) else { return Vec::new() };
        let gone: Vec<u64> = all.range(blocks).map(|(block, _)| *block).collect();
        gone.iter().for_each(|block| {
            all.remove(block);
        });
        if all.is_empty() {
            self.0.remove(&inode);
        }
        gone.chunk_by(|one, next| one + 1 == *next).map(|run| run[0]..run[run.len() - 1] + 1).collect()
    }

    /// The files that have some.
    pub(super) fn files(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_out_as_runs_and_older_ones_are_told_apart() {
        let mut journaled = Journaled::default();
        assert_eq!(journaled.add(7, 3..6), [3, 4, 5]);
        assert_eq!(journaled.add(7, 8..9), [8]);
        assert!(journaled.add(7, 9..9).is_empty() && journaled.add(7, 4..5).is_empty());
        assert!(journaled.is_current(7, 5) && !journaled.is_current(7, 6) && !journaled.is_current(8, 5));
        journaled.outdate(7, 5..20);
        assert!(journaled.is_current(7, 4) && !journaled.is_current(7, 5));
        assert_eq!(journaled.remove(7, 4..9), [4..6, 8..9]);
        assert_eq!(journaled.files(), [7]);
        assert!(matches!(journaled.remove(7, 0..9).as_slice(), [run] if *run == (3..4)));
        assert!(journaled.is_empty());
    }
}
