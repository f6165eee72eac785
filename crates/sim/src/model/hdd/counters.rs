//! What a drive has done.

use crate::model::ModelCounters;

/// Counts and sums of one drive.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) flushes: u64,
    /// Reads served from the buffer alone.
    pub(super) read_hits: u64,
    /// Writes that completed in the buffer.
    pub(super) buffered_writes: u64,
    /// Accesses to the medium that wrote buffered data.
    pub(super) destages: u64,
    /// Accesses that moved the arm.
    pub(super) seeks: u64,
    /// Seeks and head switches.
    pub(super) seek_ns: u64,
    /// Setting up and waiting for the sector.
    pub(super) rotation_ns: u64,
    pub(super) transfer_ns: u64,
    /// Accesses on the cylinder under the heads whose sector passed while they were being set up.
    pub(super) missed_rotations: u64,
    /// The mechanism at work for requests, not reading ahead.
    pub(super) busy_ns: u64,
}

impl Counters {
    pub(super) fn listed(&self) -> ModelCounters {
        ModelCounters(vec![
            ("reads", self.reads),
            ("writes", self.writes),
            ("flushes", self.flushes),
            ("read_hits", self.read_hits),
            ("buffered_writes", self.buffered_writes),
            ("destages", self.destages),
            ("seeks", self.seeks),
            ("missed_rotations", self.missed_rotations),
            ("seek_ns", self.seek_ns),
            ("rotation_ns", self.rotation_ns),
            ("transfer_ns", self.transfer_ns),
            ("busy_ns", self.busy_ns),
        ])
    }
}
