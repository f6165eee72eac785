//! Cells of a stripe of which content is in hand: msc-ct's matrix Z with its blocks.
//!
//! A cache keeps these, and lends those of the rows that it destages. A block that is lent never changes: new content is
//! a new block then, so what was lent stays as it was.

mod column;

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use stripewise_device::{Block, IoBuf, WriteBufs};

pub(crate) use self::column::{CellState, Column};
use self::column::{PLACES_ADDED, make_room};
use crate::{
    mutants::{Mutant, lives},
    plan::StripeState,
    shape::{
        geometry::StripeSpan,
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// Bytes of a sector: the unit in which a block may be new.
pub(crate) const SECTOR_BYTES: usize = 512;
/// The mask of a block of which all sectors are new.
pub(crate) const ALL_SECTORS: u8 = u8::MAX;

/// The bytes of a block that a mask of its sectors stands for, in runs.
pub(crate) fn sectors(mask: u8) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + (u32::from(mask) >> at).trailing_zeros();
        if start >= 8 {
            return None;
        }
        at = start + (u32::from(mask) >> start).trailing_ones();
        Some(start as usize * SECTOR_BYTES..at as usize * SECTOR_BYTES)
    })
}

/// The mask of the sectors that a range of a block's bytes covers.
#[inline]
pub(crate) fn mask_of(bytes: Range<usize>) -> u8 {
    let (start, end) = (bytes.start / SECTOR_BYTES, bytes.end / SECTOR_BYTES);
    ((1u32 << end) - (1u32 << start)) as u8
}

/// The part of a write that lies in one block.
pub(crate) struct Part {
    pub(crate) column: usize,
    pub(crate) row: usize,
    /// In the block.
    pub(crate) bytes: Range<usize>,
    /// Where it starts in the write's part in the stripe.
    pub(crate) from: usize,
}

/// Cuts a write's part in one stripe at blocks.
#[inline]
pub(crate) fn blocks_of(span: &StripeSpan, chunk_bytes: usize) -> impl Iterator<Item = Part> + use<> {
    let (mut at, end, start) = (span.start, span.start + span.len, span.start);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (column, in_chunk, from) = (at / chunk_bytes, at % chunk_bytes, at - start);
        let (row, first) = (in_chunk / BLOCK_BYTES, in_chunk % BLOCK_BYTES);
        let last = BLOCK_BYTES.min(first + end - at);
        at += last - first;
        Some(Part { column, row, bytes: first..last, from })
    })
}

/// Cells of a stripe, by data column. Columns without a block are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedCells(Vec<(u16, Column)>);

impl CachedCells {
    /// Whole rows from `first` on, all of them new. The blocks come row by row.
    pub(crate) fn of_rows(first: usize, data_columns: usize, blocks: &[Block]) -> Self {
        let of = |column: usize| blocks.iter().skip(column).step_by(data_columns).cloned().collect();
        Self((0..data_columns).map(|column| (column as u16, Column::of_new(first, of(column)))).collect())
    }

    /// Whole blocks, all of them new, by row and column. Of several in one place, the last counts.
    pub(crate) fn of_blocks(blocks: impl Iterator<Item = (usize, usize, Block)>) -> Self {
        let mut cells = Self::default();
        blocks.for_each(|(row, column, block)| {
            cells.entry(column).put(row, CellState::Dirty(ALL_SECTORS), block);
        });
        cells
    }

    /// The columns that have blocks, with their numbers.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.0.iter().map(|(number, column)| (usize::from(*number), column))
    }

    /// As [`CachedCells::columns`], to be changed.
    pub(crate) fn columns_mut(&mut self) -> impl Iterator<Item = (usize, &mut Column)> {
        self.0.iter_mut().map(|(number, column)| (usize::from(*number), column))
    }

    /// A column, if it has blocks.
    #[inline]
    pub(crate) fn get(&self, column: usize) -> Option<&Column> {
        self.0.iter().find(|(number, _)| usize::from(*number) == column).map(|(_, column)| column)
    }

    /// A column that may be changed, if it has blocks.
    #[inline]
    pub(crate) fn get_mut(&mut self, column: usize) -> Option<&mut Column> {
        self.0.iter_mut().find(|(number, _)| usize::from(*number) == column).map(|(_, column)| column)
    }

    /// A column, to put blocks in.
    #[inline]
    pub(crate) fn entry(&mut self, column: usize) -> &mut Column {
        let at = match self.0.iter().position(|(number, _)| usize::from(*number) == column) {
            Some(at) => at,
            None => {
                make_room(&mut self.0, 1);
                let at = self.0.partition_point(|(number, _)| usize::from(*number) < column);
                self.0.insert(at, (column as u16, Column::default()));
                at
            }
        };
        &mut self.0[at].1
    }

    /// Forgets columns without blocks.
    pub(crate) fn forget_empty(&mut self) {
        self.0.retain(|(_, column)| !column.is_empty());
    }

    /// Whether there is no block.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, column)| column.is_empty())
    }

    /// Bytes that these take from the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let columns: usize = self.columns().map(|(_, column)| column.heap_bytes()).sum();
        columns + self.0.capacity() * size_of::<(u16, Column)>()
    }

    /// The most bytes by which its lists grow if these sectors of a cell are written.
    #[inline]
    pub(crate) fn growth(&self, column: usize, row: usize, mask: u8) -> usize {
        if let Some(column) = self.get(column) {
            return column.growth(row, mask);
        }
        let columns = usize::from(self.0.len() == self.0.capacity()) * size_of::<(u16, Column)>();
        columns + PLACES_ADDED * (size_of::<Block>() + usize::from(mask != ALL_SECTORS))
    }

    /// Rows in which a cell is dirty.
    pub(crate) fn dirty_rows(&self) -> RowSet {
        self.columns().fold(RowSet::EMPTY, |all, (_, column)| all | column.dirty)
    }

    /// Whether all of a write's part is new here, be it its bytes or later ones.
    pub(crate) fn covers(&self, span: &StripeSpan, chunk_bytes: usize) -> bool {
        blocks_of(span, chunk_bytes).all(|Part { column, row, bytes, .. }| {
            let wanted = mask_of(bytes);
            let cell = self.get(column).and_then(|column| column.get(row));
            matches!(cell, Some((CellState::Dirty(mask), _)) if mask & wanted == wanted)
        })
    }

    /// Bytes of cells that are dirty.
    pub(crate) fn new_bytes(&self) -> u64 {
        (self.dirty_blocks() * BLOCK_BYTES) as u64
    }

    /// How many cells are dirty.
    pub(crate) fn dirty_blocks(&self) -> usize {
        self.columns().map(|(_, column)| column.dirty.len()).sum()
    }

    /// How many cells there are.
    pub(crate) fn blocks(&self) -> usize {
        self.columns().map(|(_, column)| column.blocks.len()).sum()
    }

    /// All cells of some rows, lent.
    pub(crate) fn lend(&self, rows: RowSet) -> Self {
        let lent = self.0.iter().map(|(number, column)| (*number, column.lend(rows)));
        Self(lent.filter(|(_, column)| !column.is_empty()).collect())
    }

    /// Dirty cells, where others are dirty too, lent.
    pub(crate) fn lend_dirty_with(&self, others: &Self) -> Self {
        let both = |number: u16, column: &Column| {
            let other = others.get(number.into()).map_or(RowSet::EMPTY, Column::dirty);
            column.lend(column.dirty & other)
        };
        let lent = self.0.iter().map(|(number, column)| (*number, both(*number, column)));
        Self(lent.filter(|(_, column)| !column.is_empty()).collect())
    }

    /// Takes whole dirty blocks of some rows for clean ones: a bug.
    pub(crate) fn forge_clean(&mut self, rows: RowSet) {
        for (_, column) in self.columns_mut() {
            (rows & (column.dirty - column.partial)).runs().flatten().for_each(|row| column.make_clean(row));
        }
    }

    /// Takes in cells of other rows of the same stripe.
    pub(crate) fn absorb(&mut self, other: Self) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (number, mut column) in other.0 {
            let own = self.entry(number.into());
            for row in column.held().runs().flatten() {
                let state = column.get(row).expect("it is held").0;
                let block = column.take(row).expect("it is held");
                own.put(row, state, block);
            }
        }
    }

    /// Enters what is in hand of some rows into the state of the stripe.
    pub(crate) fn enter_into(&self, rows: RowSet, state: &mut StripeState) {
        for (number, column) in self.columns() {
            let entered = &mut state.columns[number];
            entered.dirty |= column.dirty & rows;
            entered.partial |= column.partial & rows;
            entered.clean |= column.clean & rows;
        }
    }

    /// The new bytes of a column's chunk, in order.
    pub(crate) fn new_ranges(&self, column: usize) -> SmallVec<[Range<usize>; 4]> {
        self.get(column).map(Column::new_ranges).unwrap_or_default()
    }

    /// The range of the stripe's data bytes that is new, if that is whole blocks of one column or the whole
    /// stripe, and nothing else is in hand: such a write is planned as a client's.
    pub(crate) fn as_range(&self, data_columns: usize, chunk_bytes: usize) -> Option<Range<usize>> {
        let rows = chunk_bytes / BLOCK_BYTES;
        let is_plain = |column: &Column| column.partial.is_empty() && column.clean.is_empty();
        match &self.0[..] {
            [(number, column)] if is_plain(column) => {
                let mut runs = column.dirty.runs();
                let (rows, start) = (runs.next()?, usize::from(*number) * chunk_bytes);
                let is_one = runs.next().is_none();
                is_one.then(|| start + rows.start * BLOCK_BYTES..start + rows.end * BLOCK_BYTES)
            }
            all if all.len() == data_columns => {
                let is_whole = |(_, column): &(u16, Column)| is_plain(column) && column.dirty.len() == rows;
                all.iter().all(is_whole).then_some(0..data_columns * chunk_bytes)
            }
            _ => None,
        }
    }

    /// Contiguous bytes from the start of a range of a column's chunk, at most to the end of its block, if the
    /// content that this block will have is in hand as a whole.
    #[inline]
    pub(super) fn run(&self, column: usize, bytes: &Range<usize>) -> Option<&[u8]> {
        let (row, at) = (bytes.start / BLOCK_BYTES, bytes.start % BLOCK_BYTES);
        match self.get(column)?.get(row)? {
            (CellState::Clean | CellState::Dirty(ALL_SECTORS), block) => {
                Some(&block[at..BLOCK_BYTES.min(at + bytes.len())])
            }
            _ => None,
        }
    }

    /// New bytes of a column's chunk, for a write.
    pub(crate) fn take(&self, column: usize, bytes: &Range<usize>) -> WriteBufs {
        let column = self.get(column).expect("what is written is in hand");
        let (mut bufs, mut at): (WriteBufs, _) = (smallvec![], bytes.start);
        while at < bytes.end {
            let (row, start) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
            let end = BLOCK_BYTES.min(start + bytes.end - at);
            let (_, block) = column.get(row).expect("what is written is in hand");
            bufs.push(block.lend(start..end));
            at += end - start;
        }
        bufs
    }

    /// Writes the new bytes of a block over its old content.
    pub(super) fn merge(&self, column: usize, block: &Range<usize>, into: &mut [u8]) {
        let cell = self.get(column).and_then(|column| column.get(block.start / BLOCK_BYTES));
        if let Some((CellState::Dirty(mask), new)) = cell {
            sectors(mask).for_each(|part| into[part.clone()].copy_from_slice(&new[part]));
        }
    }

    /// A copy of clean blocks, if these rows of the column are clean.
    pub(super) fn copy_of_clean(&self, column: usize, rows: Range<usize>) -> Option<IoBuf> {
        let column = self.get(column)?;
        let is_known = |row: usize| {
            column.clean.contains(row) || lives(Mutant::RecoverFromDirty) && column.dirty.contains(row)
        };
        if !rows.clone().all(is_known) {
            return None;
        }
        let mut copy = IoBuf::with_len(rows.len() * BLOCK_BYTES);
        for (row, part) in rows.zip(copy.chunks_mut(BLOCK_BYTES)) {
            let (_, block) = column.get(row).expect("it is held");
            part.copy_from_slice(block);
        }
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(value: u8) -> Block {
        Block::of(IoBuf::copy_of(&[value; BLOCK_BYTES]))
    }

    /// A row may be dirty because of another column, and a block because of other sectors.
    #[test]
    fn a_write_is_covered_by_cells_with_all_of_its_sectors() {
        use crate::shape::geometry::StripeIndex;
        let span = |start, len| StripeSpan { stripe: StripeIndex(0), start, len, request_offset: 0 };
        let mut cells = CachedCells::default();
        cells.entry(0).put(1, CellState::Dirty(0b0000_0110), block(1));
        cells.entry(1).put(0, CellState::Dirty(ALL_SECTORS), block(1));
        cells.entry(1).put(1, CellState::Clean, block(1));
        let covered = [(4096 + 512, 1024), (8192, 4096), (8192 + 512, 512)];
        let others =
            [(4096, 1024), (4096 + 512, 1536), (0, 512), (8192, 4096 + 512), (4096 + 1024, 3072 + 512)];
        assert!(covered.iter().all(|(start, len)| cells.covers(&span(*start, *len), 8192)));
        assert!(!others.iter().any(|(start, len)| cells.covers(&span(*start, *len), 8192)));
    }

    #[test]
    fn masks_and_ranges_of_sectors_agree() {
        for mask in 0..=u8::MAX {
            let back = sectors(mask).fold(0, |all, part| all | mask_of(part));
            assert_eq!(back, mask);
        }
        assert_eq!(sectors(0b1011_0000).collect::<Vec<_>>(), [2048..3072, 3584..4096]);
        assert_eq!(mask_of(0..4096), ALL_SECTORS);
    }

    #[test]
    fn whole_blocks_of_a_column_and_a_whole_stripe_are_ranges() {
        let mut cells = CachedCells::default();
        cells.entry(1).put(2, CellState::Dirty(ALL_SECTORS), block(1));
        cells.entry(1).put(3, CellState::Dirty(ALL_SECTORS), block(1));
        assert_eq!(cells.as_range(2, 16384), Some(16384 + 8192..32768));
        cells.entry(1).put(0, CellState::Dirty(ALL_SECTORS), block(1));
        assert_eq!(cells.as_range(2, 16384), None);
        cells.entry(1).put(1, CellState::Dirty(ALL_SECTORS), block(1));
        assert_eq!(cells.as_range(2, 16384), Some(16384..32768));
        (0..4).for_each(|row| drop(cells.entry(0).put(row, CellState::Dirty(ALL_SECTORS), block(1))));
        assert_eq!(cells.as_range(2, 16384), Some(0..32768));
        assert_eq!(cells.as_range(3, 16384), None);
        cells.entry(0).put(1, CellState::Dirty(1), block(1));
        assert_eq!(cells.as_range(2, 16384), None);
    }
}
