//! The journal with `data=ordered`: the data of a transaction go to their places first, then its metadata into the journal, and
//! later to their places.

use std::collections::BTreeSet;

use super::layout::BLOCK_BYTES;

/// Bytes of a descriptor block that are no tags: its header, and the identifier after the first tag.
const OTHER_BYTES: u64 = 12 + 16;
/// Bytes of a tag, which says where a block of the journal belongs.
const TAG_BYTES: u64 = 8;
/// Blocks of metadata behind a descriptor block.
const TAGS: usize = ((BLOCK_BYTES - OTHER_BYTES) / TAG_BYTES) as usize;

/// A ring of blocks.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Where it lies.
    blocks: Vec<u32>,
    /// Blocks written so far.
    head: u64,
    /// Metadata that the journal has, and their places do not.
    waiting: BTreeSet<u32>,
}

impl Journal {
    /// Over these blocks; its superblock is the first.
    pub(crate) fn new(blocks: Vec<u32>) -> Self {
        Self { blocks, head: 0, waiting: BTreeSet::new() }
    }

    /// Blocks of metadata in the largest transaction: a quarter of the journal.
    pub(crate) fn transaction_blocks(&self) -> u64 {
        self.blocks.len() as u64 / 4
    }

    /// Metadata of earlier transactions that go to their places now: those that the transaction under way does not change.
    pub(crate) fn check_point(&mut self, changed: &BTreeSet<u32>) -> Vec<u32> {
        let (kept, written): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|block| changed.contains(block));
        self.waiting = kept;
        written.into_iter().collect()
    }

    /// Writes a transaction: where its descriptors and its metadata go in the journal, and where the block that commits it.
    pub(crate) fn commit(&mut self, metadata: BTreeSet<u32>) -> (Vec<u32>, u32) {
        let descriptors = metadata.len().div_ceil(TAGS);
        let records = (0..metadata.len() + descriptors).map(|_| self.next()).collect();
        self.waiting.extend(metadata);
        (records, self.next())
    }

    fn next(&mut self) -> u32 {
        let ring = &self.blocks[1..];
        self.head += 1;
        ring[((self.head - 1) % ring.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_again_goes_to_its_place_later() {
        let mut journal = Journal::new((100..110).collect());
        assert_eq!(journal.commit([1, 2, 3].into()), (vec![101, 102, 103, 104], 105));
        assert_eq!(journal.check_point(&[2].into()), [1, 3]);
        assert_eq!(journal.commit([2].into()), (vec![106, 107], 108));
        assert_eq!(journal.commit([7].into()), (vec![109, 101], 102), "a ring without its first block");
        assert_eq!(journal.check_point(&BTreeSet::new()), [2, 7]);
        assert!(journal.check_point(&BTreeSet::new()).is_empty());
    }

    #[test]
    fn many_blocks_have_many_descriptors() {
        let mut journal = Journal::new((0..8192).collect());
        assert_eq!(journal.commit((0..1000).collect()).0.len(), 1000 + 2);
    }
}
