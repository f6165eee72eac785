//! What a destage has read and its stripe does not hold stays in the cache, if memory is free: msc-ct's `r`, read "for a
//! cache hit in the future" (III-C). Another destage of the stripe then need not read it.

use stripewise_device::Block;

use super::{Cache, Turn, slot::Slot};
use crate::{
    compute::{
        Run,
        cells::{ALL_SECTORS, CellState},
    },
    mutants::{Mutant, lives},
    shape::{geometry::StripeIndex, rows::BLOCK_BYTES},
};

impl Cache {
    /// Keeps blocks of data columns that were read with their rows held. Those of cells that hold anything are left: they
    /// may be newer.
    pub(crate) fn keep_read<'a>(&self, stripe: StripeIndex, read: impl Iterator<Item = &'a Run>) {
        if self.is_by_rows() || !self.keeps_clean() {
            return;
        }
        let (unit, mut kept) = (self.unit_of(stripe, 0), 0);
        let at = self.place_of(unit);
        let mut bucket = self.buckets[at].lock();
        // Closed, or older requests write beside it: so it was decided under no lock of a bucket.
        let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit && self.keeps_clean()) else {
            return;
        };
        for run in read.filter(|run| usize::from(run.cells.column) < self.data_columns) {
            for (row, block) in run.cells.rows.range().zip(run.buf.chunks(BLOCK_BYTES)) {
                kept += usize::from(self.keep_block(slot, stripe, (run.cells.column.into(), row), block));
            }
        }
        if kept > 0 {
            self.list(&mut bucket, at, Turn::First);
        }
    }

    /// Keeps a block, if nothing of its cell is held and a frame is free.
    fn keep_block(
        &self,
        slot: &mut Slot,
        stripe: StripeIndex,
        (number, row): (usize, usize),
        block: &[u8],
    ) -> bool {
        let is_held = slot.cells.get(number).is_some_and(|column| column.holds(row));
        if is_held && !lives(Mutant::ReadOverNewer) || !self.charge_growth(slot, number, row, ALL_SECTORS) {
            return false;
        }
        let Some(mut frame) = slot.spare_frames.pop().or_else(|| self.free_frame()) else { return false };
        frame.copy_from_slice(block);
        let (shown, column) = (self.number_of(stripe, number, row), slot.cells.entry(number));
        self.frames.hide(shown);
        column.put(row, CellState::Clean, Block::of(frame));
        self.filter.note(self.place_of(slot.unit), shown);
        self.show(shown, column, row);
        true
    }
}
