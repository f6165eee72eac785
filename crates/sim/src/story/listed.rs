//! Sectors in md's bad-block log: another program has listed them, their content is useless, and the other
//! members make up for it until they are written.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{Doubt, Story, Unit};
use crate::check::{
    Checker, SECTOR_BYTES, Violation,
    layout::ROW_BYTES,
    listed::{listed_rows, log_listing},
    superblock::{Rewrite, SUPERBLOCK_BYTES},
};

/// The most members whose log lists something.
const MEMBERS_MAX: usize = 3;
/// The most entries of a log.
const ENTRIES_MAX: usize = 4;
/// The most sectors of an entry.
const SECTORS_MAX: u64 = 20;
/// The most rows with entries in a large log: 200 entries, of which a sector holds 64.
const ROWS_OF_MANY: usize = 100;
/// The content of listed sectors: no write contains it.
const USELESS: u8 = 0xb5;
/// Rounds of housekeeping after which every healable block has been healed: a large chunk takes some, read
/// block by block.
const ROUNDS_MAX: usize = 100;

impl Story {
    /// Lists sectors of members in sync, no more in a row than the level tolerates.
    pub(super) fn list_as_another(&mut self, serving: &[usize]) {
        let mut lost_in = BTreeMap::<usize, usize>::new();
        for _ in 0..self.side_rng.usize(1..=MEMBERS_MAX.min(serving.len())) {
            let unit = serving[self.side_rng.usize(..serving.len())];
            let is_dense = self.shape.block_bytes as usize == SECTOR_BYTES && self.side_rng.u8(..4) == 0;
            let extents = match is_dense {
                true => self.draw_many_extents(&mut lost_in),
                false => self.draw_extents(&mut lost_in),
            };
            self.list_sectors(unit, &extents);
        }
    }

    /// Sorted, separate sectors of a member's data, in rows of which enough is left.
    fn draw_extents(&mut self, lost_in: &mut BTreeMap<usize, usize>) -> Vec<Range<u64>> {
        let sectors = self.shape.data_bytes / SECTOR_BYTES as u64;
        let grain = u64::from(self.shape.block_bytes) / SECTOR_BYTES as u64;
        let mut rows_of_this = BTreeSet::new();
        let mut extents: Vec<Range<u64>> = Vec::new();
        for _ in 0..self.side_rng.usize(1..=ENTRIES_MAX) {
            let start = if self.side_rng.bool() { self.used_sector() } else { self.side_rng.u64(..sectors) };
            let start = start / grain * grain;
            let end = (start + self.side_rng.u64(1..=SECTORS_MAX).next_multiple_of(grain)).min(sectors);
            let row = |sector: u64| sector as usize * SECTOR_BYTES / ROW_BYTES;
            let rows = row(start)..=row(end - 1);
            let tolerance = self.shape.tolerance();
            let is_full = |row: usize| lost_in.get(&row).is_some_and(|lost| *lost >= tolerance);
            if rows.clone().any(|row| rows_of_this.contains(&row) || is_full(row)) {
                continue;
            }
            rows.clone().for_each(|row| *lost_in.entry(row).or_default() += 1);
            rows_of_this.extend(rows);
            extents.push(start..end);
        }
        extents.sort_unstable_by_key(|extent| extent.start);
        extents
    }

    /// Enough for a log of several sectors: two entries in each of some rows.
    fn draw_many_extents(&mut self, lost_in: &mut BTreeMap<usize, usize>) -> Vec<Range<u64>> {
        let row_sectors = (ROW_BYTES / SECTOR_BYTES) as u64;
        let rows = (self.shape.data_bytes / ROW_BYTES as u64) as usize;
        let first = self.side_rng.usize(..rows);
        let mut extents = Vec::new();
        for row in first..rows.min(first + ROWS_OF_MANY) {
            let lost = lost_in.entry(row).or_default();
            if *lost < self.shape.tolerance() {
                *lost += 1;
                let start = row as u64 * row_sectors;
                extents.extend([start..start + 3, start + 4..start + 7]);
            }
        }
        extents
    }

    /// A sector of the array that a member's log lists, half of the time: clients shall work there.
    pub(super) fn listed_sector(&mut self) -> Option<usize> {
        if self.units_listing().is_empty() || self.side_rng.bool() {
            return None;
        }
        let layout = self.layout();
        let in_sync = self.with_image(|image, _| image.in_sync())?;
        let is_listed = |sector: usize| {
            let place = layout.place(sector * SECTOR_BYTES);
            let listed = in_sync[place.role].map(|unit| &self.units[unit].listed);
            listed.is_some_and(|rows| rows.contains(&(place.offset_bytes / ROW_BYTES)))
        };
        let listed: Vec<usize> =
            self.blocks().into_iter().map(|block| block.start).filter(|sector| is_listed(*sector)).collect();
        (!listed.is_empty()).then(|| listed[self.side_rng.usize(..listed.len())])
    }

    pub(super) fn list_sectors(&mut self, unit: usize, extents: &[Range<u64>]) {
        let (sim, data_offset) = (self.units[unit].sim.clone(), self.units[unit].data_offset_bytes);
        let data_sector = data_offset / SECTOR_BYTES as u64;
        let on_member: Vec<_> =
            extents.iter().map(|extent| extent.start + data_sector..extent.end + data_sector).collect();
        let written = {
            let bytes = sim.bytes();
            let block = bytes[SUPERBLOCK_BYTES.start as usize..SUPERBLOCK_BYTES.end as usize].to_vec();
            log_listing(&bytes, &on_member).map(|log| (log, block))
        };
        let Some(((place, log), block)) = written.filter(|_| !extents.is_empty()) else { return };
        sim.poke(place, &log);
        sim.poke(SUPERBLOCK_BYTES.start, &Rewrite::of(block).with_bad_blocks().done());
        for sectors in &on_member {
            let len = (sectors.end - sectors.start) as usize * SECTOR_BYTES;
            let start = sectors.start * SECTOR_BYTES as u64;
            sim.poke(start, &vec![USELESS; len]);
            if self.side_rng.bool() {
                sim.punch(start..start + len as u64);
            }
        }
        self.look_at_log(unit);
        self.say(|story| {
            format!("another program lists sectors {extents:?} of {}'s data", story.units[unit].name())
        });
    }

    /// Records what a member's log lists.
    pub(super) fn look_at_log(&mut self, unit: usize) {
        let unit = &mut self.units[unit];
        unit.listed = listed_rows(&unit.sim.bytes(), unit.data_offset_bytes as usize);
    }

    /// Members whose log lists something.
    pub(super) fn units_listing(&self) -> Vec<usize> {
        (0..self.units.len()).filter(|unit| !self.units[*unit].listed.is_empty()).collect()
    }

    /// If members list bad blocks that the others make up for: half of the time, time passes after the
    /// opening without requests. Then nothing is listed any more.
    pub(super) fn leave_to_housekeeping(&mut self) -> Result<(), Violation> {
        if self.units_listing().is_empty() || self.side_rng.bool() {
            return Ok(());
        }
        let report = self.wait_for_jobs()?;
        if report.degraded() > 0 || self.losses() > 0 || !self.is_healable() {
            return Ok(());
        }
        self.say(|_| "nothing is asked, and house is kept".to_owned());
        self.expect_unlisted()
    }

    /// After housekeeping, nothing is listed any more.
    pub(super) fn expect_unlisted(&mut self) -> Result<(), Violation> {
        match self.keep_house_until(|unit| unit.listed.is_empty()) {
            None => Ok(()),
            Some(unit) => {
                let unit = &self.units[unit];
                let what =
                    format!("{} lists rows {:?} still, and nothing is in the way", unit.name(), unit.listed);
                Err(Checker::Service.violation(what))
            }
        }
    }

    /// If the only defects are blocks of members in sync, they are healed, half of the time.
    pub(super) fn heal_all(&mut self) -> Result<(), Violation> {
        let serving = self.units_by_role();
        let is_bad = serving.iter().any(|unit| self.units[*unit].bad_rows().next().is_some());
        if is_bad && self.is_healable() && self.side_rng.bool() {
            self.expect_healed()?;
        }
        Ok(())
    }

    /// Whether members in sync lack only blocks that the others make up for.
    fn is_healable(&mut self) -> bool {
        let serving = self.units_by_role();
        let is_row = |unit: &usize| self.units[*unit].doubt().is_none_or(|doubt| doubt != Doubt::Whole);
        self.shape.tolerance() > 0 && serving.iter().all(is_row)
    }

    /// After a check of everything and housekeeping, no sector is listed, and all can be read.
    fn expect_healed(&mut self) -> Result<(), Violation> {
        let report = self.run_scrub(false)?;
        let Some(unit) = self.keep_house_until(|unit| unit.bad_rows().next().is_none()) else {
            return Ok(());
        };
        let what = format!(
            "a check has looked at all, and blocks of {} in rows {:?} are not healed: {report:?}",
            self.units[unit].name(),
            self.units[unit].bad_rows().collect::<Vec<_>>()
        );
        Err(Checker::Service.violation(what))
    }

    /// Lets time pass until `is_so` holds for all members in sync. Some: one for which it does not, after a
    /// long time.
    pub(super) fn keep_house_until(&mut self, is_so: impl Fn(&Unit) -> bool) -> Option<usize> {
        let mut left = None;
        for _ in 0..ROUNDS_MAX {
            self.world.run_for(self.shape.tuning.housekeeping_interval);
            self.units_listing().into_iter().for_each(|unit| self.look_at_log(unit));
            let serving = self.units_by_role();
            left = serving.into_iter().find(|unit| !is_so(&self.units[*unit]));
            if left.is_none() {
                break;
            }
        }
        left
    }
}
