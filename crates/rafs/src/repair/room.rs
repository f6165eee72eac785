//! Places for what a repair writes: blocks to which nothing leads that is there now.

use std::ops::Range;

use stripewise_format::rafs::{space::GroupKind, superblock::Superblock};

use super::RepairError;
use crate::{
    check::{Owned, Plan},
    shape::{BlockNo, Cell, Geometry, Order},
};

/// What blocks are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Node,
    File,
}

/// How carefully places are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    /// Whole rows that are free.
    Rows,
    /// Blocks that are free.
    Blocks,
    /// Blocks that groups say are taken, and to which nothing leads.
    Leaked,
}

/// The free blocks.
pub(super) struct Room {
    geometry: Geometry,
    order: Order,
    /// Blocks to which something leads, or which were handed out.
    busy: Owned,
    /// Blocks that are taken by what groups say.
    told: Owned,
    kinds: Vec<Option<GroupKind>>,
    given_back: Vec<u64>,
}

impl Room {
    pub(super) fn new(superblock: &Superblock, plan: &Plan, geometry: Geometry, order: Order) -> Self {
        let mut busy = plan.referred.clone();
        busy.add_files(&plan.items);
        let mut told = Owned::new(superblock);
        for group in 0..told.groups() {
            let blocks = told.blocks_of(group);
            if plan.space.kind_of(group).is_some() {
                blocks.filter(|block| plan.space.is_taken(BlockNo(*block))).for_each(|block| told.add(block));
            }
        }
        let kinds = (0..told.groups()).map(|group| plan.space.kind_of(group)).collect();
        Self { geometry, order, busy, told, kinds, given_back: Vec::new() }
    }

    /// Whether nothing leads to a block, and its group says that it is free.
    pub(super) fn is_spare(&self, block: u64) -> bool {
        !self.busy.has(block) && !self.told.has(block)
    }

    /// How many blocks can be taken at most.
    pub(super) fn free_blocks(&self) -> u64 {
        self.busy.free()
    }

    /// Takes so many blocks, or none.
    pub(super) fn take(&mut self, count: usize, purpose: Purpose) -> Result<Vec<u64>, RepairError> {
        let from_back = self.given_back.len().saturating_sub(count);
        let mut taken = self.given_back.split_off(from_back);
        let ranks = |kind: Option<GroupKind>| match (kind, purpose) {
            (Some(GroupKind::Metadata), Purpose::Node) | (Some(GroupKind::Small), Purpose::File) => 0,
            (None, _) => 1,
            (Some(GroupKind::Large), _) => 3,
            _ => 2,
        };
        let mut groups: Vec<u64> = (0..self.kinds.len() as u64).collect();
        groups.sort_by_key(|group| ranks(self.kinds[*group as usize]));
        for care in [Care::Rows, Care::Blocks, Care::Leaked] {
            for group in &groups {
                if taken.len() >= count {
                    break;
                }
                self.take_of_group(*group, care, count, &mut taken);
            }
        }
        if taken.len() < count {
            return Err(RepairError::NoSpace { wanted: count });
        }
        // Neighbours lie together, so that they are written together.
        taken.sort_unstable();
        Ok(taken)
    }

    /// Blocks that were taken are free.
    pub(super) fn give_back(&mut self, blocks: Vec<u64>) {
        self.given_back.extend(blocks);
    }

    /// Whether a block follows another one in the same group.
    pub(super) fn are_neighbours(&self, block: u64, next: u64) -> bool {
        let first = self.told.blocks_of(0);
        let group = |block: u64| (block - first.start) / (first.end - first.start);
        next == block + 1 && group(block) == group(next)
    }

    fn take_of_group(&mut self, group: u64, care: Care, count: usize, taken: &mut Vec<u64>) {
        let blocks = self.told.blocks_of(group);
        let of_stripe = u64::from(self.geometry.stripe_blocks());
        for stripe in (blocks.start / of_stripe)..(blocks.end / of_stripe) {
            let all = stripe * of_stripe..(stripe + 1) * of_stripe;
            for block in self.free_of(all, care) {
                if taken.len() == count {
                    return;
                }
                self.busy.add(block);
                taken.push(block);
            }
        }
    }

    /// The blocks of a stripe that may be taken.
    fn free_of(&self, blocks: Range<u64>, care: Care) -> Vec<u64> {
        match care {
            Care::Blocks => blocks.filter(|block| self.is_spare(*block)).collect(),
            Care::Leaked => blocks.filter(|block| !self.busy.has(*block)).collect(),
            Care::Rows => {
                (0..self.geometry.rows()).flat_map(|row| self.free_row(blocks.start, row)).collect()
            }
        }
    }

    /// The blocks of a row, if all of them are free.
    fn free_row(&self, first: u64, row: u32) -> Vec<u64> {
        let columns = 0..self.geometry.data_columns();
        let slot = |column| self.geometry.slot(self.order, Cell { row, column });
        let blocks: Vec<u64> = columns.map(|column| first + u64::from(slot(column))).collect();
        if blocks.iter().all(|block| self.is_spare(*block)) { blocks } else { Vec::new() }
    }
}
