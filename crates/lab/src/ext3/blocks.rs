//! How a block is found for a file: `fs/ext3/balloc.c` of Linux 2.6.11.
//!
//! A file that grows has a window of blocks of its own: 8 at first, twice as many whenever more than half of one was used, 1027
//! at most. Blocks are taken from the window, which begins at the first free block from the goal on that is in no window of
//! another file. So files that grow at the same time lie between one another. Without a window (of
//! directories, or as a last resort) the search goes from the goal to the next multiple of 64, then to the first byte of the
//! bitmap that is free as a whole, then to the first free bit.

use std::collections::BTreeMap;

use super::{
    bitmap::Bitmap,
    layout::{GROUP_BLOCKS, Layout},
};

/// Blocks of a file's first window (`EXT3_DEFAULT_RESERVE_BLOCKS`).
const WINDOW_FIRST: u32 = 8;
/// Blocks of its largest (`EXT3_MAX_RESERVE_BLOCKS`).
const WINDOW_MAX: u32 = 1027;
/// How far a search without a window goes back to the start of the free blocks that it found.
const BACK_MAX: u32 = 7;

/// The blocks that are set aside for a file while it grows.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// The first block, and the first beyond; none yet, or none any more.
    range: Option<(u32, u32)>,
    size: u32,
    /// Blocks taken from it.
    hits: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self { range: None, size: WINDOW_FIRST, hits: 0 }
    }
}

impl Window {
    /// The blocks that it sets aside: the first, and the first beyond.
    pub(super) fn range(&self) -> Option<(u32, u32)> {
        self.range
    }

    /// Whether a goal lies in it; without a goal, whether it touches the group.
    fn has(&self, goal: Option<u32>, group: u32) -> bool {
        let first = group * GROUP_BLOCKS;
        self.range.is_some_and(|(start, end)| {
            let touches = start < first + GROUP_BLOCKS && end > first;
            touches && goal.is_none_or(|goal| (start..end).contains(&goal))
        })
    }
}

/// The block bitmaps of all groups.
#[derive(Debug)]
pub(super) struct Blocks {
    groups: Vec<Bitmap>,
    /// The windows of files that grow: the first block, and the first beyond. No two of them overlap.
    windows: BTreeMap<u32, u32>,
}

impl Blocks {
    /// Only metadata are taken.
    pub(super) fn new(layout: &Layout) -> Self {
        let group = |group| {
            let mut bitmap = Bitmap::new(layout.group_blocks(group));
            (0..layout.metadata(group)).for_each(|block| bitmap.take(block));
            bitmap
        };
        Self { groups: (0..layout.groups()).map(group).collect(), windows: BTreeMap::new() }
    }

    /// Free blocks of a group.
    pub(super) fn free_of(&self, group: u32) -> u32 {
        self.groups[group as usize].free()
    }

    /// Free blocks in all.
    pub(super) fn free(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.free())).sum()
    }

    /// Whether a block is free.
    pub(super) fn is_free(&self, block: u32) -> bool {
        self.groups[(block / GROUP_BLOCKS) as usize].is_free(block % GROUP_BLOCKS)
    }

    /// Takes this block.
    pub(super) fn take(&mut self, block: u32) {
        self.groups[(block / GROUP_BLOCKS) as usize].take(block % GROUP_BLOCKS);
    }

    /// Gives a block back.
    pub(super) fn give_back(&mut self, block: u32) {
        self.groups[(block / GROUP_BLOCKS) as usize].give_back(block % GROUP_BLOCKS);
    }

    /// Takes a block at or near a goal, from the window if there is one; none if all are taken (`ext3_new_block`).
    pub(super) fn allocate(&mut self, goal: u32, mut window: Option<&mut Window>) -> Option<u32> {
        let groups = self.groups.len() as u32;
        // A file at the end of the last group goes on from the first.
        let goal = if goal / GROUP_BLOCKS < groups { goal } else { 0 };
        let own = goal / GROUP_BLOCKS;
        let half = window.as_ref().map_or(0, |window| window.size / 2);
        let mut try_in = |blocks: &mut Self, group, goal, least| {
            if blocks.free_of(group) <= least {
                return None;
            }
            match window.as_deref_mut() {
                Some(window) => blocks.allocate_from(window, group, goal),
                None => blocks.allocate_near(group, goal),
            }
        };
        let found = try_in(self, own, Some(goal), 0);
        let found =
            found.or_else(|| (1..=groups).find_map(|step| try_in(self, (own + step) % groups, None, half)));
        if found.is_some() || window.is_none() {
            return found;
        }
        // Even a group with few free blocks will do, without a window.
        self.allocate(goal, None)
    }

    /// `ext3_try_to_allocate_with_rsv`.
    fn allocate_from(&mut self, window: &mut Window, group: u32, mut goal: Option<u32>) -> Option<u32> {
        let mut failed = false;
        loop {
            if failed || !window.has(goal, group) {
                self.place(window, group, goal)?;
                goal = goal.filter(|_| window.has(goal, group));
            }
            if let Some(block) = self.allocate_within(window, group, goal) {
                window.hits += 1;
                return Some(block);
            }
            failed = true;
        }
    }

    /// Gives up the window of a file that grows no more.
    pub(super) fn release(&mut self, window: &mut Window) {
        if let Some((start, _)) = window.range.take() {
            self.windows.remove(&start);
        }
    }

    /// The first start from this one on where so many blocks are in no window.
    fn clear_of_windows(&self, start: u32, count: u32) -> u32 {
        let before = self.windows.range(..=start).next_back();
        let mut start = before.map_or(start, |(_, end)| start.max(*end));
        for (taken, end) in self.windows.range(start..) {
            if start + count <= *taken {
                break;
            }
            start = *end;
        }
        start
    }

    /// Gives a file a new window in a group, at the first free block from the goal on (`alloc_new_reservation`). Until it is
    /// found, the present window is in the way as others are.
    fn place(&mut self, window: &mut Window, group: u32, goal: Option<u32>) -> Option<()> {
        let (first, end) = (group * GROUP_BLOCKS, (group + 1) * GROUP_BLOCKS);
        let mut start = goal.unwrap_or(first);
        if let Some((own, own_end)) = window.range {
            if own < end && own_end > end && start >= own {
                // The rest of it lies in the next group.
                return None;
            }
            if window.hits > (own_end - own) / 2 {
                window.size = (2 * window.size).min(WINDOW_MAX);
            }
        }
        loop {
            start = self.clear_of_windows(start, window.size);
            let bitmap = &self.groups[group as usize];
            let free = (start < end).then(|| bitmap.first_free(start - first, GROUP_BLOCKS)).flatten();
            let Some(free) = free else {
                self.release(window);
                return None;
            };
            if first + free < start + window.size {
                self.release(window);
                (window.range, window.hits) = (Some((start, start + window.size)), 0);
                self.windows.insert(start, start + window.size);
                return Some(());
            }
            start = first + free;
        }
    }

    /// The goal, or else the first free block of the window (`ext3_try_to_allocate` with one).
    fn allocate_within(&mut self, window: &Window, group: u32, goal: Option<u32>) -> Option<u32> {
        let first = group * GROUP_BLOCKS;
        let (start, end) = window.range?;
        let (start, end) = (start.max(first) - first, end.min(first + GROUP_BLOCKS) - first);
        let start = goal.map_or(start, |goal| goal - first);
        let bitmap = &mut self.groups[group as usize];
        let found =
            if goal.is_some() && bitmap.is_free(start) { start } else { next_usable(bitmap, start, end)? };
        bitmap.take(found);
        Some(first + found)
    }

    /// The goal, or else a block near it (`ext3_try_to_allocate` without a window).
    fn allocate_near(&mut self, group: u32, goal: Option<u32>) -> Option<u32> {
        let first = group * GROUP_BLOCKS;
        let bitmap = &mut self.groups[group as usize];
        let start = goal.map_or(0, |goal| goal - first);
        let mut found = start;
        if goal.is_none() || !bitmap.is_free(start) {
            found = next_usable(bitmap, start, bitmap.len())?;
            let lowest = start.max(found.saturating_sub(BACK_MAX));
            while found > lowest && bitmap.is_free(found - 1) {
                found -= 1;
            }
        }
        bitmap.take(found);
        Some(first + found)
    }
}

/// `find_next_usable_block`: one before the next multiple of 64, or else the first byte that is free as a whole, or else the
/// first free bit.
fn next_usable(bitmap: &Bitmap, start: u32, end: u32) -> Option<u32> {
    let near = bitmap.first_free(start, start.next_multiple_of(64).min(end));
    near.or_else(|| bitmap.first_free_byte(start, end)).or_else(|| bitmap.first_free(start, end))
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn blocks() -> Blocks {
        Blocks::new(&Layout::new(256 << 20))
    }

    fn file(blocks: &mut Blocks, goal: u32, count: u32) -> Vec<u32> {
        let (mut window, mut goal) = (Window::default(), goal);
        let next = |_| {
            let block = blocks.allocate(goal, Some(&mut window)).unwrap();
            goal = block + 1;
            block
        };
        let found = (0..count).map(next).collect();
        blocks.release(&mut window);
        found
    }

    #[test]
    fn files_that_grow_at_the_same_time_lie_between_one_another() {
        let (mut blocks, goal) = (blocks(), 4096);
        let mut files = [0, 1].map(|_| (Window::default(), goal, Vec::new()));
        for _ in 0..40 {
            for (window, goal, found) in &mut files {
                found.push(blocks.allocate(*goal, Some(window)).unwrap());
                *goal = found.last().unwrap() + 1;
            }
        }
        let runs = |found: &[u32]| -> Vec<_> {
            found.chunk_by(|one, next| one + 1 == *next).map(|run| (run[0] - goal, run.len())).collect()
        };
        // Windows of 8, 16 and 32 blocks, in turns.
        assert_eq!(runs(&files[0].2), [(0, 8), (16, 16), (48, 16)]);
        assert_eq!(runs(&files[1].2), [(8, 8), (32, 16), (80, 16)]);
        files.iter_mut().for_each(|(window, ..)| blocks.release(window));
        assert!(blocks.windows.is_empty());
        assert_eq!(
            blocks.allocate(goal + 64, Some(&mut Window::default())),
            Some(goal + 64),
            "left by the first"
        );
    }

    #[test]
    fn in_free_space_files_lie_one_behind_the_other() {
        let mut blocks = blocks();
        let goal = 4096;
        for (start, count) in [(0, 3), (3, 5), (8, 2000), (2008, 1)] {
            let expected: Vec<_> = (goal + start..goal + start + count).collect();
            assert_eq!(file(&mut blocks, goal, count), expected);
        }
    }

    #[test]
    fn a_file_takes_the_holes_that_others_leave() {
        let mut blocks = blocks();
        let old = file(&mut blocks, 4096, 40);
        [3, 4, 9, 30].iter().for_each(|index| blocks.give_back(old[*index]));
        assert_eq!(file(&mut blocks, 4096, 6), [4099, 4100, 4105, 4126, 4136, 4137]);
    }

    #[test]
    fn without_a_window_a_whole_byte_is_looked_for() {
        let mut blocks = blocks();
        let old = file(&mut blocks, 4096, 100);
        blocks.give_back(old[3]);
        assert_eq!(
            blocks.allocate(4096, None),
            Some(4196),
            "the start of what holds the first free byte, not the hole"
        );
        assert_eq!(blocks.allocate(4097, None), Some(4099), "the hole is near enough");
    }

    #[test]
    fn no_block_is_given_twice_and_all_are_found() {
        let (mut blocks, mut rng) = (blocks(), Rng::with_seed(1));
        let all = blocks.free();
        let mut held: Vec<Vec<u32>> = Vec::new();
        for _ in 0..20_000 {
            let keeps = blocks.free() > 200 && rng.u8(..100) < 55;
            if keeps || held.is_empty() {
                let goal = rng.u32(..2 * GROUP_BLOCKS);
                held.push(file(&mut blocks, goal, rng.u32(1..60)));
            } else {
                held.swap_remove(rng.usize(..held.len()))
                    .into_iter()
                    .for_each(|block| blocks.give_back(block));
            }
            let taken: usize = held.iter().map(Vec::len).sum();
            assert_eq!(blocks.free() + taken as u64, all);
        }
        while blocks.free() > 0 {
            held.push(file(&mut blocks, rng.u32(..2 * GROUP_BLOCKS), 1));
        }
        assert_eq!(blocks.allocate(77, Some(&mut Window::default())), None);
        held.into_iter().flatten().for_each(|block| blocks.give_back(block));
        assert_eq!(blocks.free(), all);
    }
}
