//! The flash translation layer: which unit of the host's lies in which unit of flash.
//!
//! Page-mapped, with a mapping grain of 4 KiB. Four bytes for each unit in either direction; both tables are
//! zeroed memory that the operating system hands out as it is touched, so a drive of 1 TB costs what is used
//! of it. Each die is written and collected by itself, with one write point for the host and one for
//! collection.

use super::{blocks::Blocks, params::SsdParams};

/// Free blocks at which a die begins to collect: one for the host's write point, one for collection's.
const COLLECT_BELOW: usize = 3;

/// Where writes go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// The host's data.
    Host,
    /// Data moved by collection.
    Collection,
}

/// A place of one unit in flash, numbered through blocks and dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// The mapping and the state of all blocks.
pub(super) struct Ftl {
    /// By unit: its slot + 1, or 0.
    slots: Vec<u32>,
    /// By slot: the valid unit in it + 1, or 0.
    units: Vec<u32>,
    dies: Vec<Blocks>,
    /// The blocks being written, by die and point: block and units written.
    points: Vec<[Option<(u32, u32)>; 2]>,
    units_per_block: u32,
    units_per_die: u32,
    page_units: u32,
    program_units: u32,
    valid_units_max: u32,
}

impl Ftl {
    pub(super) fn new(params: &SsdParams) -> Self {
        let blocks = || Blocks::new(params.blocks_per_die, params.units_per_block());
        Self {
            slots: vec![0; params.user_units() as usize],
            units: vec![0; params.raw_units() as usize],
            dies: (0..params.dies()).map(|_| blocks()).collect(),
            points: vec![[None; 2]; params.dies() as usize],
            units_per_block: params.units_per_block(),
            units_per_die: params.units_per_die(),
            page_units: params.page_units,
            program_units: params.program_units(),
            valid_units_max: params.valid_units_max(),
        }
    }

    /// Where a unit lies, if it was ever written.
    pub(super) fn find(&self, unit: u32) -> Option<Slot> {
        self.slots[unit as usize].checked_sub(1).map(Slot)
    }

    pub(super) fn die_of(&self, slot: Slot) -> u32 {
        slot.0 / self.units_per_die
    }

    /// Slots with the same number are sensed together.
    pub(super) fn page_of(&self, slot: Slot) -> u32 {
        slot.0 / self.page_units
    }

    /// Whether a program of the host's data may go to a die: the last free block is collection's.
    pub(super) fn takes_host_data(&self, die: u32) -> bool {
        let blocks = &self.dies[die as usize];
        let has_room = self.points[die as usize][Point::Host as usize].is_some() || blocks.free_count() > 1;
        has_room && blocks.valid_units() + self.program_units <= self.valid_units_max
    }

    /// Whether a die should collect.
    pub(super) fn wants_collection(&self, die: u32) -> bool {
        self.dies[die as usize].free_count() < COLLECT_BELOW
    }

    /// The block to be collected next, if any has something to give.
    pub(super) fn take_victim(&mut self, die: u32) -> Option<u32> {
        self.dies[die as usize].take_victim(self.units_per_block)
    }

    /// The first page of a block, from a page on, that has valid units; they are appended with their slots.
    pub(super) fn valid_page(
        &self,
        die: u32,
        block: u32,
        from_page: u32,
        into: &mut Vec<(u32, Slot)>,
    ) -> Option<u32> {
        if self.dies[die as usize].valid(block) == 0 {
            return None;
        }
        let base = self.slot(die, block, 0).0;
        let first = (base + from_page * self.page_units) as usize;
        let rest = &self.units[first..(base + self.units_per_block) as usize];
        let at = first + rest.iter().position(|unit| *unit != 0)?;
        let page = (at as u32 - base) / self.page_units;
        let page_end = (base + (page + 1) * self.page_units) as usize;
        let valid = (at..page_end).filter(|slot| self.units[*slot] != 0);
        into.extend(valid.map(|slot| (self.units[slot] - 1, Slot(slot as u32))));
        Some(page)
    }

    fn slot(&self, die: u32, block: u32, index: u32) -> Slot {
        Slot(die * self.units_per_die + block * self.units_per_block + index)
    }

    /// Programs units at a write point, all that are programmed together; what is missing is padded.
    pub(super) fn program(&mut self, die: u32, point: Point, units: &[u32]) {
        debug_assert!(!units.is_empty() && units.len() <= self.program_units as usize);
        let (block, written) =
            self.points[die as usize][point as usize].unwrap_or_else(|| (self.dies[die as usize].open(), 0));
        for (index, unit) in units.iter().enumerate() {
            let slot = self.slot(die, block, written + index as u32);
            self.forget(*unit);
            self.slots[*unit as usize] = slot.0 + 1;
            self.units[slot.0 as usize] = unit + 1;
            self.dies[die as usize].add_valid(block);
        }
        let written = written + self.program_units;
        let full = written == self.units_per_block;
        if full {
            self.dies[die as usize].close(block);
        }
        self.points[die as usize][point as usize] = (!full).then_some((block, written));
    }

    /// A unit's content is no longer needed. Returns whether there was any.
    pub(super) fn forget(&mut self, unit: u32) -> bool {
        let Some(Slot(slot)) = std::mem::take(&mut self.slots[unit as usize]).checked_sub(1).map(Slot) else {
            return false;
        };
        self.units[slot as usize] = 0;
        let (die, block) = (slot / self.units_per_die, slot % self.units_per_die / self.units_per_block);
        self.dies[die as usize].drop_valid(block);
        true
    }

    /// A collected block is erased.
    pub(super) fn erase(&mut self, die: u32, block: u32) {
        self.dies[die as usize].erase(block);
    }

    /// Erases of the least and the most worn block, and of all.
    pub(super) fn wear(&self) -> (u32, u32, u64) {
        let all = || self.dies.iter().flat_map(|blocks| blocks.erases().iter().copied());
        (all().min().unwrap_or(0), all().max().unwrap_or(0), all().map(u64::from).sum())
    }

    /// Units that hold data.
    #[cfg(test)]
    pub(super) fn valid_units(&self) -> u32 {
        self.dies.iter().map(Blocks::valid_units).sum()
    }

    /// That the mapping is one to one and every counter right.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (unit, slot) in self.slots.iter().enumerate().filter(|(_, slot)| **slot != 0) {
            assert_eq!(self.units[*slot as usize - 1], unit as u32 + 1, "unit {unit}");
        }
        let mapped = self.slots.iter().filter(|slot| **slot != 0).count();
        assert_eq!(mapped, self.units.iter().filter(|unit| **unit != 0).count());
        assert_eq!(mapped, self.valid_units() as usize);
        for (index, units) in self.units.chunks(self.units_per_block as usize).enumerate() {
            let (die, block) = (index as u32 * self.units_per_block / self.units_per_die, index as u32);
            let block = block % (self.units_per_die / self.units_per_block);
            let valid = units.iter().filter(|unit| **unit != 0).count();
            assert_eq!(valid, usize::from(self.dies[die as usize].valid(block)), "die {die} block {block}");
        }
    }
}
