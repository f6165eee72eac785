//! What the lists hold, for people who look at a mount. It takes a look at each entry.

use stripewise_device::Timestamp;

use super::{Buffer, lists::Lists};

/// What a list holds that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListCount {
    /// Its number: its entries have as many blocks as 2 to the power of it.
    pub list: u8,
    /// How many entries it has.
    pub entries: u64,
    /// With how many of them a write-out is under way.
    pub lent: u64,
    /// No later than when the oldest block in it was written.
    pub oldest: Timestamp,
}

impl ListCount {
    /// Blocks in it.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.entries << self.list
    }
}

impl Buffer {
    /// What the lists hold that are not empty.
    #[must_use]
    pub fn lists(&self) -> Vec<ListCount> {
        (0..Lists::COUNT).filter_map(|list| self.list(list)).collect()
    }

    fn list(&self, list: u8) -> Option<ListCount> {
        let mut entries = self.lists.entries(list);
        let first = entries.next()?;
        let begun = ListCount { list, entries: 1, lent: first.is_lent.into(), oldest: first.since };
        Some(entries.fold(begun, |count, entry| ListCount {
            entries: count.entries + 1,
            lent: count.lent + u64::from(entry.is_lent),
            oldest: count.oldest.min(entry.since),
            ..count
        }))
    }
}
