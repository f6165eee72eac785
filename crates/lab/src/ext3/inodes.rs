//! In which group an inode goes: `fs/ext3/ialloc.c`, read in a later version than Linux 2.6.11's.
//!
//! A directory in the root goes to the group with the fewest directories among those with no fewer free inodes and blocks than
//! the average, from a random group on (Orlov). One below goes to its parent's group, while that has room. A file goes to its directory's group, while that has free inodes and blocks.

use fastrand::Rng;

use super::{
    bitmap::Bitmap,
    blocks::Blocks,
    layout::{GROUP_BLOCKS, Layout},
};

/// Inodes that the file system itself has: the first for files is the eleventh.
const RESERVED: u32 = 10;

/// The inode bitmaps of all groups.
#[derive(Debug)]
pub(super) struct Inodes {
    bitmaps: Vec<Bitmap>,
    directories: Vec<u32>,
    per_group: u32,
}

impl Inodes {
    /// Only reserved ones are taken.
    pub(super) fn new(layout: &Layout) -> Self {
        let groups = layout.groups() as usize;
        let mut bitmaps = vec![Bitmap::new(layout.inodes_per_group); groups];
        (0..RESERVED).for_each(|inode| bitmaps[0].take(inode));
        Self { bitmaps, directories: vec![0; groups], per_group: layout.inodes_per_group }
    }

    /// The group of an inode.
    pub(super) fn group_of(&self, inode: u32) -> u32 {
        inode / self.per_group
    }

    /// Free inodes in all.
    pub(super) fn free(&self) -> u64 {
        self.bitmaps.iter().map(|group| u64::from(group.free())).sum()
    }

    /// An inode for a new directory, in that which has the inode `parent` or in the root; none if all are taken.
    pub(super) fn for_directory(
        &mut self,
        parent: Option<u32>,
        blocks: &Blocks,
        rng: &mut Rng,
    ) -> Option<u32> {
        let group = match parent {
            Some(parent) => self.group_below(self.group_of(parent), blocks)?,
            None => self.group_in_root(blocks, rng.u32(..self.groups()))?,
        };
        self.for_directory_in(group)
    }

    /// An inode for a new directory in this group; none if all of the group's are taken.
    pub(super) fn for_directory_in(&mut self, group: u32) -> Option<u32> {
        self.directories[group as usize] += 1;
        self.take_in(group)
    }

    /// An inode for a new file of the directory that has this inode.
    pub(super) fn for_file(&mut self, directory: u32, blocks: &Blocks) -> Option<u32> {
        let group = self.group_for_file(directory, blocks)?;
        self.take_in(group)
    }

    /// Gives a file's inode back.
    pub(super) fn give_back(&mut self, inode: u32) {
        self.bitmaps[(inode / self.per_group) as usize].give_back(inode % self.per_group);
    }

    /// `find_group_orlov`, in the root.
    fn group_in_root(&self, blocks: &Blocks, from: u32) -> Option<u32> {
        let groups = self.groups();
        let (inodes, free) = (self.free() / u64::from(groups), blocks.free() / u64::from(groups));
        let has_inodes = |group: &u32| u64::from(self.free_of(*group)) >= inodes.max(1);
        let cyclic = || (0..groups).map(|step| (from + step) % groups).filter(has_inodes);
        let roomy = cyclic().filter(|group| u64::from(blocks.free_of(*group)) >= free);
        roomy.min_by_key(|group| self.directories[*group as usize]).or_else(|| cyclic().next())
    }

    /// `find_group_orlov`, below the root: the parent's group, or the next one that has not many more directories than the
    /// average and not much less room.
    fn group_below(&self, parent: u32, blocks: &Blocks) -> Option<u32> {
        let groups = self.groups();
        let directories = self.directories.iter().sum::<u32>() / groups + self.per_group / 16;
        let least = |free: u64, margin: u32| (free / u64::from(groups)).saturating_sub(margin.into());
        let inodes = least(self.free(), self.per_group / 4).max(1);
        let room = least(blocks.free(), GROUP_BLOCKS / 4);
        let is_good = |group: &u32| {
            let (free, of) = (u64::from(self.free_of(*group)), self.directories[*group as usize]);
            free >= inodes && of < directories && u64::from(blocks.free_of(*group)) >= room
        };
        let mut cyclic = (0..groups).map(|step| (parent + step) % groups);
        cyclic.find(is_good).or_else(|| self.group_in_root(blocks, parent))
    }

    /// `find_group_other`.
    fn group_for_file(&self, directory: u32, blocks: &Blocks) -> Option<u32> {
        let (parent, groups) = (self.group_of(directory), self.groups());
        let is_good = |group: u32| self.free_of(group) > 0 && blocks.free_of(group) > 0;
        if is_good(parent) {
            return Some(parent);
        }
        // Files of a directory shall meet in one group, and those of its neighbours in another: a quadratic hash. The kernel
        // counts inodes from 1.
        let steps = std::iter::successors(Some(1), |step| Some(2 * step)).take_while(|step| *step < groups);
        let hashed = steps.scan((parent + directory + 1) % groups, |group, step| {
            *group = (*group + step) % groups;
            Some(*group)
        });
        let linear = || (1..=groups).map(|step| (parent + step) % groups);
        hashed
            .into_iter()
            .find(|group| is_good(*group))
            .or_else(|| linear().find(|group| self.free_of(*group) > 0))
    }

    fn take_in(&mut self, group: u32) -> Option<u32> {
        let bitmap = &mut self.bitmaps[group as usize];
        let index = bitmap.first_free(0, self.per_group)?;
        bitmap.take(index);
        Some(group * self.per_group + index)
    }

    fn free_of(&self, group: u32) -> u32 {
        self.bitmaps[group as usize].free()
    }

    fn groups(&self) -> u32 {
        self.bitmaps.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_spread_and_files_stay_with_them() {
        let layout = Layout::new(1 << 30);
        let (mut inodes, blocks, mut rng) = (Inodes::new(&layout), Blocks::new(&layout), Rng::with_seed(1));
        let groups = layout.groups();
        for _ in 0..groups / 2 {
            let directory = inodes.for_directory(None, &blocks, &mut rng).unwrap();
            for _ in 0..100 {
                let file = inodes.for_file(directory, &blocks).unwrap();
                assert_eq!(inodes.group_of(file), inodes.group_of(directory));
            }
        }
        assert!(inodes.directories.iter().all(|count| *count <= 1), "{:?}", inodes.directories);
    }

    #[test]
    fn all_inodes_are_found_and_none_twice() {
        let layout = Layout::new(256 << 20);
        let (mut inodes, blocks, mut rng) = (Inodes::new(&layout), Blocks::new(&layout), Rng::with_seed(1));
        let directory = inodes.for_directory(None, &blocks, &mut rng).unwrap();
        let mut found = Vec::new();
        while let Some(file) = inodes.for_file(directory, &blocks) {
            found.push(file);
        }
        assert_eq!(found.len() as u32, 2 * layout.inodes_per_group - RESERVED - 1);
        found.into_iter().for_each(|file| inodes.give_back(file));
        assert_eq!(inodes.free() as u32, 2 * layout.inodes_per_group - RESERVED - 1);
    }
}
