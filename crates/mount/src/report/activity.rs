//! What a mounted file system has done, counted since it was mounted.

use serde::{Deserialize, Serialize};
use stripewise_rafs::{
    fs::{Counters, Stripes},
    store::Written,
    volume::ParityUpdates,
};

macro_rules! activity {
    ($($field:ident: $what:literal,)*) => {
        /// Counts of what was done.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Activity {
            $(#[doc = $what] pub $field: u64,)*
        }

        impl Activity {
            pub(super) fn of(counters: &Counters) -> Self {
                Self { $($field: counters.$field,)* }
            }

            /// What each count is of, and the count.
            pub fn lines(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($what, self.$field),)*].into_iter()
            }
        }
    };
}

activity! {
    client_writes: "writes of clients",
    client_blocks: "their blocks, as often as they were written",
    written_blocks: "blocks written out to places",
    overwritten_blocks: "blocks overwritten where they lie",
    journaled_blocks: "blocks that went to the journal",
    inlined_files: "small files that went into the tree",
    commits: "commits",
    checkpoints: "checkpoints",
    moved_pieces: "pieces that moved to stripes of their own",
    cleaning_passes: "passes of cleaning",
    cleaned_blocks: "blocks moved by them",
    cleaned_nodes: "nodes of the tree moved by them",
    discarded_stripes: "stripes discarded",
    healed_blocks: "blocks healed",
}

/// Writes of stripes, of one class of what lies there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrittenReport {
    /// Writes to a stripe, of however much of it.
    pub stripes: u64,
    /// Of these, those of all of it.
    pub full_stripes: u64,
    /// Rows that were written as a whole.
    pub full_rows: u64,
    /// Rows in which blocks were written beside live ones.
    pub partial_rows: u64,
    /// Those blocks.
    pub single_blocks: u64,
}

impl From<Written> for WrittenReport {
    fn from(written: Written) -> Self {
        let Written { stripes, full_stripes, full_rows, partial_rows, single_blocks } = written;
        Self { stripes, full_stripes, full_rows, partial_rows, single_blocks }
    }
}

/// Rows of the array for whose parity something was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParityReport {
    /// By read-modify-write.
    pub rmw_rows: u64,
    /// By reconstruct-write.
    pub rcw_rows: u64,
}

/// The stripe counter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StripesReport {
    /// Files.
    pub data: WrittenReport,
    /// The tree.
    pub metadata: WrittenReport,
    /// The journal.
    pub journal: WrittenReport,
    /// As the array counts them; none of a device or a file.
    pub parity: Option<ParityReport>,
    /// Writes of clients that shared a write of a stripe.
    pub coalesced_writes: u64,
    /// How many stripes are how full: free ones, those of which up to a tenth is in use, two tenths, and so on, and those that are full.
    pub fill: Vec<u64>,
}

impl StripesReport {
    pub(super) fn of(counters: &Counters, stripes: &Stripes) -> Self {
        let parity = |ParityUpdates { rmw_rows, rcw_rows }| ParityReport { rmw_rows, rcw_rows };
        Self {
            data: stripes.written.data.into(),
            metadata: stripes.written.metadata.into(),
            journal: stripes.written.journal.into(),
            parity: stripes.parity.map(parity),
            coalesced_writes: counters.coalesced_writes(&stripes.written.data),
            fill: stripes.fill.to_vec(),
        }
    }
}
