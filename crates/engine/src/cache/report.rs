//! What the cache tells about itself.

use super::{Cache, CacheSettings};
use crate::{
    compute::cells::{ALL_SECTORS, CellState},
    destage::Weighed,
    shape::{geometry::StripeIndex, rows::BLOCK_BYTES},
};

/// Why cells are destaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestageReason {
    /// To make room: too much is dirty, or a writer lacks memory.
    Mark,
    /// They were dirty for long.
    Age,
    /// There were no requests for a while.
    Idle,
    /// All of their stripe is dirty.
    Full,
    /// A client flushes.
    Flush,
    /// The write is to be durable, or the cache is being emptied meanwhile.
    Fua,
    /// The array is stopped, or the cache replaced.
    Stop,
}

impl DestageReason {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Mark, Self::Age, Self::Idle, Self::Full, Self::Flush, Self::Fua, Self::Stop];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Age => "age",
            Self::Idle => "idle",
            Self::Full => "full",
            Self::Flush => "flush",
            Self::Fua => "fua",
            Self::Stop => "stop",
        }
    }
}

/// What was destaged for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Destaged {
    /// Blocks that members got.
    pub blocks: u64,
    /// Writes of stripes, or of rows, that it took.
    pub writes: u64,
}

/// What a cache holds, and what it did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CacheReport {
    /// What was chosen.
    pub settings: CacheSettings,
    /// Bytes of memory that it may take.
    pub size_bytes: u64,
    /// Bytes that it takes for what it holds.
    pub used_bytes: u64,
    /// Blocks of 4 KiB that members do not hold yet, at least in part.
    pub dirty_blocks: u64,
    /// Blocks that members hold, too.
    pub clean_blocks: u64,
    /// The most blocks that may be dirty now.
    pub dirty_max: u64,
    /// Blocks that members take in a second, as last measured; 0: not yet.
    pub blocks_per_s: u64,
    /// It is being emptied: writes wait for members meanwhile.
    pub is_draining: bool,
    /// By [reason](DestageReason::ALL).
    pub destaged: [Destaged; 7],
    /// Reads that the cache served without members.
    pub read_hits: u64,
    /// Reads of which the cache had a part.
    pub read_part_hits: u64,
    /// Reads of which the cache had nothing.
    pub read_misses: u64,
    /// Blocks that were read ahead of sequential readers.
    pub ahead: u64,
    /// Writes that had to wait for memory.
    pub waits: u64,
    /// Parts of stripes that writes sent past it to members, because it was full and that was faster.
    pub passed: u64,
    /// How the way past it compares with the way by way of it.
    pub weighed: Weighed,
}

impl Cache {
    /// What is in hand of a stripe, msc-ct's matrix Z: rows from the first to the last of which something is, joined
    /// by `/`, with a letter for each data column: (D)irty, (P)artly dirty, (C)lean, (E)mpty.
    pub(crate) fn cells_text(&self, stripe: StripeIndex) -> String {
        let rows = self.chunk_bytes / BLOCK_BYTES;
        let mut lines = vec![vec!['E'; self.data_columns]; rows];
        let mut count = 0;
        for unit in self.all_units(stripe) {
            let bucket = self.bucket(unit);
            let Some(slot) = bucket.slots.iter().find(|slot| slot.unit == unit) else { continue };
            for (number, column) in slot.cells.columns() {
                for (row, line) in lines.iter_mut().enumerate() {
                    let Some((state, _)) = column.get(row) else { continue };
                    count = count.max(row + 1);
                    line[number] = match state {
                        CellState::Dirty(ALL_SECTORS) => 'D',
                        CellState::Dirty(_) => 'P',
                        CellState::Clean => 'C',
                    };
                }
            }
        }
        lines.truncate(count);
        lines.iter().map(|line| line.iter().collect::<String>()).collect::<Vec<_>>().join("/")
    }
}
