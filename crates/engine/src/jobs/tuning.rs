//! The step sizes and intervals of background work.
//!
//! Production has one setting. The simulator draws others: its whole arrays are smaller than a batch, and
//! they live too short for any interval to pass, so no job would ever be caught halfway.

use std::time::Duration;

use crate::shape::regions::GROUP_BYTES;

/// The steps of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes of each member that a job reads at once where a member may rotate: large enough that a disk
    /// streams, small enough that clients do not wait long for these rows (1 MiB at 150 MB/s: 7 ms).
    pub disk_batch_bytes: u64,
    /// The same where no member rotates: small requests are as good there, and what was read is still in the
    /// processor's cache when parity is computed.
    pub flash_batch_bytes: u64,
    /// Bytes of each member that a job has in flight, in at least three batches: one is read while another is
    /// written.
    pub in_flight_bytes: u64,
    /// Bytes of a member that a resync of distributed regions reads without a gap: enough that a disk streams
    /// most of the time, and so few that some regions are finished before all are.
    pub group_bytes: u64,
    /// How often a job makes durable what it has done, and where it stands.
    pub checkpoint_interval: Duration,
    /// How often housekeeping looks for idle regions and heals noted blocks. A region is cleared after one to
    /// two intervals.
    pub housekeeping_interval: Duration,
}

impl Tuning {
    /// What every array has by default.
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
