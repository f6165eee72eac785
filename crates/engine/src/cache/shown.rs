//! Blocks that readers find without a lock, and which cells were read lately.
//!
//! A cell of which all is in hand is [shown](stripewise_device::frames::Frames::show) by the store of frames. It is hidden
//! while it is changed, and before its block is dropped. The lock is that of its bucket.

use std::ops::Range;

use stripewise_device::{
    Block,
    sync::seam::atomic::{AtomicBool, Ordering},
};

use super::Cache;
use crate::{
    compute::cells::Column,
    mutants::{Mutant, lives},
    shape::{geometry::StripeIndex, rows::BLOCK_BYTES},
};

/// Blocks that leave the cache. They are hidden at once, and dropped with this: after the lock, if this is older.
pub(super) struct Dropped<'a> {
    cache: &'a Cache,
    blocks: Vec<Block>,
}

impl<'a> Dropped<'a> {
    /// Of this cache.
    pub(super) fn of(cache: &'a Cache) -> Self {
        Self { cache, blocks: Vec::new() }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Takes a cell's block out of its column.
    pub(super) fn take(&mut self, unit: u64, number: usize, (column, row): (&mut Column, usize)) {
        self.hide(unit, number, row);
        self.blocks.extend(column.take(row));
    }

    /// Takes the blocks of clean cells out of a column.
    pub(super) fn take_clean(&mut self, unit: u64, number: usize, column: &mut Column) {
        column.clean().runs().flatten().for_each(|row| self.hide(unit, number, row));
        column.drop_clean(&mut self.blocks);
    }

    fn hide(&self, unit: u64, column: usize, row: usize) {
        if !lives(Mutant::DroppedStaysShown) {
            self.cache.frames.hide(self.cache.number_of(self.cache.stripe_of(unit), column, row));
        }
    }
}

impl Cache {
    /// The number under which a cell is shown.
    #[inline]
    pub(super) fn number_of(&self, stripe: StripeIndex, column: usize, row: usize) -> u64 {
        (stripe.0 * self.data_columns as u64 + column as u64) * self.stripe_rows as u64 + row as u64
    }

    /// Shows a cell, or hides it if not all of it is in hand. The caller holds its bucket.
    #[inline]
    pub(super) fn show(&self, number: u64, column: &Column, row: usize) {
        match column.get(row).filter(|_| column.is_whole(row)) {
            Some((_, block)) => self.frames.show(number, block),
            None => self.frames.hide(number),
        }
    }

    /// Copies bytes of a chunk, if they lie in one block that is shown.
    #[inline]
    pub(super) fn look(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: &Range<usize>,
        into: &mut [u8],
    ) -> bool {
        let (row, at) = (bytes.start / BLOCK_BYTES, bytes.start % BLOCK_BYTES);
        if at + bytes.len() > BLOCK_BYTES || lives(Mutant::ReadPastDirty) {
            return false;
        }
        let is_found = self.frames.look(self.number_of(stripe, column, row), at, into);
        if is_found {
            self.recent.note(self.unit_of(stripe, row));
        }
        is_found
    }
}

/// Which units were read since eviction last looked at them, about: units may share a mark.
pub(super) struct Recent(Box<[AtomicBool]>);

impl Recent {
    /// Of so many marks, which are a power of two.
    pub(super) fn new(marks: usize) -> Self {
        Self((0..marks).map(|_| AtomicBool::new(false)).collect())
    }

    #[inline]
    fn mark(&self, unit: u64) -> &AtomicBool {
        &self.0[super::hash(unit) & (self.0.len() - 1)]
    }

    /// A unit was read.
    #[inline]
    pub(super) fn note(&self, unit: u64) {
        let mark = self.mark(unit);
        if !mark.load(Ordering::Relaxed) {
            mark.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a unit was read since this was asked last.
    pub(super) fn take(&self, unit: u64) -> bool {
        self.mark(unit).swap(false, Ordering::Relaxed)
    }
}
