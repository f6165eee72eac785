//! What is written out next, and what becomes of it.

use std::ops::{Range, RangeBounds};

use stripewise_device::{SharedBuf, Timestamp};

use super::{
    Buffer, Owner, Temperature,
    lists::{Entry, Slot},
    slice,
};

/// Blocks of a file that are being written out. They stay in the buffer until they are [written](Buffer::written).
#[derive(Debug, Clone)]
pub struct Lent {
    /// The file.
    pub owner: Owner,
    /// The first of them in the file.
    pub first: u64,
    /// Their bytes, which do not change.
    pub data: SharedBuf,
    slot: Slot,
}

impl Lent {
    /// How many blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.slot.blocks()
    }
}

/// A stripe's worth of a file.
#[derive(Debug)]
pub struct Whole {
    /// Which one: its first block is this times the blocks of a stripe.
    pub piece: u64,
    /// All of its blocks, in order.
    pub parts: Vec<Lent>,
}

impl Buffer {
    /// Lends a piece of a file that is buffered as a whole, if there is one of which nothing is lent.
    pub fn lend_whole(&mut self) -> Option<Whole> {
        self.lend_whole_in(.., |_| true)
    }

    /// As [`Buffer::lend_whole`], of one file, and only a piece of which something has waited since `until` or longer.
    pub fn lend_whole_of(&mut self, inode: u64, until: Timestamp) -> Option<Whole> {
        self.lend_whole_in((inode, 0)..=(inode, u64::MAX), |entry| entry.since <= until)
    }

    fn lend_whole_in(
        &mut self,
        range: impl RangeBounds<(u64, u64)>,
        is_due: impl Fn(&Entry) -> bool,
    ) -> Option<Whole> {
        let is_free = |(inode, piece): &&(u64, u64)| self.is_free(*inode, self.blocks_of(*piece), &is_due);
        let (inode, piece) = *self.whole.range(range).find(is_free)?;
        Some(Whole { piece, parts: self.lend(inode, self.blocks_of(piece)) })
    }

    /// Whether some blocks of a file are buffered of which nothing is lent, and some have waited since `until` or longer.
    #[must_use]
    pub fn is_due(&self, inode: u64, blocks: Range<u64>, until: Timestamp) -> bool {
        self.is_free(inode, blocks, &|entry| entry.since <= until)
    }

    /// Whether nothing of some blocks is lent, and some of them are due.
    fn is_free(&self, inode: u64, blocks: Range<u64>, is_due: &impl Fn(&Entry) -> bool) -> bool {
        let slots = self.slots(inode, blocks);
        let entries: Option<Vec<&Entry>> = slots.into_iter().map(|slot| self.lists.get(slot)).collect();
        entries.is_some_and(|all| {
            all.iter().all(|entry| !entry.is_lent) && all.iter().any(|entry| is_due(entry))
        })
    }

    /// Lends what is buffered of some blocks of a file, but for what is lent already.
    pub fn lend(&mut self, inode: u64, blocks: Range<u64>) -> Vec<Lent> {
        for at in [blocks.start, blocks.end] {
            let is_lent = |slot: &Slot| self.lists.get(*slot).is_some_and(|entry| entry.is_lent);
            if !self.slots(inode, at..at.saturating_add(1)).iter().any(is_lent) {
                self.cut(inode, at);
            }
        }
        let slots = self.slots(inode, blocks);
        slots.into_iter().filter_map(|slot| self.lend_slot(slot)).collect()
    }

    /// Lends entries of a temperature, as much as fits `room` blocks: the largest ones that fit, of several the next one by folder, file
    /// and offset from `near` on. If all are larger, one is split.
    pub fn fill(&mut self, room: u32, temperature: Temperature, near: Owner) -> Vec<Lent> {
        let (mut lent, mut left, mut place) = (Vec::new(), room, (near, 0));
        while let Some(list) = self.lists.best_list(left, temperature) {
            let Some(slot) = self.lists.next(list, temperature, place) else { break };
            let Some((owner, first)) = self.lists.get(slot).map(|entry| (entry.owner, entry.first)) else {
                break;
            };
            let fits = 1 << left.ilog2();
            if slot.blocks() > fits {
                self.cut(owner.inode, first + fits);
                continue;
            }
            let Some(one) = self.lend_slot(slot) else { break };
            left -= one.blocks() as u32;
            place = (owner, first);
            lent.push(one);
        }
        lent
    }

    /// Lends what has waited for longest, up to `room` blocks. An entry that does not fit is split.
    pub fn fill_oldest(&mut self, room: u32) -> Vec<Lent> {
        let (mut lent, mut left) = (Vec::new(), u64::from(room));
        while left > 0
            && let Some(slot) = self.lists.oldest_slot()
            && let Some((inode, first)) = self.lists.get(slot).map(|entry| (entry.owner.inode, entry.first))
        {
            if slot.blocks() > left {
                self.cut(inode, first + left);
                continue;
            }
            let Some(one) = self.lend_slot(slot) else { break };
            left -= one.blocks();
            lent.push(one);
        }
        lent
    }

    /// Lends the first entries of a file that are not lent and have waited since `until` or longer, as many as fit `room` blocks.
    pub fn fill_of(&mut self, inode: u64, room: u32, until: Timestamp) -> Vec<Lent> {
        let (mut lent, mut left) = (Vec::new(), u64::from(room));
        // Each has a block or more.
        let due: Vec<Range<u64>> = self.due_of(inode, until).take(room as usize).collect();
        for run in due {
            if left == 0 {
                break;
            }
            let parts = self.lend(inode, run.start..run.end.min(run.start + left));
            left -= parts.iter().map(Lent::blocks).sum::<u64>();
            lent.extend(parts);
        }
        lent
    }

    /// Whether something of a file is not lent, and has waited since `until` or longer.
    #[must_use]
    pub fn has_due(&self, inode: u64, until: Timestamp) -> bool {
        self.due_of(inode, until).next().is_some()
    }

    /// The blocks of a file's entries that are not lent, and have waited since `until` or longer.
    fn due_of(&self, inode: u64, until: Timestamp) -> impl Iterator<Item = Range<u64>> {
        let slots = self.files.get(&inode).into_iter().flatten();
        let is_due = move |entry: &&Entry| !entry.is_lent && entry.since <= until;
        slots.filter_map(move |(first, slot)| {
            self.lists.get(*slot).filter(is_due)?;
            Some(*first..*first + slot.blocks())
        })
    }

    /// Whether what was lent is still what the file has.
    #[must_use]
    pub fn is_current(&self, lent: &Lent) -> bool {
        self.lists.get(lent.slot).is_some()
    }

    /// It was written out. Returns whether it is still what the file has; else it was overwritten meanwhile, at least in part.
    pub fn written(&mut self, lent: &Lent) -> bool {
        self.remove(lent.slot).is_some()
    }

    /// It was not written out, and waits again.
    pub fn failed(&mut self, lent: &Lent) {
        self.lists.lend(lent.slot, false);
    }

    fn blocks_of(&self, piece: u64) -> Range<u64> {
        piece * self.piece_blocks..(piece + 1) * self.piece_blocks
    }

    fn lend_slot(&mut self, slot: Slot) -> Option<Lent> {
        let entry = self.lists.get(slot).filter(|entry| !entry.is_lent)?;
        let blocks = entry.first..entry.first + slot.blocks();
        let lent = Lent { owner: entry.owner, first: entry.first, data: slice(entry, blocks), slot };
        self.lists.lend(slot, true);
        Some(lent)
    }
}
