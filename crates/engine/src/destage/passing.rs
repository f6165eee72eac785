//! Whether writes that find the cache full pass it by: what serves clients faster, measured in turns.
//!
//! Destages that make room gain where neighbouring blocks become dirty before one of them must go. Under writes without
//! such neighbours, each costs what the write would have cost by itself, and the detour on top. Where clients are served
//! alike, room is made: members have less to do then.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::Fill;
use crate::members::stats::Written;

/// Time and writes of clients that a measurement takes at least, and its longest time.
const WINDOW: Duration = Duration::from_millis(20);
const WINDOW_WRITES: u64 = 128;
const WINDOW_MAX: Duration = Duration::from_secs(1);
/// Measurements after which the other way is tried again, at first; twice as many each time it was not better.
const TRIED_AFTER: u32 = 64;
const TRIED_AFTER_MAX: u32 = 512;
/// Passing by must be faster by this factor.
const MARGIN: f64 = 1.05;
/// A cache is no longer full when the dirty blocks are fewer than the low mark by one part in so many.
const FULL_PARTS: u64 = 4;
/// The longest pause of clients that a measurement may have.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Weight of the newest measurement.
const WEIGHT: f64 = 1.0 / 4.0;
/// The load has changed if so many measurements in a row differ by this factor, up or down, from the rate at the time of
/// the choice. Then the choice is made anew.
const OTHER_LOAD: f64 = 1.25;
const OTHER_LOAD_SEEN: u32 = 3;

/// A way to serve writes while the cache is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They pass by.
    Past,
    /// They wait until room is made.
    Room,
}

impl Way {
    fn other(self) -> Self {
        match self {
            Self::Past => Self::Room,
            Self::Room => Self::Past,
        }
    }
}

/// Measures both ways in turns, and keeps to the better one.
#[derive(Debug)]
pub(crate) struct Passing {
    /// The policy of when has called for room, and since then the cache was never far below its low mark, where
    /// destages that make room stop.
    is_full: bool,
    way: Way,
    best: Way,
    /// Bytes in a second, by [`Way`].
    rates: [Option<f64>; 2],
    /// The rate of the best at the time of the choice, and how many measurements in a row were unlike it.
    chosen_at: f64,
    unlike: u32,
    window: Option<(Timestamp, Written)>,
    /// When clients were last seen to have written, and how often by then.
    last: (Timestamp, u64),
    /// The way has just changed, and requests that went the other way are still under way: this window does not count.
    is_settling: bool,
    /// Measurements until the other way is tried.
    left: u32,
    /// Measurements between two such trials.
    between: u32,
}

impl Default for Passing {
    fn default() -> Self {
        Self {
            is_full: false,
            // Nothing is known: to pass by is what a write does without a cache.
            way: Way::Past,
            best: Way::Past,
            rates: [None; 2],
            chosen_at: 0.0,
            unlike: 0,
            window: None,
            last: Default::default(),
            is_settling: false,
            left: 0,
            between: TRIED_AFTER,
        }
    }
}

impl Passing {
    /// Whether writes pass by from now on. `wants_room` says that the policy of when calls for destages.
    pub(crate) fn next(
        &mut self,
        fill: Fill,
        wants_room: bool,
        written: impl FnOnce() -> Written,
        now: Timestamp,
    ) -> bool {
        self.is_full = wants_room || self.is_full && fill.dirty >= fill.low / FULL_PARTS * (FULL_PARTS - 1);
        if !self.is_full {
            self.window = None;
            return false;
        }
        let written = written();
        if self.last.1 != written.writes {
            self.last = (now, written.writes);
        }
        if now.since(self.last.0) > PAUSE_MAX {
            self.window = None;
        }
        match self.window {
            None => self.window = Some((now, written)),
            Some((since, before)) => {
                let (time, writes) = (now.since(since), written.writes - before.writes);
                if writes > 0 && time >= if writes >= WINDOW_WRITES { WINDOW } else { WINDOW_MAX } {
                    self.window = Some((now, written));
                    if !std::mem::take(&mut self.is_settling) {
                        self.measured((written.bytes - before.bytes) as f64 / time.as_secs_f64());
                    }
                }
            }
        }
        self.way == Way::Past
    }

    /// The way of now has served so many bytes in a second.
    fn measured(&mut self, rate: f64) {
        let known = self.rates[self.way as usize].filter(|_| self.way == self.best);
        self.rates[self.way as usize] = Some(known.map_or(rate, |known| known + WEIGHT * (rate - known)));
        if self.way != self.best {
            return self.choose();
        }
        self.left = self.left.saturating_sub(1);
        let is_like = (self.chosen_at / OTHER_LOAD..self.chosen_at * OTHER_LOAD).contains(&rate);
        self.unlike = if is_like { 0 } else { self.unlike + 1 };
        if self.unlike == OTHER_LOAD_SEEN {
            self.between = TRIED_AFTER;
            self.rates[self.way as usize] = Some(rate);
        }
        if self.left == 0 || self.unlike == OTHER_LOAD_SEEN {
            self.take(self.best.other());
        }
    }

    /// Both ways were measured: keeps to the better one for a while.
    fn choose(&mut self) {
        let [past, room] = self.rates.map(Option::unwrap_or_default);
        let best = if past > MARGIN * room { Way::Past } else { Way::Room };
        self.between = if best == self.best { (2 * self.between).min(TRIED_AFTER_MAX) } else { TRIED_AFTER };
        self.best = best;
        (self.left, self.unlike) = (self.between, 0);
        self.chosen_at = if best == Way::Past { past } else { room };
        self.take(best);
    }

    fn take(&mut self, way: Way) {
        self.is_settling = way != self.way;
        self.way = way;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Fill = Fill { dirty: 95, low: 85, high: 95 };
    const WRITE: u64 = 4096;

    /// Time goes on while clients write at a rate that the way decides. Returns the share of time past the cache.
    fn live(passing: &mut Passing, clock: &mut Clock, steps: u32, rate: impl Fn(bool) -> u64) -> f64 {
        let mut past = 0;
        for _ in 0..steps {
            let passes = passing.next(FULL, true, || clock.written, clock.now);
            past += u32::from(passes);
            clock.now = Timestamp(clock.now.0 + 10_000_000);
            clock.written.writes += rate(passes);
            clock.written.bytes += rate(passes) * WRITE;
        }
        f64::from(past) / f64::from(steps)
    }

    struct Clock {
        now: Timestamp,
        written: Written,
    }

    impl Clock {
        fn new() -> Self {
            Self { now: Timestamp::default(), written: Written { writes: 0, bytes: 0 } }
        }
    }

    #[test]
    fn the_faster_way_is_kept_to_and_the_other_tried_seldom() {
        let (mut passing, mut clock) = (Passing::default(), Clock::new());
        live(&mut passing, &mut clock, 100, |passes| if passes { 1000 } else { 400 });
        let past = live(&mut passing, &mut clock, 10_000, |passes| if passes { 1000 } else { 400 });
        assert!((0.97..1.0).contains(&past), "{past}");
        live(&mut passing, &mut clock, 2_000, |passes| if passes { 1000 } else { 2000 });
        let past = live(&mut passing, &mut clock, 10_000, |passes| if passes { 1000 } else { 2000 });
        assert!((0.001..0.03).contains(&past), "the load has changed: {past}");
    }

    #[test]
    fn slow_clients_are_measured_longer_and_silent_ones_not_at_all() {
        let (mut passing, mut clock) = (Passing::default(), Clock::new());
        live(&mut passing, &mut clock, 1_000, |_| 0);
        assert_eq!(passing.rates, [None; 2]);
        live(&mut passing, &mut clock, 1_000, |passes| if passes { 1 } else { 2 });
        assert_eq!(passing.best, Way::Room, "{passing:?}");
    }

    #[test]
    fn nothing_passes_by_unless_room_is_called_for() {
        let (mut passing, clock) = (Passing::default(), Clock::new());
        let at = |dirty| Fill { dirty, ..FULL };
        let next = |passing: &mut Passing, dirty, wants_room| {
            passing.next(at(dirty), wants_room, || clock.written, clock.now)
        };
        assert!(!next(&mut passing, 94, false));
        assert!(next(&mut passing, 86, true) && next(&mut passing, 64, false));
        assert!(!next(&mut passing, 62, false) && !next(&mut passing, 94, false));
    }
}
