//! What was done, counted.

use crate::{
    space::FILLS,
    store::{StripeCounts, Written},
    volume::ParityUpdates,
};

/// Counts since the file system was mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Commits.
    pub commits: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks of files that went to the journal with a commit.
    pub journaled_blocks: u64,
    /// Blocks of files that were written out to places.
    pub written_blocks: u64,
    /// Pieces of files that had become full, and were written to stripes of their own.
    pub moved_pieces: u64,
    /// Blocks of files that were moved out of half-empty stripes.
    pub cleaned_blocks: u64,
    /// Nodes of the tree that were moved out of half-empty stripes, or that are on the way to such a node.
    pub cleaned_nodes: u64,
    /// Passes of cleaning that were begun.
    pub cleaning_passes: u64,
    /// Blocks of files that were overwritten where they lie.
    pub overwritten_blocks: u64,
    /// Small files that went into the tree.
    pub inlined_files: u64,
    /// Writes of clients that went to the buffer.
    pub client_writes: u64,
    /// Their blocks, each as often as it was written.
    pub client_blocks: u64,
    /// Stripes that were discarded.
    pub discarded_stripes: u64,
    /// Blocks whose CRC was wrong, and which redundancy had still.
    pub healed_blocks: u64,
}

impl Counters {
    /// Clients' writes that needed no write of a stripe for themselves (rafs II-B: their share is the coalescence rate).
    #[must_use]
    pub fn coalesced_writes(&self, data: &Written) -> u64 {
        self.client_writes.saturating_sub(data.stripes)
    }
}

/// How stripes were written, and how full they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stripes {
    /// Writes of stripes since the file system was mounted, by what lies there.
    pub written: StripeCounts,
    /// Rows for which a read came first, as the volume counts them; none if it does not.
    pub parity: Option<ParityUpdates>,
    /// How many stripes are how full: free ones, each begun tenth, full ones.
    pub fill: [u64; FILLS],
}
