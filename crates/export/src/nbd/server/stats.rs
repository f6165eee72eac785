//! A server's counters.

use stripewise_device::counters;

use super::budget::Held;

/// Counters since the server's start, and the current state.
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

counters! {
    Index,
    /// The live counters.
    Counters,
    /// Their values at one moment.
    Counted:
    /// As in [`ServerStats`].
    accepted,
    /// As in [`ServerStats`].
    turned_away,
    /// As in [`ServerStats`].
    requests,
    /// As in [`ServerStats`].
    refused,
    /// As in [`ServerStats`].
    read_bytes,
    /// As in [`ServerStats`].
    written_bytes,
}

impl Counters {
    pub(super) fn count_accepted(&self) {
        self.add(Index::accepted, 1);
    }

    pub(super) fn count_turned_away(&self) {
        self.add(Index::turned_away, 1);
    }

    pub(super) fn count_request(&self) {
        self.add(Index::requests, 1);
    }

    pub(super) fn count_refused(&self) {
        self.add(Index::refused, 1);
    }

    pub(super) fn count_read(&self, bytes: u64) {
        self.add(Index::read_bytes, bytes);
    }

    pub(super) fn count_write(&self, bytes: u64) {
        self.add(Index::written_bytes, bytes);
    }

    /// All figures, with what open connections hold, and the most that ended ones held.
    pub(super) fn snapshot(&self, open: impl Iterator<Item = Held>, ended: Held) -> ServerStats {
        let Counted { accepted, turned_away, requests, refused, read_bytes, written_bytes } = self.report();
        let mut stats = ServerStats {
            accepted,
            turned_away,
            requests,
            refused,
            read_bytes,
            written_bytes,
            connection_peak_bytes: ended.peak_bytes,
            connection_peak_requests: ended.peak_requests,
            ..ServerStats::default()
        };
        for held in open {
            stats.connections += 1;
            stats.in_flight_bytes += held.bytes;
            stats.connection_peak_bytes = stats.connection_peak_bytes.max(held.peak_bytes);
            stats.connection_peak_requests = stats.connection_peak_requests.max(held.peak_requests);
        }
        stats
    }
}
