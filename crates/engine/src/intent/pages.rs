//! The bitmap's pages, as stored on the members that hold copies.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError, WriteFlags};
use stripewise_format::bitmap::{Page, REGIONS_PER_PAGE, Slot, pages_for_regions, slot_offset_bytes};
use uuid::Uuid;

use crate::{
    members::member::Member,
    metadata::ledger::write_durably,
    mutants::{Mutant, lives},
};

/// A member that holds copies of the pages, and where.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) member: Arc<Member>,
    pub(crate) bitmap_offset_bytes: u64,
}

/// More generations than the newest copy of a page can be ahead of the readable copies by page writes alone. It gets
/// ahead while a member holds no copies.
const UNREAD_GENERATIONS: u64 = 1 << 40;
/// More page writes than there are between two events of the array.
const GENERATIONS_PER_EVENT: u64 = 1 << 32;
/// More events than an array has in its life. With these, generations still fit.
const EVENTS_MAX: u64 = 1 << 31;

/// What is known of the pages on disk. It changes only under the surrounding lock.
pub(crate) struct Pages {
    pages: Vec<Page>,
    /// Where each member's newest copy of each page lies, by device number.
    newest: BTreeMap<u32, Vec<Slot>>,
    /// Whether the superblocks say that the array may disagree.
    pub(crate) marked_dirty: bool,
}

impl Pages {
    pub(crate) fn new(array_uuid: Uuid, regions: usize, marked_dirty: bool) -> Self {
        let pages =
            (0..pages_for_regions(regions as u64)).map(|index| Page::new(array_uuid, index as u32)).collect();
        Self { pages, newest: BTreeMap::new(), marked_dirty }
    }

    pub(crate) fn count(&self) -> usize {
        self.pages.len()
    }

    /// Takes over a page found on a member when the array was opened. The newest generation counts, because
    /// members that no longer hold copies keep old ones.
    pub(crate) fn load(&mut self, dev_number: u32, page: &Page, slot: Slot) {
        let count = self.pages.len();
        let index = page.index() as usize;
        self.newest.entry(dev_number).or_insert_with(|| vec![Slot::B; count])[index] = slot;
        let known = &mut self.pages[index];
        match page.generation().cmp(&known.generation()) {
            std::cmp::Ordering::Greater => *known = page.clone(),
            std::cmp::Ordering::Equal => known.merge(page),
            std::cmp::Ordering::Less => {}
        }
    }

    /// A copy of a page could not be read when the array had so many events: the next write must be newer than that copy,
    /// too, which may be readable later. Perhaps it was itself written after such a copy, and what is readable now was not:
    /// so the number of events counts, which is larger each time, and not what is known of the page.
    pub(crate) fn pass_over_unread(&mut self, page: usize, events: u64) {
        let known = self.pages[page].generation();
        let of_events = UNREAD_GENERATIONS + events.min(EVENTS_MAX) * GENERATIONS_PER_EVENT;
        let next = if known < of_events { of_events } else { known.saturating_add(UNREAD_GENERATIONS) };
        self.pages[page].follow(next);
    }

    /// An old page lies where a member's copy of a page goes. The next write of the page is newer and goes to
    /// the other slot.
    pub(crate) fn outdo(&mut self, dev_number: u32, old: &Page, slot: Slot) {
        let count = self.pages.len();
        let index = old.index() as usize;
        self.newest.entry(dev_number).or_insert_with(|| vec![Slot::B; count])[index] = slot;
        self.pages[index].follow(old.generation());
    }

    /// Forgets all marks: the array was stopped cleanly.
    pub(crate) fn clear_all(&mut self) {
        self.pages.iter_mut().for_each(|page| page.bits_mut().fill(0));
    }

    /// Marks everything, when the pages tell nothing.
    pub(crate) fn mark_all(&mut self) {
        (0..self.pages.len()).for_each(|page| self.mark_page(page));
    }

    /// Marks all regions of a page.
    pub(crate) fn mark_page(&mut self, page: usize) {
        self.pages[page].bits_mut().fill(0xff);
    }

    pub(crate) fn is_marked(&self, region: usize) -> bool {
        let (page, bit) = place(region);
        self.pages[page].get(bit).unwrap_or(true)
    }

    pub(super) fn set(&mut self, region: usize, marked: bool) {
        let (page, bit) = place(region);
        let inside = self.pages[page].set(bit, marked).is_some();
        debug_assert!(inside, "a region has a bit");
    }

    /// Writes pages to all holders and returns the members that could not take them.
    pub(crate) async fn write(&mut self, pages: &[usize], holders: &[Holder]) -> Vec<(Arc<Member>, IoError)> {
        let mut writes = Vec::new();
        for index in pages.iter().copied() {
            self.pages[index].advance();
            let mut block = self.pages[index].encode();
            if lives(Mutant::DamagedPages) {
                block[4] ^= 1;
            }
            for holder in holders {
                let count = self.pages.len();
                let newest =
                    &mut self.newest.entry(holder.member.dev_number).or_insert_with(|| vec![Slot::B; count])
                        [index];
                // Never overwrite the newest copy: after a torn write it is still readable.
                if !lives(Mutant::PageOverNewest) {
                    *newest = newest.other();
                }
                let offset = holder.bitmap_offset_bytes + slot_offset_bytes(index as u32, *newest);
                let member = holder.member.clone();
                writes.push(async move {
                    let result = if lives(Mutant::IntentNotDurable) {
                        member
                            .device
                            .write(offset, smallvec![IoBuf::copy_of(&block).freeze()], WriteFlags::default())
                            .await
                    } else {
                        write_durably(&member, offset, &block).await
                    };
                    result.err().map(|error| (member, error))
                });
            }
        }
        join_all(writes).await.into_iter().flatten().collect()
    }

    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.pages.len()).collect()
    }
}

pub(super) fn place(region: usize) -> (usize, u32) {
    (region / REGIONS_PER_PAGE as usize, (region % REGIONS_PER_PAGE as usize) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generations of a page at an opening with so many events that finds a copy of this generation, and cannot read
    /// another: the first that is written, and one that is written much later.
    fn written(readable: u64, events: u64) -> std::ops::RangeInclusive<u64> {
        let (array_uuid, mut page) = (Uuid::nil(), Page::new(Uuid::nil(), 0));
        page.follow(readable);
        let mut pages = Pages::new(array_uuid, 1, true);
        pages.load(0, &page, Slot::A);
        pages.pass_over_unread(0, events);
        pages.pages[0].advance();
        let first = pages.pages[0].generation();
        first..=first + 1_000_000
    }

    #[test]
    fn what_is_written_is_newer_than_every_copy_that_was_unread_before() {
        // Each time, only a copy from before the first time can be read.
        let times = [147, 148, 172, 1_000_000].map(|events| written(31, events));
        assert!(times.is_sorted_by(|earlier, later| earlier.end() < later.start()), "{times:?}");
        // What is read may be newer than the number of events tells.
        for readable in [1 << 50, 1 << 62] {
            assert!(*written(readable, 147).start() > readable + (1 << 39));
        }
        assert!(*written(31, u64::MAX).end() < 1 << 63 | 1 << 41);
    }
}
