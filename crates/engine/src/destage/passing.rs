//! Whether writes pass the cache by while it is full, or while clients flush all the time: what serves them faster,
//! measured in [turns](Turns).
//!
//! Destages gain where neighbouring blocks become dirty before one of them must go. Under writes without such neighbours,
//! each costs what the write would have cost by itself, and the detour on top. Where clients are served alike, the cache
//! is used: members have less to do then.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::{Fill, Flushes, Turns};
use crate::members::stats::Served;

/// A cache is no longer full when the dirty blocks are fewer than the low mark by one part in so many.
const FULL_PARTS: u64 = 4;
/// Clients flush all the time if they flushed so often, and never wrote for longer than this without a flush. A program
/// that flushes a file and its folder once in a while does not.
const FLUSHES_MIN: u64 = 8;
const UNFLUSHED_MAX: Duration = Duration::from_millis(100);

/// Looks whether the cache is full, and then which way is better.
#[derive(Debug)]
pub(crate) struct Passing {
    /// The policy of when has called for room, and since then the cache was never far below its low mark, where
    /// destages that make room stop.
    is_full: bool,
    flushes: Flushing,
    turns: Turns,
}

impl Default for Passing {
    fn default() -> Self {
        // Nothing is known: to pass by is what a write does without a cache, but that streams are not gathered.
        Self { is_full: false, flushes: Flushing::default(), turns: Turns::new(true) }
    }
}

impl Passing {
    /// Whether writes pass by from now on. `wants_room` says that the policy of when calls for destages.
    pub(crate) fn next(&mut self, fill: Fill, wants_room: bool, written: Served, now: Timestamp) -> bool {
        self.is_full = wants_room || self.is_full && fill.dirty >= fill.low / FULL_PARTS * (FULL_PARTS - 1);
        let is_flushed = self.flushes.next(written, now);
        if !self.is_full && !is_flushed {
            self.turns.pause();
            return false;
        }
        let flushes = if is_flushed { Flushes::Within } else { Flushes::Without };
        self.turns.next(written, flushes, now)
    }
}

/// Looks whether clients flush all the time.
#[derive(Debug, Default)]
struct Flushing {
    /// Flushes since clients last wrote for long without one.
    count: u64,
    /// How long they have written since the last.
    unflushed: Duration,
    /// What was seen last.
    last: Option<(Timestamp, Served)>,
}

impl Flushing {
    fn next(&mut self, written: Served, now: Timestamp) -> bool {
        if let Some((then, before)) = self.last.replace((now, written)) {
            if written.flushes != before.flushes {
                self.count += written.flushes - before.flushes;
                self.unflushed = Duration::ZERO;
            } else if written.requests != before.requests {
                self.unflushed += now.since(then);
            }
        }
        if self.unflushed > UNFLUSHED_MAX {
            self.count = 0;
        }
        self.count >= FLUSHES_MIN
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
        let mut next = |requests, flushes, ms: u64| {
            let fill = Fill { dirty: 1, low: 85, high: 95 };
            let served = Served { requests, bytes: requests, flushes };
            passing.next(fill, false, served, Timestamp(ms * 1_000_000))
        };
        assert!(!next(1, 100, 1000), "those before it looked first");
        assert!(!next(2, 107, 1400) && next(3, 108, 1800) && next(4, 108, 1900));
        assert!(!next(5, 108, 1901) && !next(6, 115, 2400), "too long without a flush");
        assert!(next(7, 116, 2900) && next(7, 116, 4000), "nothing is written");
        assert!(next(8, 116, 4100) && !next(9, 116, 4101));
    }
}
