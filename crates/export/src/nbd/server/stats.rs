//! What a server counts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::budget::Gauge;

/// Counters since the server's start, and what is under way now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerStats {
    /// Connections now.
    pub connections: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed at once because there were too many.
    pub turned_away: u64,
    /// Requests received.
    pub requests: u64,
    /// Requests answered with an error by the server itself, before any device.
    pub refused: u64,
    /// Bytes of READ replies.
    pub read_bytes: u64,
    /// Bytes of granted WRITEs.
    pub written_bytes: u64,
    /// Request and reply data held now, as charged.
    pub in_flight_bytes: u64,
    /// The most that one connection has held.
    pub connection_peak_bytes: u64,
    /// The most requests that one connection has had under way.
    pub connection_peak_requests: u64,
}

/// The live counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) turned_away: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) gauge: Arc<Gauge>,
}

/// Counts one up by `by`.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn snapshot(&self, connections: usize) -> ServerStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerStats {
            connections: connections as u64,
            accepted: get(&self.accepted),
            turned_away: get(&self.turned_away),
            requests: get(&self.requests),
            refused: get(&self.refused),
            read_bytes: get(&self.read_bytes),
            written_bytes: get(&self.written_bytes),
            in_flight_bytes: get(&self.gauge.bytes),
            connection_peak_bytes: get(&self.gauge.connection_peak_bytes),
            connection_peak_requests: get(&self.gauge.connection_peak_requests),
        }
    }
}
