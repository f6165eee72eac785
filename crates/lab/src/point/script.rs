//! Loads whose requests are known beforehand: what a file system or a page cache asks of the array.

use serde::Serialize;
use stripewise_load::{Pace, Step};

use crate::ext3::Aging;

/// A load that is computed before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Script {
    /// The writes of a cycle on an aged file system.
    Aging(Aging),
}

/// Reads under way: read-ahead of Linux 2.6.11 has two windows.
const READS: u32 = 2;

impl Script {
    /// In keys.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Aging(Aging { size_bytes, mean_bytes, cycle, journal_blocks, dirty_blocks }) => format!(
                "aging fs={size_bytes} mean={mean_bytes} cycle={cycle} journal={journal_blocks} dirty={dirty_blocks}"
            ),
        }
    }

    /// Bytes that clients read or write for their own sake, about: metadata come on top.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Aging(aging) => aging.written_bytes(),
        }
    }

    /// Its requests.
    pub(super) fn steps(&self, seed: u64) -> Vec<Step> {
        match self {
            Self::Aging(aging) => aging.steps(seed),
        }
    }

    /// How many requests are under way, if so many writes are.
    pub(super) fn pace(writes: u32, fua: bool) -> Pace {
        Pace { reads: READS, writes, fua }
    }
}
