//! What a drive has done.

use super::params::UNIT_BYTES;
use crate::model::{ModelCounters, SECTOR_BYTES};

/// Counts of one drive.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) flushes: u64,
    pub(super) discards: u64,
    /// Units read from the buffer.
    pub(super) buffer_hits: u64,
    /// Units written over data that was still in the buffer.
    pub(super) buffer_overwrites: u64,
    /// Units of which the host gave a part, and whose rest was read.
    pub(super) merges: u64,
    /// Pages sensed for the host and for merges.
    pub(super) page_reads: u64,
    pub(super) host_sectors: u64,
    /// Units of the host's data programmed.
    pub(super) host_units: u64,
    /// Units that collection moved.
    pub(super) moved_units: u64,
    /// Units programmed with nothing in them.
    pub(super) padded_units: u64,
    pub(super) discarded_units: u64,
    pub(super) collections: u64,
}

impl Counters {
    /// All values; `wear` is the erases of the least and the most worn block, and of all.
    pub(super) fn listed(&self, wear: (u32, u32, u64)) -> ModelCounters {
        let programmed_units = self.host_units + self.moved_units + self.padded_units;
        ModelCounters(vec![
            ("reads", self.reads),
            ("writes", self.writes),
            ("flushes", self.flushes),
            ("discards", self.discards),
            ("buffer_hits", self.buffer_hits),
            ("buffer_overwrites", self.buffer_overwrites),
            ("merges", self.merges),
            ("page_reads", self.page_reads),
            ("host_written_bytes", self.host_sectors * SECTOR_BYTES),
            ("programmed_bytes", programmed_units * UNIT_BYTES),
            ("host_units", self.host_units),
            ("moved_units", self.moved_units),
            ("padded_units", self.padded_units),
            ("discarded_units", self.discarded_units),
            ("collections", self.collections),
            ("erases", wear.2),
            ("erases_min", u64::from(wear.0)),
            ("erases_max", u64::from(wear.1)),
        ])
    }
}
