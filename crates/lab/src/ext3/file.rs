//! A file: its blocks, and how it grows.

use super::{blocks::Window, layout::BLOCK_BYTES};

/// Block numbers that an inode holds itself.
pub(super) const DIRECT: u64 = 12;
/// Block numbers in an indirect block.
const POINTERS: u64 = BLOCK_BYTES / 4;

/// Blocks one behind the other: the first, and how many.
pub(crate) type Run = (u32, u32);

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// Counted from 0.
    pub(super) inode: u32,
    pub(super) directory: u32,
    /// Its place in the directory.
    pub(super) entry: u32,
    /// Its data, in order.
    pub(crate) data: Vec<Run>,
    /// Its indirect blocks.
    pub(crate) indirect: Vec<u32>,
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Growing {
    pub(super) file: File,
    pub(super) window: Window,
    /// Where its next block is looked for.
    pub(super) goal: u32,
    /// Blocks of data so far.
    blocks: u64,
}

impl File {
    /// The directory that it is in.
    pub(crate) fn directory(&self) -> u32 {
        self.directory
    }

    /// Its data's blocks, in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u32> {
        self.data.iter().flat_map(|(first, count)| *first..first + count)
    }
}

impl Growing {
    /// An empty one, at this entry of a directory.
    pub(super) fn new(inode: u32, (directory, entry): (u32, u32), goal: u32) -> Self {
        let file = File { inode, directory, entry, data: Vec::new(), indirect: Vec::new() };
        Self { file, window: Window::default(), goal, blocks: 0 }
    }

    /// How many indirect blocks it needs before its next block of data.
    pub(super) fn lacks_indirect(&self) -> u32 {
        indirect_before(self.blocks)
    }

    /// Its next block of data is this one.
    pub(super) fn extend(&mut self, block: u32) {
        match self.file.data.last_mut() {
            Some((first, count)) if *first + *count == block => *count += 1,
            _ => self.file.data.push((block, 1)),
        }
        self.blocks += 1;
    }
}

/// How many indirect blocks a file needs before its block of this index, and did not have before.
pub(super) fn indirect_before(index: u64) -> u32 {
    let Some(rest) = index.checked_sub(DIRECT) else { return 0 };
    if !rest.is_multiple_of(POINTERS) {
        return 0;
    }
    match (rest / POINTERS).checked_sub(1) {
        None => 1,
        Some(0) => 2,
        Some(second) if second < POINTERS => 1,
        Some(second) if second == POINTERS => 3,
        Some(second) => 1 + u32::from(second.is_multiple_of(POINTERS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_needs_indirect_blocks_where_its_inode_and_the_last_one_are_full() {
        let count = |blocks: u64| (0..blocks).map(indirect_before).sum::<u32>();
        // Of 4 GiB and a block: one, then one with 1024 others, then three.
        assert_eq!(
            [12, 13, 12 + 1025, 12 + 1024 * 1025, 12 + 1024 * 1025 + 1].map(count),
            [0, 1, 3, 1026, 1029]
        );
    }

    #[test]
    fn blocks_behind_one_another_are_one_run() {
        let mut growing = Growing::new(1, (0, 0), 7);
        [7, 8, 20, 21].into_iter().for_each(|block| growing.extend(block));
        let file = growing.file;
        assert_eq!(file.data, [(7, 2), (20, 2)]);
        assert_eq!(file.blocks().collect::<Vec<_>>(), [7, 8, 20, 21]);
    }
}
