//! The space of a volume: which blocks are free, and which stripe is filled next (rafs III-D).
//!
//! Stripes come in groups. A group has a kind once it is used, and none again when all of it is free. A block that is freed is
//! **held** until what frees it is durable: it is no longer taken, and cannot be taken.

mod bits;
mod choice;
mod group;
mod lists;
mod told;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use stripewise_format::rafs::{
    space::{Group, GroupKind},
    value::ValueError,
};
use thiserror::Error;

pub use self::lists::Rank;
use self::{
    group::{Step, Used},
    lists::Lists,
};
use crate::shape::{BlockNo, Geometry, Order, StripeNo};

/// Where the groups of a volume lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The volume's shape.
    pub geometry: Geometry,
    /// How the slots of all groups are numbered.
    pub order: Order,
    /// The first stripe of the first group.
    pub first: StripeNo,
    /// Stripes of a group.
    pub group_stripes: u32,
    /// How many groups there are.
    pub groups: u64,
}

/// Which of two stripes has more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// That with more free blocks, as in the paper.
    Blocks,
    /// That with more free rows, since these are written without a read; of those with as many, that with more free blocks.
    Rows,
    /// That does not count: the next stripe with a free block does, and there the next block.
    Nothing,
}

/// Classes of stripes by how full they are: free, each begun tenth, and full.
pub const FILLS: usize = 12;

/// How many blocks of the groups are what. The others are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Taken.
    pub taken: u64,
    /// Freed, and held until that is durable.
    pub held: u64,
}

/// A stripe to be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The stripe.
    pub stripe: StripeNo,
    /// The kind that its group has, or gets with the first block that is taken.
    pub kind: GroupKind,
}

/// Why blocks cannot be taken or freed. What is on the volume does not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SpaceError {
    /// They lie in no group, or in several.
    #[error("blocks {first} to {end} lie in no stripe group; run fsck")]
    Outside {
        /// The first one.
        first: u64,
        /// The one behind the last.
        end: u64,
    },
    /// Some of them are not what they are taken for.
    #[error("blocks {first} to {end} are not all {wanted}; run fsck")]
    State {
        /// The first one.
        first: u64,
        /// The one behind the last.
        end: u64,
        /// What they should be.
        wanted: &'static str,
    },
    /// Their group has another kind.
    #[error("stripe group {group} is used for something else; run fsck")]
    Kind {
        /// The group.
        group: u64,
    },
    /// The tree has a group that is none.
    #[error("stripe group {group}: {error}")]
    Group {
        /// The group.
        group: u64,
        /// What is wrong with it.
        error: ValueError,
    },
}

/// The space.
#[derive(Debug)]
pub struct Space {
    layout: Layout,
    measure: Measure,
    used: BTreeMap<u64, Used>,
    untyped: BTreeSet<u64>,
    /// By kind.
    lists: BTreeMap<GroupKind, Lists>,
    /// Stripes that are being filled are in no list.
    open: BTreeSet<StripeNo>,
    /// Nor are those that are being emptied, as long as others have room.
    avoided: BTreeSet<StripeNo>,
    /// Groups that are not as the tree has them.
    changed: BTreeSet<u64>,
    counts: Counts,
}

impl Space {
    /// A volume on which all groups are free.
    #[must_use]
    pub fn new(layout: Layout, measure: Measure) -> Self {
        Self {
            layout,
            measure,
            used: BTreeMap::new(),
            untyped: (0..layout.groups).collect(),
            lists: BTreeMap::new(),
            open: BTreeSet::new(),
            avoided: BTreeSet::new(),
            changed: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    /// Changes which of two stripes has more room.
    pub fn set_measure(&mut self, measure: Measure) {
        if std::mem::replace(&mut self.measure, measure) == measure {
            return;
        }
        let groups: Vec<u64> = self.used.keys().copied().collect();
        let stripes = groups.into_iter().flat_map(|group| self.stripes_of(group));
        stripes.collect::<Vec<_>>().into_iter().for_each(|stripe| self.list(StripeNo(stripe)));
    }

    /// Takes up a group as the tree has it, before any stripe is opened.
    ///
    /// # Errors
    /// [`SpaceError`], also if the group was taken up before.
    pub fn load(&mut self, number: u64, value: &[u8]) -> Result<(), SpaceError> {
        let (stripes, stripe_blocks) = self.group_shape();
        let group = Group::decode(value, stripes, stripe_blocks)
            .map_err(|error| SpaceError::Group { group: number, error })?;
        if !self.untyped.remove(&number) {
            return Err(SpaceError::Kind { group: number });
        }
        debug_assert!(
            self.open.is_empty() && self.avoided.is_empty(),
            "stripes that are filled are in no list"
        );
        let used = Used::of(&group, stripes, stripe_blocks);
        self.counts.taken += used.taken() as u64;
        let first = self.stripes_of(number).start;
        let lists = self.lists.entry(used.kind()).or_default();
        for (within, rank) in used.with_room(&self.layout, self.measure) {
            lists.place(StripeNo(first + u64::from(within)), Some(rank));
        }
        self.used.insert(number, used);
        self.forget_if_empty(number);
        Ok(())
    }

    /// How many blocks are what.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes free blocks of one group. If it has no kind, it gets this one. A large group becomes a small one for small files, and
    /// a small one may have stripes of large files.
    ///
    /// # Errors
    /// [`SpaceError`], if they are not free, or the group has another kind. Nothing is changed then.
    pub fn take(&mut self, kind: GroupKind, blocks: Range<BlockNo>) -> Result<(), SpaceError> {
        let group = self.group_of_blocks(&blocks)?;
        match (self.used.get(&group).map(Used::kind), kind) {
            (None, _) => self.give_kind(group, kind),
            (Some(GroupKind::Large), GroupKind::Small) if self.are_free(&blocks) => self.become_small(group),
            // It was a large one when the stripe was opened.
            (Some(GroupKind::Small), GroupKind::Large) => {}
            (Some(has), _) if has != kind => return Err(SpaceError::Kind { group }),
            (Some(_), _) => {}
        }
        let taken = self.step(Step::Take, group, &blocks, "free");
        self.forget_if_empty(group);
        taken
    }

    /// Frees blocks of one group. They are held. A large group of which a part of a stripe is freed becomes a small one.
    ///
    /// # Errors
    /// [`SpaceError`], if they are not taken.
    pub fn free(&mut self, blocks: Range<BlockNo>) -> Result<(), SpaceError> {
        let group = self.group_of_blocks(&blocks)?;
        let of_stripe = u64::from(self.layout.geometry.stripe_blocks());
        let is_whole = [&blocks.start, &blocks.end].iter().all(|block| block.0.is_multiple_of(of_stripe));
        let is_large = self.used.get(&group).is_some_and(|used| used.kind() == GroupKind::Large);
        if is_large && !is_whole && self.are_taken(&blocks) {
            self.become_small(group);
        }
        self.step(Step::Hold, group, &blocks, "taken")
    }

    /// The record that frees these is durable: they may be taken again. Returns those of their stripes of which all is free, and may be
    /// discarded.
    ///
    /// # Errors
    /// [`SpaceError`], if they are not held.
    pub fn release(&mut self, blocks: Range<BlockNo>) -> Result<Vec<StripeNo>, SpaceError> {
        let group = self.group_of_blocks(&blocks)?;
        self.step(Step::Release, group, &blocks, "held")?;
        let is_free = |stripe: &StripeNo| self.busy(*stripe).1 == 0;
        let free = self.stripes_of_blocks(&blocks).map(StripeNo).filter(is_free).collect();
        self.forget_if_empty(group);
        Ok(free)
    }

    /// The groups that have changed since this was last called: what the tree keeps of each, or none if it keeps nothing.
    pub fn take_changed(&mut self) -> Vec<(u64, Option<Group>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|group| (group, self.used.get(&group).and_then(Used::kept))).collect()
    }

    /// The tree could not take a group: it has changed still.
    pub fn note_changed(&mut self, group: u64) {
        self.changed.insert(group);
    }

    /// What a group is used for; none if all of it is free.
    #[must_use]
    pub fn kind_of(&self, group: u64) -> Option<GroupKind> {
        self.used.get(&group).map(Used::kind)
    }

    /// Whether a block of a group is free.
    #[must_use]
    pub fn is_free(&self, block: BlockNo) -> bool {
        let (stripe, slot) = self.layout.geometry.locate(block);
        let has_group = self.group_of(stripe).is_some();
        has_group && self.used_of(stripe).is_none_or(|(used, within)| used.is_free(within, slot))
    }

    /// Whether a block of a group is taken.
    #[must_use]
    pub fn is_taken(&self, block: BlockNo) -> bool {
        let (stripe, slot) = self.layout.geometry.locate(block);
        self.group_of(stripe).is_some()
            && self.used_of(stripe).is_some_and(|(used, within)| used.is_taken(within, slot))
    }

    fn group_shape(&self) -> (u32, u32) {
        (self.layout.group_stripes, self.layout.geometry.stripe_blocks())
    }

    fn group_of(&self, stripe: StripeNo) -> Option<u64> {
        let from_first = stripe.0.checked_sub(self.layout.first.0)?;
        let group = from_first / u64::from(self.layout.group_stripes);
        (group < self.layout.groups).then_some(group)
    }

    /// A group's stripes.
    fn stripes_of(&self, group: u64) -> Range<u64> {
        let of_group = u64::from(self.layout.group_stripes);
        let first = self.layout.first.0 + group * of_group;
        first..first + of_group
    }

    fn stripes_of_blocks(&self, blocks: &Range<BlockNo>) -> Range<u64> {
        let of_stripe = u64::from(self.layout.geometry.stripe_blocks());
        blocks.start.0 / of_stripe..blocks.end.0.div_ceil(of_stripe)
    }

    /// The one group in which blocks lie.
    fn group_of_blocks(&self, blocks: &Range<BlockNo>) -> Result<u64, SpaceError> {
        let stripes = self.stripes_of_blocks(blocks);
        let group = self.group_of(StripeNo(stripes.start)).filter(|_| blocks.start < blocks.end);
        let group = group.filter(|group| stripes.end <= self.stripes_of(*group).end);
        group.ok_or(SpaceError::Outside { first: blocks.start.0, end: blocks.end.0 })
    }

    /// A stripe's group, if that is used, and the stripe's number there.
    fn used_of(&self, stripe: StripeNo) -> Option<(&Used, u32)> {
        let group = self.group_of(stripe)?;
        Some((self.used.get(&group)?, (stripe.0 - self.stripes_of(group).start) as u32))
    }

    /// Blocks of a stripe that are taken, and that are not free.
    fn busy(&self, stripe: StripeNo) -> (u64, u64) {
        let (taken, busy) = self.used_of(stripe).map_or((0, 0), |(used, within)| used.counts(within));
        (taken as u64, busy as u64)
    }

    /// Whether all stripes of these blocks are taken as a whole.
    fn are_taken(&self, blocks: &Range<BlockNo>) -> bool {
        let whole = u64::from(self.layout.geometry.stripe_blocks());
        self.stripes_of_blocks(blocks).all(|stripe| self.busy(StripeNo(stripe)).0 == whole)
    }

    /// Whether all stripes of these blocks are free.
    fn are_free(&self, blocks: &Range<BlockNo>) -> bool {
        self.stripes_of_blocks(blocks).all(|stripe| self.busy(StripeNo(stripe)).1 == 0)
    }

    fn step(
        &mut self,
        step: Step,
        group: u64,
        blocks: &Range<BlockNo>,
        wanted: &'static str,
    ) -> Result<(), SpaceError> {
        let first = self.stripes_of(group).start * u64::from(self.layout.geometry.stripe_blocks());
        let within = (blocks.start.0 - first) as usize..(blocks.end.0 - first) as usize;
        if !self.used.get_mut(&group).is_some_and(|used| used.step(step, within)) {
            return Err(SpaceError::State { first: blocks.start.0, end: blocks.end.0, wanted });
        }
        let count = blocks.end.0 - blocks.start.0;
        match step {
            Step::Take => self.counts.taken += count,
            Step::Hold => {
                self.counts.taken -= count;
                self.counts.held += count;
            }
            Step::Release => self.counts.held -= count,
        }
        if step != Step::Release {
            self.changed.insert(group);
        }
        self.stripes_of_blocks(blocks).for_each(|stripe| self.list(StripeNo(stripe)));
        Ok(())
    }

    /// Puts a stripe in the list where it belongs.
    fn list(&mut self, stripe: StripeNo) {
        let is_kept = self.open.contains(&stripe) || self.avoided.contains(&stripe);
        let rank = if is_kept { None } else { self.rank(stripe) };
        let Some((used, _)) = self.used_of(stripe) else { return };
        self.lists.entry(used.kind()).or_default().place(stripe, rank);
    }

    /// How much of a stripe in a group that is used is free; none if nothing is.
    fn rank(&self, stripe: StripeNo) -> Option<Rank> {
        let (used, within) = self.used_of(stripe)?;
        used.rank(within, &self.layout, self.measure)
    }

    fn give_kind(&mut self, group: u64, kind: GroupKind) {
        let (stripes, stripe_blocks) = self.group_shape();
        self.untyped.remove(&group);
        self.used.insert(group, Used::new(kind, stripes, stripe_blocks));
        self.stripes_of(group).for_each(|stripe| self.list(StripeNo(stripe)));
    }

    fn become_small(&mut self, group: u64) {
        self.leave_lists(group);
        if let Some(used) = self.used.get_mut(&group) {
            used.become_small();
        }
        self.stripes_of(group).for_each(|stripe| self.list(StripeNo(stripe)));
    }

    fn leave_lists(&mut self, group: u64) {
        let Some(kind) = self.used.get(&group).map(Used::kind) else { return };
        let stripes = self.stripes_of(group);
        if let Some(lists) = self.lists.get_mut(&kind) {
            stripes.for_each(|stripe| lists.place(StripeNo(stripe), None));
        }
    }

    /// A group of which all is free has no kind, unless one of its stripes is being filled.
    fn forget_if_empty(&mut self, group: u64) {
        let stripes = self.stripes_of(group);
        let is_open = self.open.range(StripeNo(stripes.start)..StripeNo(stripes.end)).next().is_some();
        if is_open || !self.used.get(&group).is_some_and(Used::is_empty) {
            return;
        }
        self.leave_lists(group);
        self.used.remove(&group);
        self.untyped.insert(group);
    }
}

#[cfg(test)]
mod tests;
