//! How large the steps of background work are, and how often it looks around.
//!
//! Production has one setting. The simulator draws others: its arrays are so small that the whole of one is
//! less than a batch, and its lives so short that no interval passes, so that a job would never be found half
//! way.

use std::time::Duration;

use crate::shape::regions::GROUP_BYTES;

/// The steps of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes of each member that a job reads at once where a member may rotate: large enough that a disk
    /// streams, small enough that clients do not wait long for these rows (1 MiB at 150 MB/s: 7 ms).
    pub disk_batch_bytes: u64,
    /// The same where nothing rotates: small requests are as good there, and what is read is still in the
    /// processor's cache when parity is computed.
    pub flash_batch_bytes: u64,
    /// Bytes of each member that a job has on their way, in three batches at least: one is read while another
    /// is written.
    pub in_flight_bytes: u64,
    /// What a resync of distributed regions reads of a member without a gap: long enough that a disk streams
    /// for most of the time, and short, so that some regions are done with before all are.
    pub group_bytes: u64,
    /// How often a job writes down where it stands.
    pub checkpoint_interval: Duration,
    /// How often idle regions are looked for and noted blocks are healed. A region is cleared after one to
    /// two of these.
    pub housekeeping_interval: Duration,
}

impl Tuning {
    /// What every array has that nothing else is said of.
    pub const PRODUCTION: Self = Self {
        disk_batch_bytes: 1 << 20,
        flash_batch_bytes: 128 << 10,
        in_flight_bytes: 3 << 20,
        group_bytes: GROUP_BYTES,
        checkpoint_interval: Duration::from_secs(5),
        housekeeping_interval: Duration::from_secs(1),
    };
}

impl Default for Tuning {
    fn default() -> Self {
        Self::PRODUCTION
    }
}
