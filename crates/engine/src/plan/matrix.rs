//! The plan's own types: MSC-CT's rxw-matrix (msc-ct Table I), and what a row's write does.

use smallvec::SmallVec;
use thiserror::Error;

use crate::shape::rows::RowSet;

/// The rows of one column in which each operation of msc-ct Table I happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnOps {
    /// `r`: read the block from the member into the cache (here: the stripe's working memory).
    pub r: RowSet,
    /// `t`: read the old block into temporary memory, beside the new content.
    pub t: RowSet,
    /// `x`: the block's content takes part in the XOR.
    pub x: RowSet,
    /// `xx`: new content and old (`t`) take part in the XOR.
    pub xx: RowSet,
    /// `_`: destination of the XOR.
    pub dest: RowSet,
    /// `w`: write the block to the member.
    pub w: RowSet,
}

impl ColumnOps {
    /// Rows read, for whichever purpose.
    pub fn reads(&self) -> RowSet {
        self.r | self.t
    }
}

/// How the parity of a row is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cycle {
    /// No redundancy is computed: levels 0 and 1, or no parity member is left. Exact bytes are written.
    Direct,
    /// All data is new: parity from the new data alone.
    Full,
    /// Read-modify-write: parity from old parity, old data and new data.
    Rmw,
    /// Reconstruct-write: parity from the new data and all other data.
    Rcw,
    /// Old content that cannot be read is first recovered from parity. The rest is as with reconstruct-write.
    Recover,
}

/// Rows of one stripe that are in the same state and are written by the same cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The rows.
    pub rows: RowSet,
    /// Their cycle.
    pub cycle: Cycle,
    /// Whether some cell of these rows is only partly overwritten.
    pub partial: bool,
    /// Reads that an RMW needs, as md's `handle_stripe_dirtying` counts.
    pub rmw: u32,
    /// Reads that an RCW needs.
    pub rcw: u32,
    /// Both cycles are possible: the selection policy has chosen.
    pub free: bool,
    /// The policy's estimate of the whole stripe's write with either cycle for this band, if it makes one.
    pub estimate: Option<Estimate>,
}

/// The price of a stripe's write with either cycle for one band, in nanoseconds: the time until the write
/// would be done, plus the time that it takes from other requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// With read-modify-write.
    pub rmw_ns: u64,
    /// With reconstruct-write.
    pub rcw_ns: u64,
}

/// The rxw-matrix of one stripe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Operations by column: data, then P, then Q (or mirrors).
    pub columns: SmallVec<[ColumnOps; 8]>,
    /// The rows by cycle.
    pub bands: SmallVec<[Band; 4]>,
}

impl Plan {
    /// All rows that the plan touches.
    pub fn rows(&self) -> RowSet {
        self.bands.iter().fold(RowSet::EMPTY, |all, band| all | band.rows)
    }

    /// The blocks that are in memory for it beside what is in hand before: what is read, and new redundancy.
    pub fn working_blocks(&self, data_columns: usize) -> usize {
        let data = self.columns.iter().take(data_columns).map(|ops| ops.reads().len());
        let redundant = self.columns.iter().skip(data_columns).map(|ops| (ops.reads() | ops.w).len());
        data.chain(redundant).sum()
    }
}

/// Why no plan can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PlanError {
    /// More columns are lost in these rows than their parity can recover.
    #[error("{lost} blocks of a row cannot be read and {parity} parity blocks are left to recover them")]
    TooManyLost {
        /// Data blocks without readable content that are needed.
        lost: usize,
        /// Readable parity blocks.
        parity: usize,
    },
}
