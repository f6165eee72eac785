//! What waits in the buffer of a mounted file system.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stripewise_rafs::buffer::ListCount;

/// The buffer lists that are not empty (rafs III-B).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BufferReport {
    /// By their numbers.
    pub lists: Vec<ListReport>,
}

/// A buffer list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListReport {
    /// Its number.
    pub list: u8,
    /// Blocks of each entry: 2 to the power of that number.
    pub entry_blocks: u64,
    /// How many entries it has.
    pub entries: u64,
    /// Blocks of all of them.
    pub blocks: u64,
    /// With how many of them a write-out is under way.
    pub being_written: u64,
    /// How long the oldest block has waited, in milliseconds.
    pub oldest_ms: u64,
}

impl BufferReport {
    /// Of these lists, and how long the oldest block of each has waited.
    #[must_use]
    pub fn of(lists: &[(ListCount, Duration)]) -> Self {
        let of = |(count, waited): &(ListCount, Duration)| ListReport {
            list: count.list,
            entry_blocks: 1 << count.list,
            entries: count.entries,
            blocks: count.blocks(),
            being_written: count.lent,
            oldest_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        };
        Self { lists: lists.iter().map(of).collect() }
    }
}
