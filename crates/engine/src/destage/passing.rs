//! Whether writes that find the cache full pass it by: what serves clients faster, measured in [turns](Turns).
//!
//! Destages that make room gain where neighbouring blocks become dirty before one of them must go. Under writes without
//! such neighbours, each costs what the write would have cost by itself, and the detour on top. Where clients are served
//! alike, room is made: members have less to do then.

use stripewise_device::Timestamp;

use super::{Fill, Turns};
use crate::members::stats::Served;

/// A cache is no longer full when the dirty blocks are fewer than the low mark by one part in so many.
const FULL_PARTS: u64 = 4;

/// Looks whether the cache is full, and then which way is better.
#[derive(Debug)]
pub(crate) struct Passing {
    /// The policy of when has called for room, and since then the cache was never far below its low mark, where
    /// destages that make room stop.
    is_full: bool,
    turns: Turns,
}

impl Default for Passing {
    fn default() -> Self {
        // Nothing is known: to pass by is what a write does without a cache.
        Self { is_full: false, turns: Turns::new(true) }
    }
}

impl Passing {
    /// Whether writes pass by from now on. `wants_room` says that the policy of when calls for destages.
    pub(crate) fn next(
        &mut self,
        fill: Fill,
        wants_room: bool,
        written: impl FnOnce() -> Served,
        now: Timestamp,
    ) -> bool {
        self.is_full = wants_room || self.is_full && fill.dirty >= fill.low / FULL_PARTS * (FULL_PARTS - 1);
        if !self.is_full {
            self.turns.pause();
            return false;
        }
        self.turns.next(written(), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_by_unless_room_is_called_for() {
        let mut passing = Passing::default();
        let served = Served { requests: 0, bytes: 0 };
        let next = |passing: &mut Passing, dirty, wants_room| {
            let fill = Fill { dirty, low: 85, high: 95 };
            passing.next(fill, wants_room, || served, Timestamp::default())
        };
        assert!(!next(&mut passing, 94, false));
        assert!(next(&mut passing, 86, true) && next(&mut passing, 64, false));
        assert!(!next(&mut passing, 62, false) && !next(&mut passing, 94, false));
    }
}
