//! Whether writes pass the cache by while it is full, or while clients flush all the time: what serves them faster,
//! measured in [turns](Turns).
//!
//! Destages gain where neighbouring blocks become dirty before one of them must go. Under writes without such neighbours,
//! each costs what the write would have cost by itself, and the detour on top. Where clients are served alike, the cache
//! is used: members have less to do then.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::{Fill, Turns};
use crate::members::stats::Served;

/// A cache is no longer full when the dirty blocks are fewer than the low mark by one part in so many.
const FULL_PARTS: u64 = 4;
/// Clients flush all the time if they flushed twice within so long.
const FLUSHES_WITHIN: Duration = Duration::from_millis(500);

/// Looks whether the cache is full, and then which way is better.
#[derive(Debug)]
pub(crate) struct Passing {
    /// The policy of when has called for room, and since then the cache was never far below its low mark, where
    /// destages that make room stop.
    is_full: bool,
    /// Clients flush all the time.
    is_flushed: bool,
    /// When clients were last seen to have flushed, and how often by then.
    flushed: (Timestamp, u64),
    turns: Turns,
}

impl Default for Passing {
    fn default() -> Self {
        // Nothing is known: to pass by is what a write does without a cache, but that streams are not gathered.
        Self { is_full: false, is_flushed: false, flushed: Default::default(), turns: Turns::new(true) }
    }
}

impl Passing {
    /// Whether writes pass by from now on. `wants_room` says that the policy of when calls for destages.
    pub(crate) fn next(&mut self, fill: Fill, wants_room: bool, written: Served, now: Timestamp) -> bool {
        self.is_full = wants_room || self.is_full && fill.dirty >= fill.low / FULL_PARTS * (FULL_PARTS - 1);
        self.note_flushes(written.flushes, now);
        if !self.is_full && !self.is_flushed {
            self.turns.pause();
            return false;
        }
        self.turns.next(written, self.is_flushed, now)
    }

    fn note_flushes(&mut self, flushes: u64, now: Timestamp) {
        let was_long_ago = now.since(self.flushed.0) > FLUSHES_WITHIN;
        if flushes != self.flushed.1 {
            self.is_flushed = !was_long_ago || flushes > self.flushed.1 + 1;
            self.flushed = (now, flushes);
        } else if was_long_ago {
            self.is_flushed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_by_unless_room_is_called_for() {
        let mut passing = Passing::default();
        let served = Served::default();
        let next = |passing: &mut Passing, dirty, wants_room| {
            let fill = Fill { dirty, low: 85, high: 95 };
            passing.next(fill, wants_room, served, Timestamp::default())
        };
        assert!(!next(&mut passing, 94, false));
        assert!(next(&mut passing, 86, true) && next(&mut passing, 64, false));
        assert!(!next(&mut passing, 62, false) && !next(&mut passing, 94, false));
    }

    #[test]
    fn writes_may_pass_by_while_clients_flush_all_the_time() {
        let mut passing = Passing::default();
        let mut next = |flushes, ms: u64| {
            let fill = Fill { dirty: 1, low: 85, high: 95 };
            let served = Served { requests: 1, bytes: 1, flushes };
            passing.next(fill, false, served, Timestamp(ms * 1_000_000))
        };
        assert!(!next(0, 1000) && !next(1, 2000), "one flush is not many");
        assert!(next(2, 2100) && next(2, 2500));
        assert!(!next(2, 2700) && !next(3, 4000) && next(4, 4001));
    }
}
