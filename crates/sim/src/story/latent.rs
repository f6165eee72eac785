//! Latent errors: sectors of a member's data or metadata that cannot be read, once or until they are written.
//!
//! A member whose metadata cannot be read counts as lost. Bad blocks of data are losses of their rows:
//! several members may have some, as long as no row has more than the level tolerates.

use std::collections::{BTreeMap, BTreeSet};

use stripewise_device::{
    IoErrorKind,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::geometry::Level;

use super::Story;
use crate::check::{
    SECTOR_BYTES,
    image::{header_copies, page_slots},
    layout::ROW_BYTES,
    listed::log_in_use,
    superblock::SUPERBLOCK_BYTES,
};

/// One latent error in so many is of metadata.
const METADATA_ONE_IN: u32 = 4;

impl Story {
    /// A sector of a member cannot be read, once or until it is written.
    pub(super) fn latent_error(&mut self) {
        if self.side_rng.u32(..METADATA_ONE_IN) == 0 {
            self.bad_metadata();
        } else {
            // Mostly several members: the errors are to add up where they may not.
            for _ in 0..self.side_rng.usize(1..=2) {
                self.bad_data();
            }
        }
    }

    fn bad_data(&mut self) {
        let unit = self.any_unit();
        let sector = match self.side_rng.bool() {
            true => self.used_sector(),
            false => self.rng.u64(..self.shape.data_bytes / SECTOR_BYTES as u64),
        };
        let row = sector as usize * SECTOR_BYTES / ROW_BYTES;
        let in_row = self.units_bad_in(|bad| bad == row, unit);
        if self.lost.contains(&unit) || self.losses() + in_row >= self.shape.tolerance() {
            return;
        }
        if self.hole.contains(&row) {
            if self.shape.level != Level::Raid1 {
                // A bad block where parity may be wrong is beyond the promise.
                return;
            }
            // If mirrors may differ, another one is read here from now on, and only here.
            self.forgive_hole(|_, hole| hole == row);
        }
        let start = self.units[unit].data_offset_bytes + sector * SECTOR_BYTES as u64;
        self.units[unit].bad_sectors.push(start);
        let times = self.once_or_always();
        self.cannot_read(unit, start, times);
    }

    /// A sector of each member's data, at a place where clients work.
    pub(super) fn used_sector(&mut self) -> u64 {
        let window = &self.desk.windows[self.side_rng.usize(..self.desk.windows.len())];
        let byte = self.side_rng.usize(window.clone()) * SECTOR_BYTES;
        (self.layout().place(byte).offset_bytes / SECTOR_BYTES) as u64
    }

    /// How many members other than `beside`, and not lost, have bad blocks in one row that is meant: the
    /// worst row's count.
    fn units_bad_in(&self, is_meant: impl Fn(usize) -> bool, beside: usize) -> usize {
        let mut counts = BTreeMap::<usize, usize>::new();
        for (index, unit) in self.units.iter().enumerate() {
            if index == beside || self.lost.contains(&index) {
                continue;
            }
            let rows: BTreeSet<usize> = unit.bad_rows().filter(|row| is_meant(*row)).collect();
            rows.into_iter().for_each(|row| *counts.entry(row).or_default() += 1);
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// Members other than `unit` that count as lost somewhere.
    pub(super) fn losses_beside(&self, unit: usize) -> usize {
        self.losses() + self.units_bad_in(|_| true, unit)
    }

    fn bad_metadata(&mut self) {
        // Not with a hole: the member may be left out for it.
        if !self.hole.is_empty() {
            return;
        }
        let Some(unit) = self.victim() else { return };
        let Some(pages) = page_slots(&self.units[unit].sim.bytes()) else { return };
        let mut blocks = vec![SUPERBLOCK_BYTES];
        blocks.extend(header_copies(self.units[unit].data_offset_bytes));
        blocks.extend(pages);
        blocks.extend(log_in_use(&self.units[unit].sim.bytes()));
        let block = &blocks[self.side_rng.usize(..blocks.len())];
        let sectors = (block.end - block.start) / SECTOR_BYTES as u64;
        let start = block.start + self.side_rng.u64(..sectors) * SECTOR_BYTES as u64;
        let times = self.once_or_always();
        self.cannot_read(unit, start, times);
    }

    fn once_or_always(&mut self) -> u32 {
        if self.side_rng.bool() { 1 } else { u32::MAX }
    }

    /// The member in sync that a sector of the array is read from cannot read it until it is written. Returns
    /// the member.
    pub(super) fn lose_sector(&mut self, sector: usize) -> usize {
        let place = self.layout().place(sector * SECTOR_BYTES);
        let role = match self.shape.level {
            Level::Raid1 => self.layout().stripe_of_row(place.offset_bytes / ROW_BYTES) % self.shape.members,
            _ => place.role,
        };
        let unit = self.units_by_role()[role];
        let start = self.units[unit].data_offset_bytes + place.offset_bytes as u64;
        self.units[unit].bad_sectors.push(start);
        self.cannot_read(unit, start, u32::MAX);
        unit
    }

    /// A sector of a member fails so many reads, or fails until it is written.
    pub(super) fn cannot_read(&mut self, unit: usize, start: u64, times: u32) {
        self.units[unit].faults.add(FaultRule {
            operation: Operation::Read,
            range_bytes: start..start + SECTOR_BYTES as u64,
            kind: IoErrorKind::Medium,
            times,
            healed_by_write: true,
        });
        self.say(|story| {
            let until = if times == 1 { "once" } else { "until it is written" };
            format!("{} cannot read the sector at byte {start}, {until}", story.units[unit].name())
        });
    }
}
