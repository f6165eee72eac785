//! Writes past the cache that replace what it holds: of whole stripes, of whole rows, and of blocks.
//!
//! Dirty cells that such a write finds are older than it. They stay until it has succeeded, and go then: a destage would
//! write their older content over the newer. What becomes dirty meanwhile is another block, and stays.

use std::sync::Arc;

use super::{
    Cache, Dropped, Ending, PASSED, PASSED_BYTES, WHOLE_BYTES,
    destage::Of,
    slot::{NEVER, Slot},
};
use crate::{
    compute::CachedCells,
    mutants::{Mutant, lives},
    shape::{geometry::StripeIndex, rows::RowSet},
};

/// The cells that a write past the cache replaces.
#[derive(Debug)]
pub(super) enum Replaced {
    /// All of the stripe.
    Stripe,
    /// Those that are dirty here: what is written.
    Cells(Arc<CachedCells>),
}

impl Replaced {
    /// Lends what is dirty of them in a slot.
    fn lend_dirty(&self, slot: &Slot) -> CachedCells {
        match self {
            Self::Stripe => slot.cells.lend(slot.cells.dirty_rows()),
            Self::Cells(cells) => slot.cells.lend_dirty_with(cells),
        }
    }

    /// Drops those of a slot that are clean.
    fn drop_clean(&self, slot: &mut Slot, dropped: &mut Dropped<'_>) {
        if lives(Mutant::PassedStaysClean) {
            return;
        }
        match self {
            Self::Stripe => slot.drop_clean(dropped),
            Self::Cells(cells) => slot.drop_clean_with(cells, dropped),
        }
    }
}

impl Cache {
    /// A write of a whole stripe begins to pass the cache by. What is dirty stays until the end, and what is clean
    /// is dropped.
    pub(crate) fn begin_pass(self: &Arc<Self>, stripe: StripeIndex) -> Box<Ending> {
        self.begin_replacing(stripe, Replaced::Stripe)
    }

    /// As [`Cache::begin_pass`], for a write of these blocks of a client, which may be whole rows.
    pub(crate) fn begin_pass_of(
        self: &Arc<Self>,
        stripe: StripeIndex,
        cells: Arc<CachedCells>,
        are_rows: bool,
    ) -> Box<Ending> {
        let len_bytes = cells.new_bytes();
        match are_rows {
            true => self.counts.add(WHOLE_BYTES, len_bytes),
            false => self.counts.add_each([(PASSED, 1), (PASSED_BYTES, len_bytes)]),
        }
        self.begin_replacing(stripe, Replaced::Cells(cells))
    }

    fn begin_replacing(self: &Arc<Self>, stripe: StripeIndex, over: Replaced) -> Box<Ending> {
        let (mut dropped, mut lent) = (Dropped::of(self), CachedCells::default());
        for unit in self.units_replaced(stripe, &over) {
            let mut bucket = self.bucket(unit);
            bucket.passing.push(stripe.0);
            let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) else { continue };
            over.drop_clean(slot, &mut dropped);
            lent.absorb(over.lend_dirty(slot));
            self.forget_empty(&mut bucket);
        }
        Box::new(self.ending(stripe, Arc::new(lent), Of::Pass(over)))
    }

    /// A write has passed the cache by.
    pub(super) fn passed(
        &self,
        stripe: StripeIndex,
        over: &Replaced,
        before: &CachedCells,
        has_succeeded: bool,
    ) {
        let (mut dropped, mut went) = (Dropped::of(self), 0);
        let stays = match over {
            Replaced::Stripe => lives(Mutant::PassedStaysDirty),
            Replaced::Cells(_) => lives(Mutant::RowsLeaveDirty),
        };
        for unit in self.units_replaced(stripe, over) {
            let mut bucket = self.bucket(unit);
            if let Some(at) = bucket.passing.iter().position(|passing| *passing == stripe.0) {
                bucket.passing.swap_remove(at);
            }
            let Some(slot) = bucket.slots.iter_mut().find(|slot| slot.unit == unit) else { continue };
            over.drop_clean(slot, &mut dropped);
            if has_succeeded && !stays {
                went += slot.drop_same(before, &mut dropped);
            }
            if slot.cells.dirty_rows().is_empty() {
                slot.oldest = NEVER;
            }
            self.forget_empty(&mut bucket);
        }
        self.dirty.add(1, went as u64);
        if self.is_over() {
            self.note_fill();
        }
    }

    /// The units of a stripe that such cells lie in.
    fn units_replaced(&self, stripe: StripeIndex, over: &Replaced) -> impl Iterator<Item = u64> + use<> {
        let rows = match over {
            Replaced::Stripe => RowSet::ALL,
            Replaced::Cells(cells) => cells.dirty_rows(),
        };
        self.units_with(stripe, rows)
    }
}
