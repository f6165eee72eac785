//! The cells of one column of a stripe.

use std::ops::Range;

use smallvec::SmallVec;
use stripewise_device::{Block, IoBuf};

use super::{ALL_SECTORS, sectors};
use crate::{
    mutants::{Mutant, lives},
    shape::rows::{BLOCK_BYTES, RowSet},
};

/// Places by which a column's lists grow: a few, since what a cache keeps is counted.
pub(super) const PLACES_ADDED: usize = 8;

/// Makes room for one more, where there is none for another.
#[inline]
pub(super) fn make_room<T>(list: &mut Vec<T>, places: usize) {
    if list.len() == list.capacity() {
        list.reserve_exact(places);
    }
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellState {
    /// Its block equals what the members hold.
    Clean,
    /// These sectors of its block are new, of which there is at least one. The others hold nothing.
    Dirty(u8),
}

/// The cells of one column, with blocks in the order of their rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Column {
    pub(super) dirty: RowSet,
    pub(super) partial: RowSet,
    pub(super) clean: RowSet,
    pub(super) blocks: Vec<Block>,
    /// The new sectors of partial cells, in the order of their rows.
    masks: Vec<u8>,
}

impl Column {
    /// Consecutive rows of which all is new.
    pub(super) fn of_new(first: usize, blocks: Vec<Block>) -> Self {
        Self { dirty: RowSet::range(first..first + blocks.len()), blocks, ..Self::default() }
    }

    /// Dirty cells.
    pub(crate) fn dirty(&self) -> RowSet {
        self.dirty
    }

    /// Clean cells.
    pub(crate) fn clean(&self) -> RowSet {
        self.clean
    }

    /// Cells of which there is a block.
    pub(crate) fn held(&self) -> RowSet {
        self.dirty | self.clean
    }

    /// Whether there is no block.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Bytes that it takes from the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + self.masks.capacity()
    }

    /// The most bytes by which its lists grow if these sectors of a cell are written.
    #[inline]
    pub(super) fn growth(&self, row: usize, mask: u8) -> usize {
        let is_full = self.blocks.len() == self.blocks.capacity() && !self.holds(row);
        let blocks = if is_full { PLACES_ADDED } else { 0 };
        let masks =
            if mask != ALL_SECTORS && self.masks.len() == self.masks.capacity() { PLACES_ADDED } else { 0 };
        blocks * size_of::<Block>() + masks
    }

    /// Whether there is a block of a cell.
    #[inline]
    pub(crate) fn holds(&self, row: usize) -> bool {
        self.held().contains(row)
    }

    /// A cell's state and block.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<(CellState, &Block)> {
        if self.clean.contains(row) {
            return Some((CellState::Clean, &self.blocks[self.held().rank(row)]));
        }
        if !self.dirty.contains(row) {
            return None;
        }
        Some((CellState::Dirty(self.mask(row)), &self.blocks[self.held().rank(row)]))
    }

    /// The new sectors of a dirty cell.
    #[inline]
    fn mask(&self, row: usize) -> u8 {
        if self.partial.contains(row) { self.masks[self.partial.rank(row)] } else { ALL_SECTORS }
    }

    /// Sets a cell. Returns the block that it had.
    #[inline]
    pub(crate) fn put(&mut self, row: usize, state: CellState, block: Block) -> Option<Block> {
        self.set_mask(row, if let CellState::Dirty(mask) = state { mask } else { ALL_SECTORS });
        let at = self.held().rank(row);
        let before = if self.held().contains(row) {
            Some(std::mem::replace(&mut self.blocks[at], block))
        } else {
            make_room(&mut self.blocks, PLACES_ADDED);
            self.blocks.insert(at, block);
            None
        };
        let (set, other) = match state {
            CellState::Clean => (&mut self.clean, &mut self.dirty),
            CellState::Dirty(_) => (&mut self.dirty, &mut self.clean),
        };
        set.insert(row);
        other.remove(row);
        before
    }

    /// Sets sectors of a cell, which `buf` holds; its other sectors stay as they are. Returns whether it was not dirty
    /// before.
    #[inline]
    pub(crate) fn write(&mut self, row: usize, mut mask: u8, mut buf: IoBuf) -> bool {
        let held = self.held();
        let (at, was_dirty) = (held.rank(row), self.dirty.contains(row));
        if mask != ALL_SECTORS {
            let old = held.contains(row).then(|| &self.blocks[at]);
            mask |= self.carry_on(row, mask, old, &mut buf);
        }
        self.set_mask(row, mask);
        let block = Block::of(buf);
        if held.contains(row) {
            self.blocks[at] = block;
        } else {
            make_room(&mut self.blocks, PLACES_ADDED);
            self.blocks.insert(at, block);
        }
        if !was_dirty {
            self.dirty.insert(row);
            self.clean.remove(row);
        }
        !was_dirty
    }

    /// A cell's block, if it may take sectors of a write.
    #[inline]
    pub(crate) fn block_mut(&mut self, row: usize, mask: u8) -> Option<&mut Block> {
        let loses = lives(Mutant::SectorsLost) || lives(Mutant::SectorMaskLost);
        if !self.holds(row) || loses && mask != ALL_SECTORS {
            return None;
        }
        let at = self.held().rank(row);
        self.blocks.get_mut(at)
    }

    /// Sectors of a cell were written into its block. Returns whether it was not dirty before.
    #[inline]
    pub(crate) fn note_written(&mut self, row: usize, mask: u8) -> bool {
        if self.partial.contains(row) {
            self.change_mask(row, self.mask(row) | mask);
        }
        let was_clean = self.clean.contains(row);
        if was_clean {
            self.clean.remove(row);
            self.dirty.insert(row);
        }
        was_clean
    }

    /// Whether all of a cell's block is in hand.
    #[inline]
    pub(crate) fn is_whole(&self, row: usize) -> bool {
        self.holds(row) && !self.partial.contains(row)
    }

    /// Copies sectors that a write leaves as they are. Returns which of the block are in hand then.
    fn carry_on(&self, row: usize, mask: u8, old: Option<&Block>, buf: &mut IoBuf) -> u8 {
        let Some(old) = old else { return if lives(Mutant::SectorMaskLost) { ALL_SECTORS } else { mask } };
        let held = if self.dirty.contains(row) { self.mask(row) } else { ALL_SECTORS };
        if !lives(Mutant::SectorsLost) {
            sectors(held & !mask).for_each(|part| buf[part.clone()].copy_from_slice(&old[part]));
        }
        if lives(Mutant::SectorMaskLost) { ALL_SECTORS } else { held | mask }
    }

    #[inline]
    fn set_mask(&mut self, row: usize, mask: u8) {
        if mask != ALL_SECTORS || self.partial.contains(row) {
            self.change_mask(row, mask);
        }
    }

    #[inline(never)]
    fn change_mask(&mut self, row: usize, mask: u8) {
        let at = self.partial.rank(row);
        match (self.partial.contains(row), mask) {
            (true, ALL_SECTORS) => {
                self.masks.remove(at);
                self.partial.remove(row);
            }
            (true, _) => self.masks[at] = mask,
            (false, _) => {
                make_room(&mut self.masks, PLACES_ADDED);
                self.masks.insert(at, mask);
                self.partial.insert(row);
            }
        }
    }

    /// A dirty cell of which all is new now equals what the members hold.
    pub(crate) fn make_clean(&mut self, row: usize) {
        debug_assert!(self.dirty.contains(row) && !self.partial.contains(row), "its block is whole");
        self.dirty.remove(row);
        self.clean.insert(row);
    }

    /// Drops clean cells.
    pub(crate) fn drop_clean(&mut self, dropped: &mut Vec<Block>) {
        if self.dirty.is_empty() {
            self.clean = RowSet::EMPTY;
            dropped.append(&mut self.blocks);
            return;
        }
        self.clean.runs().flatten().for_each(|row| dropped.extend(self.take(row)));
    }

    /// Takes a cell's block out.
    pub(crate) fn take(&mut self, row: usize) -> Option<Block> {
        if !self.held().contains(row) {
            return None;
        }
        self.set_mask(row, ALL_SECTORS);
        let block = self.blocks.remove(self.held().rank(row));
        self.dirty.remove(row);
        self.clean.remove(row);
        Some(block)
    }

    /// The cells of some rows, lent.
    pub(super) fn lend(&self, rows: RowSet) -> Self {
        let held = self.held();
        let mut blocks = Vec::with_capacity((held & rows).len());
        blocks.extend((held & rows).runs().flatten().map(|row| self.blocks[held.rank(row)].clone()));
        Self {
            dirty: self.dirty & rows,
            partial: self.partial & rows,
            clean: self.clean & rows,
            blocks,
            masks: (self.partial & rows).runs().flatten().map(|row| self.mask(row)).collect(),
        }
    }

    /// The new bytes of the chunk, in order; neighbours are joined.
    pub(super) fn new_ranges(&self) -> SmallVec<[Range<usize>; 4]> {
        let mut ranges: SmallVec<[Range<usize>; 4]> = SmallVec::new();
        let mut add = |bytes: Range<usize>| match ranges.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => ranges.push(bytes),
        };
        for row in self.dirty.runs().flatten() {
            let start = row * BLOCK_BYTES;
            sectors(self.mask(row)).for_each(|part| add(start + part.start..start + part.end));
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{SECTOR_BYTES, mask_of},
        *,
    };

    fn block(value: u8) -> Block {
        Block::of(IoBuf::copy_of(&[value; BLOCK_BYTES]))
    }

    #[derive(Debug, Clone)]
    enum Op {
        Put(usize, Option<u8>, u8),
        Take(usize),
        Clean(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let row = prop_oneof![0usize..6, 60usize..68, 250usize..256];
        let op = (row, 0u8..8, any::<u8>(), any::<u8>()).prop_map(|(row, kind, mask, value)| match kind {
            0 => Op::Take(row),
            1 => Op::Clean(row),
            2 => Op::Put(row, None, value),
            3..=4 => Op::Put(row, Some(ALL_SECTORS), value),
            _ => Op::Put(row, Some(mask.max(1)), value),
        });
        prop::collection::vec(op, 0..60)
    }

    proptest! {
        /// A column holds what a map of its rows would.
        #[test]
        fn a_column_is_a_map_of_rows(ops in ops(), lent in any::<[bool; 256]>()) {
            let (mut column, mut model) = (Column::default(), std::collections::BTreeMap::new());
            for op in ops {
                match op {
                    Op::Put(row, mask, value) => {
                        let state = mask.map_or(CellState::Clean, CellState::Dirty);
                        let before = column.put(row, state, block(value));
                        prop_assert_eq!(before.map(|b| b[0]), model.insert(row, (state, value)).map(|(_, v)| v));
                    }
                    Op::Take(row) => {
                        prop_assert_eq!(column.take(row).map(|b| b[0]), model.remove(&row).map(|(_, v)| v));
                    }
                    Op::Clean(row) => {
                        if let Some((state @ CellState::Dirty(ALL_SECTORS), _)) = model.get_mut(&row) {
                            *state = CellState::Clean;
                            column.make_clean(row);
                        }
                    }
                }
            }
            let rows = (0..256).filter(|row| lent[*row]).fold(RowSet::EMPTY, |all, row| all | RowSet::range(row..row + 1));
            let part = column.lend(rows);
            for (row, is_lent) in lent.into_iter().enumerate() {
                let expected = model.get(&row).copied();
                let found = |column: &Column| column.get(row).map(|(state, block)| (state, block[0]));
                prop_assert_eq!(found(&column), expected);
                prop_assert_eq!(found(&part), expected.filter(|_| is_lent));
            }
            prop_assert_eq!(column.is_empty(), model.is_empty());
            let new: Vec<usize> = column.new_ranges().iter().cloned().flatten().step_by(SECTOR_BYTES).collect();
            let expected: Vec<usize> = model.iter().flat_map(|(row, (state, _))| {
                let mask = if let CellState::Dirty(mask) = state { *mask } else { 0 };
                (0..8).filter(move |sector| mask >> sector & 1 == 1).map(move |sector| row * BLOCK_BYTES + sector * SECTOR_BYTES)
            }).collect();
            prop_assert_eq!(new, expected);
        }
    }

    proptest! {
        /// What is written into a cell's own block is what a new block in its place would hold.
        #[test]
        fn a_block_changed_in_its_place_is_like_a_new_one(
            writes in prop::collection::vec((0usize..4, 0usize..8, 1usize..9, any::<u8>(), any::<bool>()), 0..40)
        ) {
            let (mut changed, mut renewed) = (Column::default(), Column::default());
            for (row, first, count, value, cleans) in writes {
                let bytes = first * SECTOR_BYTES..(first + count).min(8) * SECTOR_BYTES;
                let mask = mask_of(bytes.clone());
                let new = || {
                    let mut buf = IoBuf::zeroed(BLOCK_BYTES);
                    buf[bytes.clone()].fill(value);
                    buf
                };
                let was_new = renewed.write(row, mask, new());
                let is_new = match changed.block_mut(row, mask).and_then(Block::get_mut) {
                    Some(own) => {
                        own[bytes.clone()].fill(value);
                        changed.note_written(row, mask)
                    }
                    None => changed.write(row, mask, new()),
                };
                prop_assert_eq!(is_new, was_new);
                if cleans && changed.is_whole(row) {
                    changed.make_clean(row);
                    renewed.make_clean(row);
                }
                for row in 0..4 {
                    let [one, other] = [&changed, &renewed].map(|column| column.get(row));
                    prop_assert_eq!(one.map(|(state, _)| state), other.map(|(state, _)| state));
                    let Some(((state, one), (_, other))) = one.zip(other) else { continue };
                    let held = if let CellState::Dirty(mask) = state { mask } else { ALL_SECTORS };
                    for part in sectors(held) {
                        prop_assert_eq!(&one[part.clone()], &other[part]);
                    }
                }
            }
        }
    }
}
