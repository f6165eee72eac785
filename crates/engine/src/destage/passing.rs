//! Whether writes pass the cache by while it is full, or while clients flush all the time: what serves them faster,
//! measured in [turns](Turns).
//!
//! Destages gain where neighbouring blocks become dirty before one of them must go. Under writes without such neighbours,
//! each costs what the write would have cost by itself, and the detour on top. Where clients are served alike, the cache
//! is used: members have less to do then.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::{
    Flushes, PastPolicy, Turns,
    past::{Past, Seen, Verdict, Why},
};
use crate::{members::stats::Served, shape::rows::BLOCK_BYTES};

pub(super) static POLICY: PastPolicy = PastPolicy {
    name: "served",
    number: 1,
    summary: "past a cache that is full or flushed all the time, if clients are served faster so",
    make: || Box::new(Passing::default()),
};

/// Clients flush all the time if they flushed so often, each time within this time of the last, and with no more writes in
/// between. A program that flushes a file and its folder once in a while does not.
const FLUSHES_MIN: u64 = 8;
const FLUSHES_WITHIN: Duration = Duration::from_secs(1);
const WRITES_BETWEEN: u64 = 4096;
/// Clients that flush all the time still count as such until they have not flushed for this time. The way that writes go decides how
/// soon they flush again.
const FLUSHES_ENDED: Duration = Duration::from_secs(10);

/// With more excess than this, nothing is measured.
pub(super) const EXCESS_MAX: f64 = 0.25;

/// Looks whether the cache is full, and then which way is better.
#[derive(Debug)]
pub(crate) struct Passing {
    is_full: bool,
    flushes: Flushing,
    made_up: MadeUp,
    turns: Turns,
}

impl Default for Passing {
    fn default() -> Self {
        // Nothing is known: to pass by is what a write does without a cache.
        Self {
            is_full: false,
            flushes: Flushing::default(),
            made_up: MadeUp::default(),
            turns: Turns::new(true),
        }
    }
}

impl Passing {
    /// Another policy decides meanwhile: neither the window under way counts, nor a trial. It tells which way it takes for
    /// the better one, if it knows.
    pub(super) fn pause(&mut self, passes: Option<bool>, now: Timestamp) {
        if let Some(passes) = passes {
            self.turns.expect(passes);
        }
        self.turns.pause(now);
    }
}

impl Past for Passing {
    fn next(&mut self, seen: &Seen<'_>) -> Verdict {
        self.is_full = seen.is_full(self.is_full);
        let is_flushed = self.flushes.next(seen.written, seen.now);
        let served = self.made_up.next(seen);
        if !self.is_full && !is_flushed {
            self.turns.pause(seen.now);
            return Verdict::of_all(false, Why::Room);
        }
        if seen.excess > EXCESS_MAX {
            // What is destaged was written long ago: how fast that is says nothing of what clients write now.
            self.turns.pause(seen.now);
            let best = self.turns.known_best();
            return Verdict::of_all(best, if best { Why::Served } else { Why::Unknown });
        }
        let flushes = if is_flushed { Flushes::Within } else { Flushes::Seldom };
        Verdict::of_all(self.turns.next(served, flushes, seen.now), Why::Served)
    }
}

/// What was destaged and not written again, while more is dirty than may be. Writers are slowed for that, so it counts like
/// what they write.
#[derive(Debug, Default)]
struct MadeUp {
    blocks: i64,
    /// What was dirty when writers were last seen to be slowed, if they still were the last time.
    dirty: Option<u64>,
}

impl MadeUp {
    /// What clients have written, and this.
    fn next(&mut self, seen: &Seen<'_>) -> Served {
        let dirty = (seen.excess > 0.0).then_some(seen.fill.dirty);
        if let (Some(before), Some(dirty)) = (std::mem::replace(&mut self.dirty, dirty), dirty) {
            self.blocks += before as i64 - dirty as i64;
        }
        let bytes = seen.written.bytes.saturating_add_signed(self.blocks * BLOCK_BYTES as i64);
        Served { bytes, ..seen.written }
    }
}

/// Looks whether clients flush all the time.
#[derive(Debug, Default)]
struct Flushing {
    /// Flushes, each of them soon after the one before.
    count: u64,
    /// What was written when clients were last seen to have flushed, and when that was.
    last: Option<(Timestamp, Served)>,
}

impl Flushing {
    fn next(&mut self, written: Served, now: Timestamp) -> bool {
        let (since, before) = *self.last.get_or_insert((now, written));
        let (writes, flushes) = (written.requests - before.requests, written.flushes - before.flushes);
        let is_late =
            now.since(since) > if self.count < FLUSHES_MIN { FLUSHES_WITHIN } else { FLUSHES_ENDED };
        if is_late || writes > WRITES_BETWEEN * flushes.max(1) {
            self.count = 0;
        }
        if flushes > 0 {
            self.count += flushes;
            self.last = Some((now, written));
        }
        self.count >= FLUSHES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destage::{Fill, past::Bound};

    /// Whether writes pass by.
    fn passes(passing: &mut Passing, (dirty, wants_room): (u64, bool), written: Served, now: Timestamp) -> bool {
        let fill = Fill { dirty, low: 85, high: 95 };
        let seen = Seen {
            fill,
            wants_room,
            lacks_memory: false,
            excess: 0.0,
            stripe_blocks: 1,
            written,
            spent: &Default::default,
            now,
        };
        passing.next(&seen).bound == Bound::ALL
    }

    /// Writers are slowed, so that half of what is destaged makes up for what was too much.
    #[test]
    fn what_is_made_up_for_counts_as_served() {
        let mut made_up = MadeUp::default();
        let mut served = |excess: f64, dirty: u64, requests: u64| {
            let written = Served { requests, bytes: requests * BLOCK_BYTES as u64, flushes: 0 };
            let fill = Fill { dirty, low: 85, high: 95 };
            let (spent, now) = (&Default::default, Timestamp::default());
            let seen = Seen { fill, wants_room: true, lacks_memory: false, excess, stripe_blocks: 1, written, spent, now };
            made_up.next(&seen).bytes / BLOCK_BYTES as u64
        };
        assert_eq!(served(0.0, 1000, 10), 10);
        assert_eq!([served(0.2, 900, 20), served(0.2, 850, 70), served(0.1, 800, 120)], [20, 120, 220]);
        assert_eq!([served(0.0, 700, 130), served(0.0, 100, 140)], [230, 240], "no longer slowed");
        assert_eq!([served(0.2, 100, 140), served(0.2, 110, 150)], [240, 240]);
    }

    #[test]
    fn nothing_passes_by_unless_room_is_called_for() {
        let mut passing = Passing::default();
        let served = Served::default();
        let next = |passing: &mut Passing, dirty, wants_room| {
            passes(passing, (dirty, wants_room), served, Timestamp::default())
        };
        assert!(!next(&mut passing, 94, false));
        assert!(next(&mut passing, 86, true) && next(&mut passing, 64, false));
        assert!(!next(&mut passing, 62, false) && !next(&mut passing, 94, false));
    }

    #[test]
    fn writes_may_pass_by_while_clients_flush_all_the_time() {
        let mut passing = Passing::default();
        let mut next = |requests, flushes, ms: u64| {
            let served = Served { requests, bytes: requests, flushes };
            passes(&mut passing, (1, false), served, Timestamp(ms * 1_000_000))
        };
        assert!(!next(1, 100, 1000), "those before it looked first");
        assert!(!next(2, 107, 1900) && next(3, 108, 2900), "each is soon after the last");
        assert!(next(4, 108, 12_900) && !next(5, 108, 12_901), "none for long");
        assert!(!next(6, 115, 13_000) && next(7, 116, 14_000));
        assert!(next(4103, 116, 14_100) && !next(4104, 116, 14_200), "many writes without one");
        assert!(next(5000, 130, 14_300), "many at once");
    }
}
