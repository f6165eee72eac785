//! Reading what is cached.

use std::ops::Range;

use smallvec::SmallVec;

use super::{Cache, READ_HITS, READ_MISSES, READ_PART_HITS};
use crate::{
    compute::cells::{ALL_SECTORS, CellState, Column, sectors},
    mutants::{Mutant, lives},
    shape::{geometry::StripeIndex, rows::BLOCK_BYTES},
};

/// What was found of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// Nothing.
    Nothing,
    /// All of it was copied.
    All,
    /// Some was copied. These bytes of the chunk are missing.
    Without(SmallVec<[Range<usize>; 4]>),
}

impl Cache {
    /// Copies what is cached of some bytes of a chunk into the same place of `into`, which holds these bytes.
    #[inline]
    pub(crate) fn read(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: Range<usize>,
        into: &mut [u8],
    ) -> Hit {
        if self.look(stripe, column, &bytes, into) {
            self.counts.add(READ_HITS, 1);
            return Hit::All;
        }
        let row = bytes.start / BLOCK_BYTES;
        let bucket = self.place_of(self.unit_of(stripe, row));
        if bytes.end <= (row + 1) * BLOCK_BYTES
            && !self.filter.may_hold(bucket, self.number_of(stripe, column, row))
        {
            self.counts.add(READ_MISSES, 1);
            return Hit::Nothing;
        }
        self.read_locked(stripe, column, bytes, into)
    }

    /// As [`Cache::read`], bucket after bucket.
    fn read_locked(&self, stripe: StripeIndex, column: usize, bytes: Range<usize>, into: &mut [u8]) -> Hit {
        let mut missing: SmallVec<[Range<usize>; 4]> = SmallVec::new();
        let rows = bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES);
        for unit in self.units(stripe, rows.clone()) {
            let first = (unit - stripe.0 * self.units_per_stripe()) as usize * self.unit_rows;
            let here = rows.start.max(first)..rows.end.min(first + self.unit_rows);
            let here_bytes = bytes.start.max(here.start * BLOCK_BYTES)..bytes.end.min(here.end * BLOCK_BYTES);
            let bucket = self.bucket(unit);
            let slot = bucket.slots.iter().find(|slot| slot.unit == unit);
            let held = slot.and_then(|slot| slot.cells.get(column));
            if rows.len() == 1 && held.is_none_or(|column| column.get(rows.start).is_none()) {
                self.renew_filter(unit, &bucket);
            }
            let Some(column) = held else {
                add(&mut missing, here_bytes);
                continue;
            };
            self.recent.note(unit);
            here.for_each(|row| copy_cell(column, row, &bytes, into, &mut missing));
        }
        let (count, hit) = match &missing[..] {
            [] => (READ_HITS, Hit::All),
            [all] if *all == bytes => (READ_MISSES, Hit::Nothing),
            _ => (READ_PART_HITS, Hit::Without(missing)),
        };
        self.counts.add(count, 1);
        hit
    }

    /// Copies what clients wrote of some rows of a chunk and members do not hold yet, over the bytes of these rows. True
    /// if that is all of them.
    pub(crate) fn read_dirty(
        &self,
        stripe: StripeIndex,
        column: usize,
        rows: Range<usize>,
        into: &mut [u8],
    ) -> bool {
        let mut is_all = true;
        for (row, into) in rows.zip(into.chunks_mut(BLOCK_BYTES)) {
            let unit = self.unit_of(stripe, row);
            let bucket = self.bucket(unit);
            let slot = bucket.slots.iter().find(|slot| slot.unit == unit);
            let cell = slot.and_then(|slot| slot.cells.get(column)).and_then(|column| column.get(row));
            let Some((CellState::Dirty(mask), block)) = cell else {
                is_all = false;
                continue;
            };
            sectors(mask).for_each(|part| into[part.clone()].copy_from_slice(&block[part]));
            is_all &= mask == ALL_SECTORS;
        }
        is_all
    }

    /// Whether anything of a chunk is cached.
    pub(crate) fn holds(&self, stripe: StripeIndex, column: usize) -> bool {
        self.all_units(stripe).any(|unit| {
            let bucket = self.bucket(unit);
            bucket.slots.iter().any(|slot| slot.unit == unit && slot.cells.get(column).is_some())
        })
    }
}

/// Copies what is cached of a row, as far as it is wanted. Adds what is missing.
fn copy_cell(
    column: &Column,
    row: usize,
    bytes: &Range<usize>,
    into: &mut [u8],
    missing: &mut SmallVec<[Range<usize>; 4]>,
) {
    let start = row * BLOCK_BYTES;
    let wanted = bytes.start.max(start)..bytes.end.min(start + BLOCK_BYTES);
    let Some((state, block)) = column.get(row) else { return add(missing, wanted) };
    let mask = match state {
        CellState::Dirty(_) if lives(Mutant::ReadPastDirty) => 0,
        CellState::Dirty(mask) if !lives(Mutant::PartReadWhole) => mask,
        CellState::Dirty(_) | CellState::Clean => ALL_SECTORS,
    };
    let mut at = wanted.start;
    for part in sectors(mask) {
        let part = (start + part.start).max(wanted.start)..(start + part.end).min(wanted.end);
        if part.is_empty() {
            continue;
        }
        add(missing, at..part.start);
        let held = &block[part.start - start..part.end - start];
        into[part.start - bytes.start..part.end - bytes.start].copy_from_slice(held);
        at = part.end;
    }
    add(missing, at..wanted.end);
}

/// Adds a range behind the others; neighbours are joined.
fn add(ranges: &mut SmallVec<[Range<usize>; 4]>, range: Range<usize>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
