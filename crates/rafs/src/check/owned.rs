//! Which blocks of the stripe groups belong to a file or to the tree, and what groups say of that.

use stripewise_format::rafs::{
    journal::{Change, Run},
    space::{Group, GroupKind},
    superblock::Superblock,
};

use super::{Problem, extents::Bounds, items::Items};
use crate::{shape::BlockNo, space::Space};

/// A bit for each block of the groups.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    bounds: Bounds,
    stripe_blocks: u32,
    group_stripes: u32,
    words: Vec<u64>,
}

impl Owned {
    pub(crate) fn new(superblock: &Superblock) -> Self {
        let bounds = Bounds::of(superblock);
        let words = vec![0; (bounds.groups * bounds.group_blocks).div_ceil(64) as usize];
        let (stripe_blocks, group_stripes) = (superblock.stripe_blocks(), superblock.group_stripes);
        Self { bounds, stripe_blocks, group_stripes, words }
    }

    /// A block belongs to somebody. One that lies in no group is passed by.
    pub(crate) fn add(&mut self, block: u64) {
        if let Some((word, bit)) = self.bit(block) {
            self.words[word] |= bit;
        }
    }

    pub(crate) fn has(&self, block: u64) -> bool {
        self.bit(block).is_some_and(|(word, bit)| self.words[word] & bit != 0)
    }

    fn bit(&self, block: u64) -> Option<(usize, u64)> {
        let within = block.checked_sub(self.bounds.first)?;
        (within < self.bounds.groups * self.bounds.group_blocks)
            .then(|| ((within / 64) as usize, 1 << (within % 64)))
    }

    /// The blocks of all files.
    pub(crate) fn add_files(&mut self, items: &Items) {
        for piece in items.inodes.values().flat_map(|found| &found.pieces) {
            let place = piece.is.extent.place;
            let blocks = place..place.saturating_add(piece.is.extent.blocks.into());
            if self.bounds.have(&blocks) {
                blocks.for_each(|block| self.add(block));
            }
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// How many blocks belong to nobody.
    pub(crate) fn free(&self) -> u64 {
        (self.bounds.groups * self.bounds.group_blocks).saturating_sub(self.count())
    }

    pub(crate) fn groups(&self) -> u64 {
        self.bounds.groups
    }

    /// The blocks of a group.
    pub(crate) fn blocks_of(&self, group: u64) -> std::ops::Range<u64> {
        let first = self.bounds.first + group * self.bounds.group_blocks;
        first..first + self.bounds.group_blocks
    }

    /// What the tree is to have of a group that had this kind; none if all of it is free.
    pub(crate) fn group(&self, number: u64, kind: Option<GroupKind>) -> Option<Group> {
        let blocks: Vec<bool> = self.blocks_of(number).map(|block| self.has(block)).collect();
        if !blocks.contains(&true) {
            return None;
        }
        let stripes = || blocks.chunks(self.stripe_blocks as usize);
        let are_whole = stripes().all(|stripe| stripe.iter().all(|has| *has == stripe[0]));
        let kind = match kind {
            Some(GroupKind::Large) if !are_whole => GroupKind::Small,
            kind => kind.unwrap_or(GroupKind::Small),
        };
        let bits: Vec<bool> = match kind {
            GroupKind::Large => stripes().map(|stripe| stripe[0]).collect(),
            _ => blocks,
        };
        debug_assert_eq!(bits.len(), Group::bits(kind, self.group_stripes, self.stripe_blocks));
        let byte =
            |bits: &[bool]| bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | u8::from(*bit) << at);
        Some(Group { kind, bitmap: bits.chunks(8).map(byte).collect() })
    }
}

impl Bounds {
    pub(crate) fn of(superblock: &Superblock) -> Self {
        let stripe_blocks = u64::from(superblock.stripe_blocks());
        Self {
            first: superblock.first_group_stripe() * stripe_blocks,
            group_blocks: u64::from(superblock.group_stripes) * stripe_blocks,
            groups: superblock.groups(),
        }
    }
}

/// Repeats what records of the journal take and free. Stops at the first one that does not go together with the groups.
pub(super) fn repeat(space: &mut Space, records: &[Vec<Change>]) -> Result<(), Problem> {
    let blocks = |run: &Run| BlockNo(run.place)..BlockNo(run.place.saturating_add(run.blocks.into()));
    for changes in records {
        for change in changes {
            match change {
                Change::Take(kind, run) => space.take(*kind, blocks(run))?,
                Change::Free(run) => space.free(blocks(run))?,
                _ => {}
            }
        }
        for change in changes {
            if let Change::Free(run) = change {
                space.release(blocks(run))?;
            }
        }
    }
    Ok(())
}

/// Blocks that belong to a file or to the tree are taken, and no others.
pub(super) fn judge_space(
    space: &Space,
    owned: &Owned,
    items: &Items,
    nodes: &[u64],
    problems: &mut Vec<Problem>,
) {
    let mut missing = 0;
    let mut judge = |inode: u64, blocks: std::ops::Range<u64>| {
        let mut free = blocks.filter(|block| !space.is_taken(BlockNo(*block)));
        let Some(block) = free.next() else { return };
        missing += 1 + free.count() as u64;
        problems.push(Problem::NotTaken { block, inode });
    };
    nodes.iter().for_each(|place| judge(0, *place..place.saturating_add(1)));
    for (inode, found) in &items.inodes {
        for piece in &found.pieces {
            let place = piece.is.extent.place;
            judge(*inode, place..place + u64::from(piece.is.extent.blocks));
        }
    }
    let (taken, counted) = (space.counts().taken, owned.count() - missing.min(owned.count()));
    if taken > counted {
        problems.push(Problem::Leaked { blocks: taken - counted });
    }
}
