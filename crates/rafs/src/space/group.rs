//! A stripe group that is used: which of its blocks are free, taken, or held until what freed them is durable.

use std::ops::Range;

use stripewise_format::rafs::space::{Group, GroupKind};

use super::{Layout, Measure, Rank, bits::Bits};
use crate::shape::{Cell, Geometry, Order};

/// A group. The bits of a large one stand for stripes, others for blocks.
#[derive(Debug)]
pub(super) struct Used {
    kind: GroupKind,
    taken: Bits,
    /// Taken or held.
    busy: Bits,
    stripes: u32,
    stripe_blocks: u32,
}

/// What becomes of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Free ones are taken.
    Take,
    /// Taken ones are held.
    Hold,
    /// Held ones are free.
    Release,
}

impl Used {
    pub(super) fn new(kind: GroupKind, stripes: u32, stripe_blocks: u32) -> Self {
        let bits = Bits::new(Group::bits(kind, stripes, stripe_blocks));
        Self { kind, taken: bits.clone(), busy: bits, stripes, stripe_blocks }
    }

    pub(super) fn of(group: &Group, stripes: u32, stripe_blocks: u32) -> Self {
        let bits = Bits::of_bytes(&group.bitmap, Group::bits(group.kind, stripes, stripe_blocks));
        Self { kind: group.kind, taken: bits.clone(), busy: bits, stripes, stripe_blocks }
    }

    pub(super) fn kind(&self) -> GroupKind {
        self.kind
    }

    /// What is kept of it; none if no block is taken.
    pub(super) fn kept(&self) -> Option<Group> {
        (!self.taken.is_empty()).then(|| Group { kind: self.kind, bitmap: self.taken.to_bytes() })
    }

    /// Whether all blocks are free.
    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Blocks that are taken.
    pub(super) fn taken(&self) -> usize {
        let of_bit = if self.kind == GroupKind::Large { self.stripe_blocks as usize } else { 1 };
        self.taken.ones() * of_bit
    }

    /// The stripes with free blocks, and the rank of each.
    pub(super) fn with_room(&self, layout: &Layout, measure: Measure) -> impl Iterator<Item = (u32, Rank)> {
        let stripes = if self.busy.is_full() { 0 } else { self.stripes };
        (0..stripes).filter_map(move |stripe| Some((stripe, self.rank(stripe, layout, measure)?)))
    }

    /// How much of a stripe is free; none if nothing is.
    pub(super) fn rank(&self, stripe: u32, layout: &Layout, measure: Measure) -> Option<Rank> {
        let Layout { geometry, order, .. } = layout;
        let blocks = geometry.stripe_blocks() - self.counts(stripe).1 as u32;
        if blocks == 0 {
            return None;
        }
        let rows = match measure {
            Measure::Blocks | Measure::Nothing => 0,
            Measure::Rows => self.free_rows(stripe, geometry, *order).len() as u32,
        };
        Some(Rank { rows, blocks })
    }

    /// Makes it a group of small files. Its blocks stay what they are.
    pub(super) fn become_small(&mut self) {
        if self.kind == GroupKind::Large {
            let mut small = Self::new(GroupKind::Small, self.stripes, self.stripe_blocks);
            for stripe in 0..self.stripes as usize {
                let blocks = small.blocks_of(stripe as u32);
                small.taken.set(blocks.clone(), self.taken.has(stripe));
                small.busy.set(blocks, self.busy.has(stripe));
            }
            *self = small;
        }
        self.kind = GroupKind::Small;
    }

    /// The bits of blocks, numbered from the group's first one. None if the bits are of stripes, and these are parts of some.
    fn bits(&self, blocks: Range<usize>) -> Option<Range<usize>> {
        if self.kind != GroupKind::Large {
            return Some(blocks);
        }
        let of_stripe = self.stripe_blocks as usize;
        let is_whole = blocks.start.is_multiple_of(of_stripe) && blocks.end.is_multiple_of(of_stripe);
        is_whole.then(|| blocks.start / of_stripe..blocks.end / of_stripe)
    }

    /// Takes a step with blocks, numbered from the group's first one. False, and nothing is changed, if not all of them are what
    /// the step begins with.
    pub(super) fn step(&mut self, step: Step, blocks: Range<usize>) -> bool {
        let Some(bits) = self.bits(blocks) else { return false };
        let (taken, busy) = (self.taken.count(bits.clone()), self.busy.count(bits.clone()));
        match step {
            Step::Take if busy == 0 => {
                self.taken.set(bits.clone(), true);
                self.busy.set(bits, true);
            }
            Step::Hold if taken == bits.len() => self.taken.set(bits, false),
            Step::Release if taken == 0 && busy == bits.len() => self.busy.set(bits, false),
            _ => return false,
        }
        true
    }

    /// The blocks of a stripe, numbered from the group's first one.
    fn blocks_of(&self, stripe: u32) -> Range<usize> {
        let of_stripe = self.stripe_blocks as usize;
        stripe as usize * of_stripe..(stripe as usize + 1) * of_stripe
    }

    /// Blocks of a stripe that are taken, and that are not free.
    pub(super) fn counts(&self, stripe: u32) -> (usize, usize) {
        if self.kind == GroupKind::Large {
            let count = |bits: &Bits| usize::from(bits.has(stripe as usize)) * self.stripe_blocks as usize;
            return (count(&self.taken), count(&self.busy));
        }
        let blocks = self.blocks_of(stripe);
        (self.taken.count(blocks.clone()), self.busy.count(blocks))
    }

    /// Whether a block is free.
    pub(super) fn is_free(&self, stripe: u32, slot: u32) -> bool {
        match self.kind {
            GroupKind::Large => !self.busy.has(stripe as usize),
            _ => !self.busy.has(self.blocks_of(stripe).start + slot as usize),
        }
    }

    /// Whether a block is taken.
    pub(super) fn is_taken(&self, stripe: u32, slot: u32) -> bool {
        match self.kind {
            GroupKind::Large => self.taken.has(stripe as usize),
            _ => self.taken.has(self.blocks_of(stripe).start + slot as usize),
        }
    }

    /// Rows of a stripe all of whose blocks are free.
    pub(super) fn free_rows(&self, stripe: u32, geometry: &Geometry, order: Order) -> Vec<u32> {
        let columns = geometry.data_columns();
        let is_free = |row: u32| {
            (0..columns).all(|column| self.is_free(stripe, geometry.slot(order, Cell { row, column })))
        };
        (0..geometry.rows()).filter(|row| is_free(*row)).collect()
    }
}
