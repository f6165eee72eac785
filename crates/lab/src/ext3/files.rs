//! The file system: its files and directories, and what is dirty after each change.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::{
    blocks::{Blocks, Window},
    directory::Directory,
    file::{File, Growing, indirect_before},
    inodes::Inodes,
    layout::{GROUP_BLOCKS, Layout},
};

/// Where in a group a process begins to look: so many places, which are told apart by its number (`ext3_find_near`).
const COLOURS: u32 = 16;

/// Blocks that the page cache holds and the device does not yet.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Of files.
    pub(crate) data: BTreeSet<u32>,
    /// The rest, which goes through the journal.
    pub(crate) metadata: BTreeSet<u32>,
}

/// A file system.
#[derive(Debug)]
pub(crate) struct Ext3 {
    layout: Layout,
    blocks: Blocks,
    inodes: Inodes,
    directories: Vec<Directory>,
    /// The colour of the first process, and of the one that writes now.
    colours: [u32; 2],
    rng: Rng,
    dirty: Dirty,
    /// Blocks that windows keep from others when their files are closed, if they do.
    kept: Option<u64>,
}

impl Ext3 {
    /// A new one of so many bytes, with a journal of so many blocks. Returns the journal's, too.
    ///
    /// # Panics
    /// If there is no room for it.
    pub(crate) fn new(size_bytes: u64, journal_blocks: u64, seed: u64) -> (Self, Vec<u32>) {
        let layout = Layout::new(size_bytes);
        let mut rng = Rng::with_seed(seed);
        let mut made = Self {
            blocks: Blocks::new(&layout),
            inodes: Inodes::new(&layout),
            directories: Vec::new(),
            colours: [rng.u32(..COLOURS); 2],
            rng,
            dirty: Dirty::default(),
            kept: None,
            layout,
        };
        let mut goal = layout.metadata(0);
        let mut next = |made: &mut Self| {
            goal = made.blocks.allocate(goal, None).expect("a journal has room") + 1;
            goal - 1
        };
        let mut journal = Vec::new();
        for index in 0..journal_blocks {
            for _ in 0..indirect_before(index) {
                next(&mut made);
            }
            journal.push(next(&mut made));
        }
        (made, journal)
    }

    /// Windows outlast their files from now on: what they set aside stays empty until the end.
    pub(crate) fn keep_windows(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// This process writes from now on. At first it is process 0; their numbers follow one another.
    pub(crate) fn switch_to(&mut self, process: u32) {
        self.colours[1] = (self.colours[0] + process) % COLOURS;
    }

    /// Free blocks.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.blocks.free()
    }

    /// Blocks in all.
    pub(crate) fn blocks(&self) -> u64 {
        self.layout.blocks.into()
    }

    /// The group of a file's inode.
    #[cfg(test)]
    pub(super) fn group_of(&self, file: &File) -> u32 {
        self.inodes.group_of(file.inode)
    }

    /// Makes a directory of the root in this group; its number.
    #[cfg(test)]
    pub(super) fn make_directory_in(&mut self, group: u32) -> u32 {
        let inode = self.inodes.for_directory_in(group).expect("an inode is left");
        self.add_directory(inode)
    }

    /// Sizes and places.
    #[cfg(test)]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What is dirty; it counts as clean then.
    pub(crate) fn take_dirty(&mut self) -> Dirty {
        std::mem::take(&mut self.dirty)
    }

    /// How many blocks of files, and of metadata, are dirty.
    pub(crate) fn dirty(&self) -> (u64, u64) {
        (self.dirty.data.len() as u64, self.dirty.metadata.len() as u64)
    }

    /// Makes a directory, in the root or in another; its number.
    ///
    /// # Panics
    /// If there is no inode or block left.
    pub(crate) fn make_directory(&mut self, parent: Option<u32>) -> u32 {
        if let Some(parent) = parent {
            self.enter(parent);
        }
        let parent = parent.map(|parent| self.directories[parent as usize].inode);
        let inode = self.inodes.for_directory(parent, &self.blocks, &mut self.rng).expect("an inode is left");
        self.add_directory(inode)
    }

    fn add_directory(&mut self, inode: u32) -> u32 {
        self.touch_inode(inode);
        self.directories.push(Directory::new(inode));
        self.directories.len() as u32 - 1
    }

    /// Writes a new file of so many blocks into a directory.
    ///
    /// # Panics
    /// If there is no inode or block left.
    pub(crate) fn create(&mut self, directory: u32, blocks: u64) -> File {
        let mut growing = self.begin(directory);
        (0..blocks).for_each(|_| self.append(&mut growing));
        self.close(growing)
    }

    /// Begins a file.
    ///
    /// # Panics
    /// If there is no inode left.
    pub(crate) fn begin(&mut self, directory: u32) -> Growing {
        let entry = self.enter(directory);
        let of = self.directories[directory as usize].inode;
        let inode = self.inodes.for_file(of, &self.blocks).expect("an inode is left");
        self.touch_inode(inode);
        Growing::new(inode, (directory, entry), self.first_goal(inode))
    }

    /// Writes a block at a file's end.
    ///
    /// # Panics
    /// If there is no block left.
    pub(crate) fn append(&mut self, growing: &mut Growing) {
        for _ in 0..growing.lacks_indirect() {
            let block = self.next_block(growing);
            self.dirty.metadata.insert(block);
            growing.file.indirect.push(block);
        }
        let block = self.next_block(growing);
        self.dirty.data.insert(block);
        growing.extend(block);
        // Its size and its blocks are in its inode, or in the last indirect block.
        self.dirty.metadata.insert(self.layout.inode_block(growing.file.inode));
        self.dirty.metadata.extend(growing.file.indirect.last());
    }

    /// The file grows no more, and gives up its window.
    pub(crate) fn close(&mut self, mut growing: Growing) -> File {
        self.release(&mut growing);
        growing.file
    }

    /// A file gives up its window, as a closed one does. It may grow again.
    pub(super) fn release(&mut self, Growing { window, .. }: &mut Growing) {
        if let (Some(kept), Some((start, end))) = (&mut self.kept, window.range()) {
            for block in start..end.min(self.layout.blocks) {
                if self.blocks.is_free(block) {
                    self.blocks.take(block);
                    *kept += 1;
                }
            }
        }
        self.blocks.release(window);
    }

    /// Writes blocks of a file anew.
    pub(crate) fn overwrite(&mut self, file: &File, blocks: &[u32]) {
        self.dirty.data.extend(blocks);
        self.dirty.metadata.insert(self.layout.inode_block(file.inode));
    }

    /// Deletes a file.
    pub(crate) fn remove(&mut self, file: &File) {
        for block in file.blocks().chain(file.indirect.iter().copied()) {
            self.blocks.give_back(block);
            self.touch_group(block);
        }
        // Nobody writes its blocks any more.
        for block in file.blocks() {
            self.dirty.data.remove(&block);
        }
        for block in &file.indirect {
            self.dirty.metadata.remove(block);
        }
        self.inodes.give_back(file.inode);
        self.touch_inode(file.inode);
        self.directories[file.directory as usize].give_back(file.entry);
        self.touch_entry(file.directory, file.entry);
    }

    /// Gives a file another name in its directory.
    pub(crate) fn rename(&mut self, file: &mut File) {
        let old = file.entry;
        file.entry = self.enter(file.directory);
        self.directories[file.directory as usize].give_back(old);
        self.touch_entry(file.directory, old);
        self.dirty.metadata.insert(self.layout.inode_block(file.inode));
    }

    /// What is read to find a file: its directory's block, its inode's, and its indirect blocks.
    pub(crate) fn read_for(&self, file: &File) -> impl Iterator<Item = u32> {
        let entries = self.directories[file.directory as usize].block_of(file.entry);
        [entries, self.layout.inode_block(file.inode)].into_iter().chain(file.indirect.iter().copied())
    }

    fn next_block(&mut self, growing: &mut Growing) -> u32 {
        let block = self.allocate(growing.goal, Some(&mut growing.window));
        growing.goal = block + 1;
        block
    }

    fn allocate(&mut self, goal: u32, window: Option<&mut Window>) -> u32 {
        let block = self.blocks.allocate(goal, window).expect("a block is left");
        self.touch_group(block);
        block
    }

    /// Where the first block of a file or directory is looked for.
    fn first_goal(&self, inode: u32) -> u32 {
        let group = self.inodes.group_of(inode);
        let goal = group * GROUP_BLOCKS + self.colours[1] * (GROUP_BLOCKS / COLOURS);
        if goal < self.layout.blocks { goal } else { 0 }
    }

    /// An entry of a directory for a new file.
    fn enter(&mut self, directory: u32) -> u32 {
        let at = &mut self.directories[directory as usize];
        let entry = at.take();
        if at.lacks_block(entry) {
            let (inode, last) = (at.inode, at.blocks.last().copied());
            let goal = last.map_or_else(|| self.first_goal(inode), |last| last + 1);
            let block = self.allocate(goal, None);
            self.directories[directory as usize].blocks.push(block);
        }
        self.touch_entry(directory, entry);
        entry
    }

    fn touch_entry(&mut self, directory: u32, entry: u32) {
        let at = &self.directories[directory as usize];
        let blocks = [at.block_of(entry), self.layout.inode_block(at.inode)];
        self.dirty.metadata.extend(blocks);
    }

    /// An inode was taken, given back or changed.
    fn touch_inode(&mut self, inode: u32) {
        let (group, layout) = (self.inodes.group_of(inode), &self.layout);
        let blocks = [layout.inode_block(inode), layout.inode_bitmap(group), layout.descriptor(group)];
        self.dirty.metadata.extend(blocks);
    }

    /// A block of a group was taken or given back.
    fn touch_group(&mut self, block: u32) {
        let (group, layout) = (block / GROUP_BLOCKS, &self.layout);
        self.dirty.metadata.extend([layout.block_bitmap(group), layout.descriptor(group)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Ext3 {
        Ext3::new(256 << 20, 1024, 1).0
    }

    #[test]
    fn indirect_blocks_lie_where_the_file_needs_them_first() {
        let mut of = made();
        let directory = of.make_directory(None);
        let file = of.create(directory, 12 + 1024 + 5);
        let first = file.data[0].0;
        assert_eq!(file.data, [(first, 12), (first + 13, 1024), (first + 1039, 5)]);
        assert_eq!(file.indirect, [first + 12, first + 1037, first + 1038]);
    }

    #[test]
    fn what_is_deleted_can_be_taken_again_and_the_counts_match() {
        let (mut of, mut rng) = (made(), Rng::with_seed(1));
        let directory = of.make_directory(None);
        let mut files = vec![of.create(directory, 1)];
        let all = of.free_blocks() + 1;
        for _ in 0..5000 {
            if of.free_blocks() > 2000 && files.len() < 1000 && rng.u8(..100) < 60 {
                files.push(of.create(directory, rng.u64(1..100)));
            } else if !files.is_empty() {
                of.remove(&files.swap_remove(rng.usize(..files.len())));
            }
        }
        let entries = of.directories[0].blocks.len() as u64 - 1;
        let held: usize = files.iter().map(|file| file.blocks().count() + file.indirect.len()).sum();
        assert_eq!(of.free_blocks() + entries + held as u64, all);
        let mut blocks: Vec<_> =
            files.iter().flat_map(|file| file.blocks().chain(file.indirect.iter().copied())).collect();
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|two| two[0] < two[1]), "a block has two owners");
        assert!(blocks.iter().all(|block| !of.blocks.is_free(*block)));
    }

    #[test]
    fn a_new_file_is_dirty_with_all_that_knows_of_it() {
        let mut of = made();
        let directory = of.make_directory(None);
        of.take_dirty();
        let file = of.create(directory, 3);
        let (dirty, layout) = (of.take_dirty(), *of.layout());
        assert_eq!(dirty.data, file.blocks().collect());
        let group = of.inodes.group_of(file.inode);
        let entries = of.directories[0].blocks[0];
        let expected = [
            entries,
            layout.descriptor(group),
            layout.block_bitmap(group),
            layout.inode_bitmap(group),
            layout.inode_block(file.inode),
        ];
        assert_eq!(dirty.metadata, expected.into());
        of.overwrite(&file, &file.blocks().collect::<Vec<_>>());
        let dirty = of.take_dirty();
        assert_eq!((dirty.data.len(), dirty.metadata), (3, [layout.inode_block(file.inode)].into()));
    }

    #[test]
    fn windows_that_are_kept_leave_gaps_between_files() {
        let mut of = made();
        of.keep_windows();
        let directory = of.make_directory(None);
        let starts: Vec<_> = (0..4).map(|_| of.create(directory, 3).data[0].0).collect();
        assert!(starts[1..].windows(2).all(|two| two[1] - two[0] == 8), "{starts:?}");
    }
}
