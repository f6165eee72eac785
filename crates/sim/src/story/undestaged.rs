//! A row that no member can read for a while, in an array with a cache. What clients write there cannot be destaged,
//! since parity would have to be computed from what cannot be read. It stays in the cache and can be read, and nothing
//! is said to be durable, until the row can be read again or is written as a whole.

use std::ops::Range;

use stripewise_device::WriteFlags;
use stripewise_engine::ArrayError;

use super::{Story, caching::BLOCK_SECTORS};
use crate::check::{Checker, SECTOR_BYTES, Violation};

/// One calm time in so many of an array with a cache has such a row.
const ONE_IN: u8 = 6;
/// The most requests that must fail meanwhile. The second one shows whether the first has forgotten what it could not
/// write.
const FAILURES_MAX: usize = 4;

impl Story {
    /// Now and then, a part of a row is written that cannot be destaged for a while.
    pub(super) fn keep_what_cannot_be_destaged(&mut self) -> Result<(), Violation> {
        // A write of the only column reads nothing.
        let is_alone = self.shape.data_columns() == 1;
        if self.array().cache().is_none() || is_alone || self.cache_rng.u8(..ONE_IN) != 0 {
            return Ok(());
        }
        let blocks = self.row_of_blocks();
        let Some(written) = self.any_part_of(&blocks) else { return Ok(()) };
        self.flush_all()?;
        self.lose_row_of(written.start);
        if !self.write_in_row(&written)? {
            return self.end_without();
        }
        for _ in 0..self.cache_rng.usize(2..=FAILURES_MAX) {
            self.expect_not_durable(&written)?;
            self.check_sectors(&written)?;
        }
        if blocks.len() == self.shape.data_columns() && self.cache_rng.bool() {
            self.say(|_| "the row is written as a whole".to_owned());
            for block in blocks {
                if !self.write_in_row(&(block..block + BLOCK_SECTORS))? {
                    return self.end_without();
                }
            }
        } else {
            self.say(|_| "the row can be read again".to_owned());
            self.units.iter().for_each(|unit| unit.faults.clear());
        }
        self.flush_all()?;
        self.units.iter().for_each(|unit| unit.faults.clear());
        // Anew, since the cache holds the row still: what is tried next reads members.
        if self.cache_rng.bool() {
            self.lose_power()?;
        } else {
            self.stop()?;
        }
        self.open_plainly()?;
        self.expect_whole("what could not be destaged for a while was flushed")
    }

    /// One of some blocks, or a part of it.
    fn any_part_of(&mut self, blocks: &[usize]) -> Option<Range<usize>> {
        let grain = self.array().geometry().logical_block_bytes() as usize / SECTOR_BYTES;
        let block = *blocks.get(self.cache_rng.usize(..blocks.len().max(1)))?;
        let first = block + self.cache_rng.usize(..BLOCK_SECTORS / grain) * grain;
        Some(if self.cache_rng.bool() { block..block + BLOCK_SECTORS } else { first..first + grain })
    }

    /// No member can read its block in a row until it is written.
    fn lose_row_of(&mut self, sector: usize) {
        let place = self.layout().place(sector / BLOCK_SECTORS * BLOCK_SECTORS * SECTOR_BYTES);
        for unit in self.units_by_role() {
            self.lose_block_of(unit, place.offset_bytes);
        }
    }

    /// Writes to the row. False: the write passed the cache by, and failed as it would without one.
    fn write_in_row(&mut self, sectors: &Range<usize>) -> Result<bool, Violation> {
        let passed = |story: &Self| story.array().cache().map_or(0, |cache| cache.passed);
        let before = passed(self);
        match self.try_write(sectors)? {
            Ok(()) => Ok(true),
            Err(ArrayError::Unreadable { .. }) if passed(self) > before => Ok(false),
            Err(error) => {
                let what = format!("a write to a row that cannot be destaged: {error}");
                Err(Checker::Service.violation(what))
            }
        }
    }

    fn end_without(&mut self) -> Result<(), Violation> {
        self.say(|_| "the write passed the cache by".to_owned());
        self.units.iter().for_each(|unit| unit.faults.clear());
        self.flush_all()
    }

    /// A flush fails, and so does a stop, which leaves the array open, and a durable write of the same sectors.
    fn expect_not_durable(&mut self, sectors: &Range<usize>) -> Result<(), Violation> {
        let array = self.array().clone();
        let (what, result) = match self.cache_rng.u8(..4) {
            0 => ("a stop", self.finish(async move { array.stop().await }, "stopping")?),
            1 => ("a durable write", self.try_write_as(sectors, WriteFlags { fua: true })?),
            _ => ("a flush", self.finish(async move { array.flush().await }, "a flush")?),
        };
        match result {
            Err(ArrayError::Unreadable { .. }) if what != "a stop" => Ok(()),
            Err(ArrayError::Unwritten { why, .. }) if matches!(*why, ArrayError::Unreadable { .. }) => Ok(()),
            other => {
                let what = format!("{what}, while {sectors:?} cannot be destaged: {other:?}");
                Err(Checker::Service.violation(what))
            }
        }
    }
}
