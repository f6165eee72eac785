//! Where metadata lie: a pure function of the file system's size, as mke2fs of 2005 makes it.
//!
//! Each group has its block bitmap, its inode bitmap and its part of the inode table, in this order. Groups 0 and 1 and those
//! whose numbers are powers of 3, 5 and 7 begin with a copy of the superblock and of the group descriptors (`sparse_super`).

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Blocks of a group: as many as a bitmap of one block has bits.
pub(super) const GROUP_BLOCKS: u32 = 8 * BLOCK_BYTES as u32;
/// Bytes of an inode; mke2fs's default in 2005.
const INODE_BYTES: u32 = 128;
/// Inodes in a block of the table.
pub(super) const INODES_A_BLOCK: u32 = BLOCK_BYTES as u32 / INODE_BYTES;
/// Bytes of the file system for each inode; mke2fs's default.
const BYTES_PER_INODE: u64 = 8192;
/// Bytes of a group descriptor.
const DESCRIPTOR_BYTES: u32 = 32;

/// Sizes and places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Blocks in all.
    pub(crate) blocks: u32,
    /// Blocks of the group descriptors.
    descriptor_blocks: u32,
    /// Inodes of each group.
    pub(super) inodes_per_group: u32,
}

impl Layout {
    /// Of a file system of so many bytes.
    ///
    /// # Panics
    /// If the last group has no room for its metadata, or there are more blocks than 2^32.
    pub(crate) fn new(size_bytes: u64) -> Self {
        let blocks = u32::try_from(size_bytes / BLOCK_BYTES).expect("an ext3 has fewer than 2^32 blocks");
        let groups = blocks.div_ceil(GROUP_BLOCKS);
        let inodes = (u64::from(blocks) * BLOCK_BYTES / BYTES_PER_INODE) as u32;
        let layout = Self {
            blocks,
            descriptor_blocks: groups.div_ceil(BLOCK_BYTES as u32 / DESCRIPTOR_BYTES),
            inodes_per_group: inodes.div_ceil(groups).next_multiple_of(INODES_A_BLOCK),
        };
        let last = groups - 1;
        assert!(layout.group_blocks(last) > layout.metadata(last) + 50, "the last group is too small");
        layout
    }

    /// Groups.
    pub(crate) fn groups(&self) -> u32 {
        self.blocks.div_ceil(GROUP_BLOCKS)
    }

    /// Blocks of a group: the last one may have fewer.
    pub(super) fn group_blocks(&self, group: u32) -> u32 {
        (self.blocks - group * GROUP_BLOCKS).min(GROUP_BLOCKS)
    }

    /// Blocks of metadata at a group's start.
    pub(super) fn metadata(&self, group: u32) -> u32 {
        self.copies(group) + 2 + self.table_blocks()
    }

    /// Where a group's block bitmap lies.
    pub(crate) fn block_bitmap(&self, group: u32) -> u32 {
        group * GROUP_BLOCKS + self.copies(group)
    }

    /// Where its inode bitmap lies.
    pub(crate) fn inode_bitmap(&self, group: u32) -> u32 {
        self.block_bitmap(group) + 1
    }

    /// Where its part of the inode table begins.
    pub(crate) fn inode_table(&self, group: u32) -> u32 {
        self.block_bitmap(group) + 2
    }

    /// Blocks of its part of the inode table.
    pub(crate) fn table_blocks(&self) -> u32 {
        self.inodes_per_group / INODES_A_BLOCK
    }

    /// The block of the descriptors, of the copy in use, that has this group's.
    pub(super) fn descriptor(&self, group: u32) -> u32 {
        1 + group / (BLOCK_BYTES as u32 / DESCRIPTOR_BYTES)
    }

    /// The block of the inode table that has this inode, which is counted from 0.
    pub(super) fn inode_block(&self, inode: u32) -> u32 {
        let (group, index) = (inode / self.inodes_per_group, inode % self.inodes_per_group);
        self.inode_table(group) + index / INODES_A_BLOCK
    }

    /// All blocks of all groups' metadata, in ascending order: what mke2fs writes, the journal aside.
    pub(crate) fn all_metadata(&self) -> impl Iterator<Item = u32> {
        let layout = *self;
        (0..self.groups()).flat_map(move |group| {
            let first = group * GROUP_BLOCKS;
            first..first + layout.metadata(group)
        })
    }

    /// Blocks of the copies of superblock and descriptors.
    fn copies(&self, group: u32) -> u32 {
        if has_copies(group) { 1 + self.descriptor_blocks } else { 0 }
    }
}

/// Whether a group has copies of superblock and descriptors.
fn has_copies(group: u32) -> bool {
    let is_power_of = |base: u32| {
        let mut power = base;
        while power < group {
            power *= base;
        }
        power == group
    };
    group <= 1 || [3, 5, 7].into_iter().any(is_power_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_in_groups_that_are_powers_of_three_five_and_seven() {
        let found: Vec<_> = (0..130).filter(|group| has_copies(*group)).collect();
        assert_eq!(found, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    #[test]
    fn ten_gigabytes_are_eighty_groups() {
        let layout = Layout::new(10 << 30);
        assert_eq!((layout.groups(), layout.inodes_per_group, layout.table_blocks()), (80, 16384, 512));
        assert_eq!(
            (layout.block_bitmap(0), layout.block_bitmap(2), layout.inode_table(1)),
            (2, 65536, 32772)
        );
        assert_eq!(layout.all_metadata().count(), 80 * 514 + 9 * 2, "nine groups have copies");
        assert_eq!((layout.inode_block(0), layout.inode_block(16384 + 33)), (4, 32773));
    }
}
