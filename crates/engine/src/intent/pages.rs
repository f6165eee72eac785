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

/// More generations than the newest copy of a page can be ahead of the readable copies. It gets ahead by page
/// writes while a member holds no copies.
const UNREAD_GENERATIONS: u64 = 1 << 40;

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

    /// A copy of a page could not be read: the next write must be newer than that copy, too.
    pub(crate) fn pass_over_unread(&mut self, page: usize) {
        let known = self.pages[page].generation();
        self.pages[page].follow(known.saturating_add(UNREAD_GENERATIONS));
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
