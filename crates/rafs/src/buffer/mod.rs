//! The buffer: what clients have written and is not written out (rafs III-B).
//!
//! A write is split by powers of two into entries. Each file has an index from its blocks to entries. Bytes in the buffer never
//! change: an overwrite makes another entry. So what is written out stays what its parity and its CRC were computed of.

mod lending;
mod lists;
mod told;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use stripewise_device::{SharedBuf, Timestamp};

use self::lists::{Entry, Lists, Slot};
pub use self::{
    lending::{Lent, Whole},
    told::ListCount,
};
use crate::shape::BLOCK_BYTES;

/// A file, and the folder that it was made in: what is in one folder is written out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The folder's inode.
    pub folder: u64,
    /// The file's inode.
    pub inode: u64,
}

/// How soon blocks are likely to change. Those of one temperature share stripes, so that what is left of a stripe is much or little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Temperature {
    /// A client has just written them.
    New,
    /// They had places, and have lasted there.
    Moved,
}

impl Temperature {
    const COUNT: usize = 2;
}

/// When the buffer is written out (rafs III-C).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Blocks that it holds.
    pub blocks: u64,
    /// If less of it is free, in percent: T_f.
    pub free_percent: u8,
    /// If something has waited for longer: T_t.
    pub age: Duration,
}

/// Why something is to be written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// There is little room.
    Room,
    /// Something has waited for long.
    Age,
}

/// A part of what is buffered of a file.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its first block in the file.
    pub first: u64,
    /// Whole blocks.
    pub data: SharedBuf,
}

/// What is buffered of a file: entries by their first blocks. They do not overlap.
type Index = BTreeMap<u64, Slot>;

/// The buffer.
#[derive(Debug)]
pub struct Buffer {
    settings: Settings,
    /// Blocks of a stripe, and so of a piece of a file.
    piece_blocks: u64,
    lists: Lists,
    files: BTreeMap<u64, Index>,
    blocks: u64,
    /// How much of each piece of a file is buffered, in blocks.
    pieces: BTreeMap<(u64, u64), u64>,
    /// Pieces that are buffered as a whole.
    whole: BTreeSet<(u64, u64)>,
}

impl Buffer {
    /// An empty buffer, for stripes of so many blocks.
    ///
    /// # Panics
    /// If a stripe has no block.
    #[must_use]
    pub fn new(settings: Settings, stripe_blocks: u32) -> Self {
        assert!(stripe_blocks > 0, "a stripe has blocks");
        Self {
            settings,
            piece_blocks: stripe_blocks.into(),
            lists: Lists::default(),
            files: BTreeMap::new(),
            blocks: 0,
            pieces: BTreeMap::new(),
            whole: BTreeSet::new(),
        }
    }

    /// Changes when it is written out.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Blocks in it.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Blocks that it may still take.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.settings.blocks.saturating_sub(self.blocks)
    }

    /// Whether something is to be written out, and why.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Option<Due> {
        let Settings { blocks, free_percent, age } = self.settings;
        if self.room() * 100 < blocks * u64::from(free_percent) && self.lists.oldest().is_some() {
            return Some(Due::Room);
        }
        let is_old = self.lists.oldest().is_some_and(|since| now.since(since) >= age);
        is_old.then_some(Due::Age)
    }

    /// Puts whole blocks of a file, in the place of what is buffered of these.
    ///
    /// # Panics
    /// If `data` is not made of whole blocks.
    pub fn write(
        &mut self,
        owner: Owner,
        temperature: Temperature,
        first: u64,
        data: &SharedBuf,
        now: Timestamp,
    ) {
        assert!(data.len().is_multiple_of(BLOCK_BYTES), "the buffer takes whole blocks");
        let blocks = (data.len() / BLOCK_BYTES) as u64;
        self.drop_blocks(owner.inode, first..first + blocks);
        self.add(&Entry { owner, temperature, first, data: data.clone(), since: now, is_lent: false });
    }

    /// What is buffered of some blocks of a file, in order.
    #[must_use]
    pub fn read(&self, inode: u64, blocks: Range<u64>) -> Vec<Part> {
        self.slots(inode, blocks.clone())
            .into_iter()
            .filter_map(|slot| Some((slot, self.lists.get(slot)?)))
            .map(|(slot, entry)| {
                let within = blocks.start.max(entry.first)..blocks.end.min(entry.first + slot.blocks());
                Part { first: within.start, data: slice(entry, within) }
            })
            .collect()
    }

    /// The blocks of a file among these that are not buffered.
    #[must_use]
    pub fn missing(&self, inode: u64, blocks: Range<u64>) -> Vec<Range<u64>> {
        let mut at = blocks.start;
        let mut missing = Vec::new();
        for run in self.runs(inode, blocks.start).take_while(|run| run.start < blocks.end) {
            missing.push(at..run.start);
            at = run.end;
        }
        missing.push(at..blocks.end);
        missing.retain(|run| !run.is_empty());
        missing
    }

    /// Whether something of a file is buffered.
    #[must_use]
    pub fn has(&self, inode: u64) -> bool {
        self.files.contains_key(&inode)
    }

    /// The files of which something is buffered.
    pub fn files(&self) -> impl Iterator<Item = u64> {
        self.files.keys().copied()
    }

    /// Whether something of a temperature waits.
    #[must_use]
    pub fn has_waiting(&self, temperature: Temperature) -> bool {
        self.lists.has_waiting(temperature)
    }

    /// Since when the oldest entry that is not lent waits.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.lists.oldest()
    }

    /// The file of this entry.
    #[must_use]
    pub fn oldest_file(&self) -> Option<u64> {
        self.lists.oldest_slot().and_then(|slot| self.lists.get(slot)).map(|entry| entry.owner.inode)
    }

    /// The runs of a file's blocks that are buffered, from one on, in order.
    pub fn runs(&self, inode: u64, from: u64) -> impl Iterator<Item = Range<u64>> {
        let index = self.files.get(&inode);
        let before = index.and_then(|index| index.range(..from).next_back());
        let rest = index.into_iter().flat_map(move |index| index.range(from..));
        let runs = before.into_iter().chain(rest).map(|(first, slot)| *first..*first + slot.blocks());
        runs.map(move |run| run.start.max(from)..run.end).filter(|run| !run.is_empty())
    }

    /// Forgets blocks of a file, which is truncated, punched or gone.
    pub fn drop_blocks(&mut self, inode: u64, blocks: Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        self.cut(inode, blocks.start);
        self.cut(inode, blocks.end);
        for slot in self.slots(inode, blocks) {
            self.remove(slot);
        }
    }

    /// The entries that have some of these blocks, in order.
    fn slots(&self, inode: u64, blocks: Range<u64>) -> Vec<Slot> {
        let Some(index) = self.files.get(&inode).filter(|_| !blocks.is_empty()) else { return Vec::new() };
        let before = index.range(..blocks.start).next_back();
        let before = before.filter(|(first, slot)| *first + slot.blocks() > blocks.start);
        let slots = before.into_iter().chain(index.range(blocks));
        slots.map(|(_, slot)| *slot).collect()
    }

    /// Splits the entry that has the blocks on both sides of the begin of `at`, if there is one.
    fn cut(&mut self, inode: u64, at: u64) {
        let Some(slot) = self.slots(inode, at..at.saturating_add(1)).first().copied() else { return };
        if self.lists.get(slot).is_none_or(|entry| entry.first == at) {
            return;
        }
        let Some(entry) = self.remove(slot) else { return };
        // A write-out that is under way with it is with none of its parts: these wait for another.
        let entry = Entry { is_lent: false, ..entry };
        let (first, end) = (entry.first, entry.first + slot.blocks());
        for part in [first..at, at..end] {
            self.add(&Entry { first: part.start, data: slice(&entry, part), ..entry.clone() });
        }
    }

    /// Adds blocks of which none is there, split by powers of two, the largest first.
    fn add(&mut self, all: &Entry) {
        let (mut at, end) = (all.first, all.first + (all.data.len() / BLOCK_BYTES) as u64);
        while at < end {
            let list = (end - at).ilog2() as u8;
            let blocks = at..at + (1 << list);
            let slot =
                self.lists.add(list, Entry { first: at, data: slice(all, blocks.clone()), ..all.clone() });
            self.files.entry(all.owner.inode).or_default().insert(at, slot);
            self.count(all.owner.inode, blocks.clone(), true);
            at = blocks.end;
        }
    }

    /// Takes an entry out; none if it is gone.
    fn remove(&mut self, slot: Slot) -> Option<Entry> {
        let entry = self.lists.remove(slot)?;
        let inode = entry.owner.inode;
        if let Some(index) = self.files.get_mut(&inode) {
            index.remove(&entry.first);
            if index.is_empty() {
                self.files.remove(&inode);
            }
        }
        self.count(inode, entry.first..entry.first + slot.blocks(), false);
        Some(entry)
    }

    /// Counts blocks of a file that came, or went.
    fn count(&mut self, inode: u64, blocks: Range<u64>, came: bool) {
        let of_piece = self.piece_blocks;
        let mut at = blocks.start;
        while at < blocks.end {
            let piece = (inode, at / of_piece);
            let end = blocks.end.min((piece.1 + 1) * of_piece);
            let count = self.pieces.entry(piece).or_default();
            if came {
                *count += end - at;
                self.blocks += end - at;
            } else {
                *count -= end - at;
                self.blocks -= end - at;
            }
            if *count == of_piece {
                self.whole.insert(piece);
            } else {
                self.whole.remove(&piece);
            }
            if *count == 0 {
                self.pieces.remove(&piece);
            }
            at = end;
        }
    }
}

/// The bytes of some of an entry's blocks.
fn slice(entry: &Entry, blocks: Range<u64>) -> SharedBuf {
    let byte = |block: u64| (block - entry.first) as usize * BLOCK_BYTES;
    entry.data.slice(byte(blocks.start)..byte(blocks.end))
}

#[cfg(test)]
mod tests;
