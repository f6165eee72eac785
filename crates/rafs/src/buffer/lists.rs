//! Buffer lists (rafs III-B): list n holds entries of 2^n blocks.

use std::collections::{BTreeMap, BTreeSet};

use slab::Slab;
use stripewise_device::{SharedBuf, Timestamp};

use super::{Owner, Temperature};

/// Lists, so that a slot's number of blocks fits 32 bits.
const LISTS: usize = 32;

/// Blocks of a file that follow one another, as many as its list says.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) temperature: Temperature,
    /// The first of its blocks in the file.
    pub(super) first: u64,
    pub(super) data: SharedBuf,
    /// No later than when its oldest block was written.
    pub(super) since: Timestamp,
    /// A write-out is under way with it.
    pub(super) is_lent: bool,
}

/// Where an entry is. Its number tells it from others that were in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) list: u8,
    pub(super) at: usize,
    number: u64,
}

impl Slot {
    /// Blocks of its entry.
    pub(super) fn blocks(self) -> u64 {
        1 << self.list
    }
}

/// Where an entry is among those of a list and a temperature that may be chosen.
type Place = (Owner, u64);

#[derive(Debug, Default)]
struct List {
    entries: Slab<(u64, Entry)>,
    /// Those that are not lent, by temperature, and then by folder, file and offset.
    waiting: [BTreeMap<Place, Slot>; Temperature::COUNT],
}

/// The lists.
#[derive(Debug)]
pub(super) struct Lists {
    lists: [List; LISTS],
    /// Those that are not lent, by age.
    by_age: BTreeSet<(Timestamp, Slot)>,
    /// How many entries there ever were.
    count: u64,
}

impl Default for Lists {
    fn default() -> Self {
        Self { lists: std::array::from_fn(|_| List::default()), by_age: BTreeSet::new(), count: 0 }
    }
}

impl Lists {
    /// How many there are.
    pub(super) const COUNT: u8 = LISTS as u8;

    /// All entries of a list.
    pub(super) fn entries(&self, list: u8) -> impl Iterator<Item = &Entry> {
        self.lists[usize::from(list)].entries.iter().map(|(_, (_, entry))| entry)
    }

    /// Adds an entry, with as many blocks as list `list` has.
    pub(super) fn add(&mut self, list: u8, entry: Entry) -> Slot {
        self.count += 1;
        let number = self.count;
        let entries = &mut self.lists[usize::from(list)].entries;
        let is_lent = entry.is_lent;
        let slot = Slot { list, at: entries.insert((number, entry)), number };
        if !is_lent {
            self.wait(slot);
        }
        slot
    }

    /// The entry of a slot; none if it is gone.
    pub(super) fn get(&self, slot: Slot) -> Option<&Entry> {
        let (number, entry) = self.lists[usize::from(slot.list)].entries.get(slot.at)?;
        (*number == slot.number).then_some(entry)
    }

    /// Takes an entry out; none if it is gone.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Entry> {
        self.get(slot)?;
        self.forget(slot);
        let (_, entry) = self.lists[usize::from(slot.list)].entries.remove(slot.at);
        Some(entry)
    }

    /// Lends an entry, or takes it back. False if it is gone.
    pub(super) fn lend(&mut self, slot: Slot, is_lent: bool) -> bool {
        if self.get(slot).is_none() {
            return false;
        }
        self.forget(slot);
        self.lists[usize::from(slot.list)].entries[slot.at].1.is_lent = is_lent;
        if !is_lent {
            self.wait(slot);
        }
        true
    }

    /// The entry of a list and a temperature that goes next: the first one by folder, file and offset that does not lie before `near`, or
    /// else the first.
    pub(super) fn next(&self, list: u8, temperature: Temperature, near: Place) -> Option<Slot> {
        let waiting = self.waiting(list, temperature);
        let next = waiting.range(near..).next().or_else(|| waiting.first_key_value());
        next.map(|(_, slot)| *slot)
    }

    /// The list of the largest entries of a temperature and of up to `blocks` blocks that wait; or else of the smallest larger ones.
    pub(super) fn best_list(&self, blocks: u32, temperature: Temperature) -> Option<u8> {
        let has_some = |list: &u8| !self.waiting(*list, temperature).is_empty();
        let fits = blocks.checked_ilog2()? as u8;
        (0..=fits).rev().find(has_some).or_else(|| (fits + 1..LISTS as u8).find(has_some))
    }

    /// Whether entries of a temperature wait.
    pub(super) fn has_waiting(&self, temperature: Temperature) -> bool {
        (0..LISTS as u8).any(|list| !self.waiting(list, temperature).is_empty())
    }

    fn waiting(&self, list: u8, temperature: Temperature) -> &BTreeMap<Place, Slot> {
        &self.lists[usize::from(list)].waiting[temperature as usize]
    }

    /// Since when the oldest entry waits.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.by_age.first().map(|(since, _)| *since)
    }

    /// Where it is.
    pub(super) fn oldest_slot(&self) -> Option<Slot> {
        self.by_age.first().map(|(_, slot)| *slot)
    }

    fn wait(&mut self, slot: Slot) {
        let Some(Entry { owner, temperature, first, since, .. }) = self.get(slot) else { return };
        let (place, temperature, since) = ((*owner, *first), *temperature as usize, *since);
        self.lists[usize::from(slot.list)].waiting[temperature].insert(place, slot);
        self.by_age.insert((since, slot));
    }

    fn forget(&mut self, slot: Slot) {
        let Some(Entry { owner, temperature, first, since, .. }) = self.get(slot) else { return };
        let (place, temperature, since) = ((*owner, *first), *temperature as usize, *since);
        let waiting = &mut self.lists[usize::from(slot.list)].waiting[temperature];
        if waiting.get(&place) == Some(&slot) {
            waiting.remove(&place);
        }
        self.by_age.remove(&(since, slot));
    }
}
