//! What was done, counted.

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
    /// Passes of cleaning that were begun.
    pub cleaning_passes: u64,
    /// Blocks of files that were overwritten where they lie.
    pub overwritten_blocks: u64,
    /// Small files that went into the tree.
    pub inlined_files: u64,
    /// Rows that were written as a whole.
    pub whole_rows: u64,
    /// Blocks that were written beside live ones.
    pub single_blocks: u64,
    /// Stripes that were discarded.
    pub discarded_stripes: u64,
    /// Blocks whose CRC was wrong, and which redundancy had still.
    pub healed_blocks: u64,
}
