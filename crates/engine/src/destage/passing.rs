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
/// Clients flush all the time if they flushed so often, with no longer pause than this. A program that flushes a file and
/// its folder once in a while does not.
const FLUSHES_MIN: u64 = 8;
const FLUSHES_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Looks whether the cache is full, and then which way is better.
#[derive(Debug)]
pub(crate) struct Passing {
    /// The policy of when has called for room, and since then the cache was never far below its low mark, where
    /// destages that make room stop.
    is_full: bool,
    /// How often clients flushed since their last long pause.
    flushes: u64,
    /// When clients were last seen to have flushed, and how often by then.
    flushed: Option<(Timestamp, u64)>,
    turns: Turns,
}

impl Default for Passing {
    fn default() -> Self {
        // Nothing is known: to pass by is what a write does without a cache, but that streams are not gathered.
        Self { is_full: false, flushes: 0, flushed: None, turns: Turns::new(true) }
    }
}

impl Passing {
    /// Whether writes pass by from now on. `wants_room` says that the policy of when calls for destages.
    pub(crate) fn next(&mut self, fill: Fill, wants_room: bool, written: Served, now: Timestamp) -> bool {
        self.is_full = wants_room || self.is_full && fill.dirty >= fill.low / FULL_PARTS * (FULL_PARTS - 1);
        let is_flushed = self.is_flushed(written.flushes, now);
        if !self.is_full && !is_flushed {
            self.turns.pause();
            return false;
        }
        let flushes = if is_flushed { Flushes::Within } else { Flushes::Without };
        self.turns.next(written, flushes, now)
    }

    /// Whether clients flush all the time, who flushed so often in all.
    fn is_flushed(&mut self, flushes: u64, now: Timestamp) -> bool {
        let (last, before) = *self.flushed.get_or_insert((now, flushes));
        if now.since(last) > FLUSHES_PAUSE_MAX {
            self.flushes = 0;
        }
        if flushes != before {
            self.flushes += flushes - before;
            self.flushed = Some((now, flushes));
        }
        self.flushes >= FLUSHES_MIN
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
        assert!(!next(100, 1000), "those before it looked first");
        assert!(!next(107, 1400) && next(108, 1800) && next(108, 2300));
        assert!(!next(108, 2301) && !next(115, 2400), "a pause was too long");
        assert!(next(116, 2900) && next(117, 3400) && next(125, 4000), "many at once");
    }
}
