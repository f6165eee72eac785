//! What a destage has read and its stripe does not hold stays in the cache, if memory is free: msc-ct's `r`, read "for a
//! cache hit in the future" (III-C). Another destage of the stripe then need not read it.

use stripewise_device::Block;

use super::{
    Cache,
    evict::{Reach, Turn},
    slot::Slot,
};
use crate::{
    compute::{
        Run,
        cells::{ALL_SECTORS, CellState},
    },
    mutants::{Mutant, lives},
    shape::{geometry::StripeIndex, rows::BLOCK_BYTES},
};

/// Blocks that are copied while a bucket is locked.
const KEPT_AT_ONCE: usize = 8;

impl Cache {
    /// Keeps blocks of data columns that were read with their rows held. Those of cells that hold anything are left: they
    /// may be newer.
    pub(crate) fn keep_read<'a>(&self, stripe: StripeIndex, read: impl Iterator<Item = &'a Run>) {
        if self.is_by_rows() {
            return;
        }
        for run in read.filter(|run| usize::from(run.cells.column) < self.data_columns) {
            let blocks: Vec<_> = run.cells.rows.range().zip(run.buf.chunks(BLOCK_BYTES)).collect();
            let column = run.cells.column.into();
            if !blocks.chunks(KEPT_AT_ONCE).all(|blocks| self.keep_blocks(stripe, column, blocks)) {
                return;
            }
        }
    }

    /// Keeps some blocks of a column. False if there is no memory for more, or nothing is kept.
    fn keep_blocks(&self, stripe: StripeIndex, column: usize, blocks: &[(usize, &[u8])]) -> bool {
        let unit = self.unit_of(stripe, 0);
        let at = self.place_of(unit);
        let mut bucket = self.buckets[at].lock();
        // Under the lock: the cache may just be closed, or be young.
        let slot = bucket.slots.iter_mut().find(|slot| slot.unit == unit && self.keeps_clean());
        let Some(slot) = slot else { return false };
        let goes_on = blocks.iter().all(|(row, block)| self.keep_block(slot, stripe, (column, *row), block));
        if slot.has_clean() {
            self.list(&mut bucket, at, Turn::First);
        }
        goes_on
    }

    /// Keeps a block, if nothing of its cell is held. False if there is no memory.
    fn keep_block(
        &self,
        slot: &mut Slot,
        stripe: StripeIndex,
        (number, row): (usize, usize),
        block: &[u8],
    ) -> bool {
        let is_held = slot.cells.get(number).is_some_and(|column| column.holds(row));
        if is_held && !lives(Mutant::ReadOverNewer) {
            return true;
        }
        // Frames that the slot has for its other blocks are left to writes.
        let Some(mut frame) = self.free_frame(Reach::Own) else { return false };
        if !self.charge_growth(slot, number, row, ALL_SECTORS) {
            return false;
        }
        frame.copy_from_slice(block);
        let (shown, column) = (self.number_of(stripe, number, row), slot.cells.entry(number));
        self.frames.hide(shown);
        column.put(row, CellState::Clean, Block::of(frame));
        self.filter.note(self.place_of(slot.unit), shown);
        self.show(shown, column, row);
        true
    }
}
