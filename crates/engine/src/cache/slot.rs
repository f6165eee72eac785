//! A slot: what the cache holds of one unit, which is a stripe or a row.

use stripewise_device::{IoBuf, Timestamp};

use super::shown::Dropped;
use crate::{
    compute::{
        CachedCells,
        cells::{ALL_SECTORS, CellState},
    },
    mutants::{Mutant, lives},
};

/// The epoch of a slot without dirty cells.
pub(super) const NEVER: u64 = u64::MAX;

/// What the cache holds of one unit.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) unit: u64,
    pub(super) cells: CachedCells,
    /// An epoch, such that no dirty cell is of an earlier one.
    pub(super) oldest: u64,
    /// When it was written last.
    pub(super) written: Timestamp,
    /// No dirty cell was written before.
    pub(super) dirty_since: Timestamp,
    /// It was written again while it was dirty, and no destage policy has passed it since.
    pub(super) is_recent: bool,
    /// Free frames for its other blocks, if memory is taken by stripes.
    pub(super) spare_frames: Vec<IoBuf>,
    /// It was read ahead, and not written since.
    pub(super) is_ahead: bool,
    /// Bytes of the heap that were charged for it.
    pub(super) charged: usize,
}

impl Slot {
    pub(super) fn new(unit: u64) -> Self {
        Self {
            unit,
            cells: CachedCells::default(),
            oldest: NEVER,
            written: Timestamp::default(),
            dirty_since: Timestamp::default(),
            is_recent: false,
            spare_frames: Vec::new(),
            is_ahead: false,
            charged: 0,
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.cells.heap_bytes() + self.spare_frames.capacity() * size_of::<IoBuf>()
    }

    /// Notes a write.
    pub(super) fn note_write(&mut self, epoch: u64, now: Timestamp) {
        self.is_recent = self.oldest != NEVER;
        if self.oldest == NEVER {
            self.dirty_since = now;
        }
        self.oldest = self.oldest.min(epoch);
        self.written = now;
        self.is_ahead = false;
    }

    /// Cells that were lent as they are in `lent` were written: they are clean now, and stay if the cache `keeps`
    /// such cells. Of a cell of which only some sectors are new, the other sectors are not in hand: it is dropped.
    /// Returns how many, and what is dropped.
    pub(super) fn make_clean(&mut self, lent: &CachedCells, keeps: bool, dropped: &mut Dropped<'_>) -> usize {
        let mut count = 0;
        for (number, column) in lent.columns() {
            let Some(own) = self.cells.get_mut(number) else { continue };
            for row in column.dirty().runs().flatten() {
                let (Some((CellState::Dirty(mask), block)), Some((_, written))) =
                    (own.get(row), column.get(row))
                else {
                    continue;
                };
                // Rewritten meanwhile: the new content is still to be written.
                if !block.is_same(written) && !lives(Mutant::RewrittenMadeClean) {
                    continue;
                }
                count += 1;
                if mask == ALL_SECTORS && keeps {
                    own.make_clean(row);
                } else {
                    dropped.take(self.unit, number, (own, row));
                }
            }
        }
        count
    }

    /// Drops the cells that are as in `lent`.
    pub(super) fn drop_same(&mut self, lent: &CachedCells, dropped: &mut Dropped<'_>) -> usize {
        let mut count = 0;
        for (number, column) in lent.columns() {
            let Some(own) = self.cells.get_mut(number) else { continue };
            for row in column.dirty().runs().flatten() {
                let (Some((state, block)), Some((_, written))) = (own.get(row), column.get(row)) else {
                    continue;
                };
                if block.is_same(written) {
                    count += usize::from(state != CellState::Clean);
                    dropped.take(self.unit, number, (own, row));
                }
            }
        }
        count
    }

    /// Drops clean cells.
    pub(super) fn drop_clean(&mut self, dropped: &mut Dropped<'_>) {
        for (number, column) in self.cells.columns_mut().filter(|(_, column)| !column.clean().is_empty()) {
            dropped.take_clean(self.unit, number, column);
        }
    }

    /// As [`Slot::drop_clean`], of the cells that are dirty in `others`.
    pub(super) fn drop_clean_with(&mut self, others: &CachedCells, dropped: &mut Dropped<'_>) {
        for (number, other) in others.columns() {
            let Some(own) = self.cells.get_mut(number) else { continue };
            for row in (own.clean() & other.dirty()).runs().flatten() {
                dropped.take(self.unit, number, (own, row));
            }
        }
    }

    /// Whether there are clean cells.
    pub(super) fn has_clean(&self) -> bool {
        self.cells.columns().any(|(_, column)| !column.clean().is_empty())
    }
}
