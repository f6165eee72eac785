//! Allocation lists (rafs III-D): the stripes of one kind of groups by how much of each is free.

use std::collections::{BTreeMap, BTreeSet};

use crate::shape::StripeNo;

/// How much of a stripe is free: stripes of a higher rank are better to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Rows that are free as a whole, where these count first.
    pub rows: u32,
    /// Blocks.
    pub blocks: u32,
}

/// The lists. A stripe without a free block is in none.
#[derive(Debug, Default)]
pub(super) struct Lists {
    by_rank: BTreeMap<Rank, BTreeSet<StripeNo>>,
    ranks: BTreeMap<StripeNo, Rank>,
}

impl Lists {
    /// Moves a stripe to the list of its rank; none: takes it off.
    pub(super) fn place(&mut self, stripe: StripeNo, rank: Option<Rank>) {
        let before = match rank {
            Some(rank) => self.ranks.insert(stripe, rank),
            None => self.ranks.remove(&stripe),
        };
        if before == rank {
            return;
        }
        if let Some(before) = before
            && let Some(list) = self.by_rank.get_mut(&before)
        {
            list.remove(&stripe);
            if list.is_empty() {
                self.by_rank.remove(&before);
            }
        }
        if let Some(rank) = rank {
            self.by_rank.entry(rank).or_default().insert(stripe);
        }
    }

    /// The best stripe with its rank: of several, the first one that does not lie before `near`, or else the first.
    pub(super) fn best(&self, near: StripeNo) -> Option<(StripeNo, Rank)> {
        let (rank, list) = self.by_rank.last_key_value()?;
        let stripe = list.range(near..).next().or_else(|| list.first())?;
        Some((*stripe, *rank))
    }

    /// The first stripe that does not lie before `near`, or else the first, however little of it is free.
    pub(super) fn next(&self, near: StripeNo) -> Option<StripeNo> {
        let next = self.ranks.range(near..).next().or_else(|| self.ranks.first_key_value());
        next.map(|(stripe, _)| *stripe)
    }

    /// The stripes of lists with so many free blocks or more, the emptiest ones first, and how many blocks of each are free.
    pub(super) fn with_free(&self, blocks: u32) -> Vec<(StripeNo, u32)> {
        let lists = self.by_rank.iter().filter(|(rank, _)| rank.blocks >= blocks);
        let mut all: Vec<_> =
            lists.flat_map(|(rank, list)| list.iter().map(|stripe| (*stripe, rank.blocks))).collect();
        all.sort_by_key(|(stripe, free)| (std::cmp::Reverse(*free), *stripe));
        all
    }

    /// How many stripes each list has, by rank.
    pub(super) fn lengths(&self) -> impl Iterator<Item = (Rank, usize)> {
        self.by_rank.iter().map(|(rank, list)| (*rank, list.len()))
    }
}
