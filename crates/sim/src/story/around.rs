//! Writes around unreadable blocks: bad blocks of several members, each in a row of its own, and a bad block
//! beside a missing member. Redundancy makes up for each row, so the writes succeed.

use std::ops::Range;

use stripewise_engine::ArrayError;

use super::Story;
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// Writes while a member is missing, each around a bad block.
const DEGRADED_WRITES: usize = 8;

impl Story {
    /// Neighbouring rows of a stripe have a bad block each, on different members, one more than a row may
    /// lose: a write across them succeeds.
    pub(super) fn write_across_bad_blocks(&mut self) -> Result<(), Violation> {
        let (count, layout) = (self.shape.tolerance() + 1, self.layout());
        let block = self.any_block();
        let place = layout.place(block.start * SECTOR_BYTES);
        let rows_left = (layout.chunk_bytes - place.offset_bytes % layout.chunk_bytes) / ROW_BYTES;
        let row = ROW_BYTES / SECTOR_BYTES;
        let are_used = (0..count).all(|next| self.is_whole_block(block.start + next * row));
        if !self.shape.level.has_parity() || rows_left < count || !are_used {
            return Ok(());
        }
        let mut serving = self.units_by_role();
        self.side_rng.shuffle(&mut serving);
        for (next, unit) in serving[..count].iter().enumerate() {
            self.lose_block_of(*unit, place.offset_bytes + next * ROW_BYTES);
        }
        let written = self.across(&(block.start..block.start + count * row));
        self.try_write(&written)?.map_err(|error| {
            let what = format!("a write of {written:?} across bad blocks of {count} members: {error}");
            Checker::Service.violation(what)
        })?;
        self.check_sectors(&(block.start..block.start + count * row))?;
        serving[..count].iter().for_each(|unit| self.units[*unit].faults.clear());
        self.expect_whole("a write lay across bad blocks of several members")
    }

    /// Sectors from somewhere in the first of these rows to somewhere in the last one.
    fn across(&mut self, rows: &Range<usize>) -> Range<usize> {
        let grain = self.array().geometry().logical_block_bytes() as usize / SECTOR_BYTES;
        let row = ROW_BYTES / SECTOR_BYTES;
        let start = rows.start + self.side_rng.usize(..row / grain) * grain;
        start..rows.end - self.side_rng.usize(..row / grain) * grain
    }

    /// With a member missing, writes blocks in rows where another member cannot read its own block: of data,
    /// or of the remaining parity.
    pub(super) fn write_around_while_degraded(&mut self) -> Result<(), Violation> {
        if !self.shape.level.has_parity() || self.shape.tolerance() < 2 {
            return Ok(());
        }
        // A waiting spare must not take the role.
        self.array().pause_jobs();
        let serving = self.units_by_role();
        let missing = self.side_rng.usize(..serving.len());
        self.fail_calmly(serving[missing])?;
        for _ in 0..DEGRADED_WRITES {
            let (block, other) = if self.side_rng.bool() {
                // Where one parity is missing, the other cannot be read.
                (self.block_with_parity_on(missing), 1)
            } else {
                (self.any_block(), self.side_rng.usize(1..serving.len()))
            };
            self.write_around(block, serving[(missing + other) % serving.len()])?;
        }
        self.add_again(serving[missing])?;
        self.array().resume_jobs();
        self.expect_whole("blocks were written around bad ones while a member was missing")
    }

    /// A block of a stripe whose first parity is on this role, if there is one.
    fn block_with_parity_on(&mut self, role: usize) -> Range<usize> {
        let layout = self.layout();
        let stripe = |block: &Range<usize>| block.start * SECTOR_BYTES / layout.stripe_bytes();
        let is_meant = |block: &Range<usize>| layout.parity_role(stripe(block)) == role;
        let blocks: Vec<_> = self.blocks().into_iter().filter(is_meant).collect();
        if blocks.is_empty() { self.any_block() } else { blocks[self.side_rng.usize(..blocks.len())].clone() }
    }

    /// Writes a block in whose row a member cannot read its own.
    fn write_around(&mut self, block: Range<usize>, unit: usize) -> Result<(), Violation> {
        let place = self.layout().place(block.start * SECTOR_BYTES);
        self.lose_block_of(unit, place.offset_bytes / ROW_BYTES * ROW_BYTES);
        let written = if self.side_rng.bool() { self.across(&block) } else { block.clone() };
        let refused = |error: ArrayError| {
            Checker::Service
                .violation(format!("a write while a member is missing and a block is bad: {error}"))
        };
        self.try_write(&written)?.map_err(refused)?;
        self.check_sectors(&block)?;
        self.units[unit].faults.clear();
        Ok(())
    }

    /// A member cannot read a block of its data until it is written.
    pub(super) fn lose_block_of(&mut self, unit: usize, offset_bytes: usize) {
        let start = self.units[unit].data_offset_bytes + offset_bytes as u64;
        self.units[unit].bad_sectors.push(start);
        self.cannot_read(unit, start, u32::MAX);
    }
}
