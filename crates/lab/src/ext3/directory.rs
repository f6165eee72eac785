//! A directory: places for entries, and the blocks that hold them.

use super::{file::DIRECT, layout::BLOCK_BYTES};

/// Bytes of an entry for a name of nine to twelve letters.
const ENTRY_BYTES: u64 = 20;
/// Entries of a block.
const ENTRIES: u32 = (BLOCK_BYTES / ENTRY_BYTES) as u32;

/// A directory.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) inode: u32,
    pub(super) blocks: Vec<u32>,
    /// Places for entries so far, and those of them that are empty.
    entries: u32,
    empty: Vec<u32>,
}

impl Directory {
    /// An empty one.
    pub(super) fn new(inode: u32) -> Self {
        Self { inode, blocks: Vec::new(), entries: 0, empty: Vec::new() }
    }

    /// Takes a place for an entry: an empty one, or else a new one. [`Self::lacks_block`] tells whether it has a block.
    pub(super) fn take(&mut self) -> u32 {
        self.empty.pop().unwrap_or_else(|| {
            self.entries += 1;
            self.entries - 1
        })
    }

    /// An entry's place is empty from now on.
    pub(super) fn give_back(&mut self, entry: u32) {
        self.empty.push(entry);
    }

    /// Whether an entry that was just taken needs another block.
    ///
    /// # Panics
    /// If the inode has no number left for it.
    pub(super) fn lacks_block(&self, entry: u32) -> bool {
        let lacks = entry / ENTRIES == self.blocks.len() as u32;
        assert!(!lacks || (self.blocks.len() as u64) < DIRECT, "the directory is too large");
        lacks
    }

    /// The block that holds an entry.
    pub(super) fn block_of(&self, entry: u32) -> u32 {
        self.blocks[(entry / ENTRIES) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_taken_before_what_is_new() {
        let mut of = Directory::new(2);
        assert!((0..ENTRIES).all(|place| of.take() == place && of.lacks_block(place)));
        of.blocks.push(9);
        assert!(!of.lacks_block(ENTRIES - 1) && of.lacks_block(ENTRIES));
        of.give_back(3);
        assert_eq!((of.take(), of.take(), of.block_of(3)), (3, ENTRIES, 9));
    }
}
