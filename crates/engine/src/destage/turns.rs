//! Whether a way of serving clients is faster than doing without it, as measured in turns.
//!
//! Both are measured in windows of time. The faster one is kept, and the other tried again now and then, the more seldom
//! the more often it was not better, and at once when the load has changed.

use std::time::Duration;

use stripewise_device::Timestamp;

use crate::members::stats::Served;

/// Time and requests of clients that a measurement takes at least, and its longest time.
const WINDOW: Duration = Duration::from_millis(20);
const WINDOW_REQUESTS: u64 = 128;
const WINDOW_MAX: Duration = Duration::from_secs(1);
/// Measurements after which the other is tried again, at first; twice as many each time it was not better.
const TRIED_AFTER: u32 = 64;
const TRIED_AFTER_MAX: u32 = 512;
/// The way must be faster than doing without it by this factor.
const MARGIN: f64 = 1.05;
/// The longest pause of clients that a measurement may have.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Weight of the newest measurement.
const WEIGHT: f64 = 1.0 / 4.0;
/// The load has changed if so many measurements in a row differ by this factor, up or down, from the rate at the time of
/// the choice. Then the choice is made anew.
const OTHER_LOAD: f64 = 1.25;
const OTHER_LOAD_SEEN: u32 = 3;

/// Measures a way, and doing without it, in turns, and keeps to the better one.
#[derive(Debug)]
pub(crate) struct Turns {
    is_on: bool,
    /// Whether it is better on.
    best: bool,
    /// Bytes in a second, off and on.
    rates: [Option<f64>; 2],
    /// The rate of the best at the time of the choice, and how many measurements in a row were unlike it.
    chosen_at: f64,
    unlike: u32,
    window: Option<(Timestamp, Served)>,
    /// When clients were last seen to have been served, and how often by then.
    last: (Timestamp, u64),
    /// It has just been changed, and requests that were begun before are still under way: this window does not count.
    is_settling: bool,
    /// Measurements until the other is tried.
    left: u32,
    /// Measurements between two such trials.
    between: u32,
}

impl Turns {
    /// Begins with the way on, or off.
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            is_on,
            best: is_on,
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

    /// What is served from now on has nothing to do with the way: the window under way is not counted.
    pub(super) fn pause(&mut self) {
        self.window = None;
    }

    /// Whether the way is on from now on. `served` is what it may make faster. A measurement ends only after a flush if it
    /// must hold some: `over_flushes`.
    pub(crate) fn next(&mut self, served: Served, over_flushes: bool, now: Timestamp) -> bool {
        if self.last.1 != served.requests {
            self.last = (now, served.requests);
        }
        if now.since(self.last.0) > PAUSE_MAX {
            self.window = None;
        }
        match self.window {
            None => self.window = Some((now, served)),
            Some((since, before)) => {
                let (time, requests) = (now.since(since), served.requests - before.requests);
                let is_fair = requests > 0 && (!over_flushes || served.flushes > before.flushes);
                if is_fair && time >= if requests >= WINDOW_REQUESTS { WINDOW } else { WINDOW_MAX } {
                    self.window = Some((now, served));
                    if !std::mem::take(&mut self.is_settling) {
                        self.measured((served.bytes - before.bytes) as f64 / time.as_secs_f64());
                    }
                }
            }
        }
        self.is_on
    }

    /// Clients were served so many bytes in a second.
    fn measured(&mut self, rate: f64) {
        let known = self.rates[usize::from(self.is_on)].filter(|_| self.is_on == self.best);
        self.rates[usize::from(self.is_on)] =
            Some(known.map_or(rate, |known| known + WEIGHT * (rate - known)));
        if self.is_on != self.best {
            return self.choose();
        }
        self.left = self.left.saturating_sub(1);
        let is_like = (self.chosen_at / OTHER_LOAD..self.chosen_at * OTHER_LOAD).contains(&rate);
        self.unlike = if is_like { 0 } else { self.unlike + 1 };
        if self.unlike == OTHER_LOAD_SEEN {
            self.between = TRIED_AFTER;
            self.rates[usize::from(self.is_on)] = Some(rate);
        }
        if self.left == 0 || self.unlike == OTHER_LOAD_SEEN {
            self.turn(!self.best);
        }
    }

    /// Both were measured: keeps to the better one for a while.
    fn choose(&mut self) {
        let [off, on] = self.rates.map(Option::unwrap_or_default);
        let best = on > MARGIN * off;
        self.between = if best == self.best { (2 * self.between).min(TRIED_AFTER_MAX) } else { TRIED_AFTER };
        self.best = best;
        (self.left, self.unlike) = (self.between, 0);
        self.chosen_at = if best { on } else { off };
        self.turn(best);
    }

    fn turn(&mut self, is_on: bool) {
        self.is_settling = is_on != self.is_on;
        self.is_on = is_on;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: u64 = 4096;

    /// Time goes on while clients are served at a rate that the way decides. Returns the share of time that it is on.
    fn live(turns: &mut Turns, clock: &mut Clock, steps: u32, rate: impl Fn(bool) -> u64) -> f64 {
        let mut on = 0;
        for _ in 0..steps {
            let is_on = turns.next(clock.served, false, clock.now);
            on += u32::from(is_on);
            clock.now = Timestamp(clock.now.0 + 10_000_000);
            clock.served.requests += rate(is_on);
            clock.served.bytes += rate(is_on) * REQUEST;
        }
        f64::from(on) / f64::from(steps)
    }

    struct Clock {
        now: Timestamp,
        served: Served,
    }

    fn begin() -> (Turns, Clock) {
        (Turns::new(true), Clock { now: Timestamp::default(), served: Served::default() })
    }

    #[test]
    fn the_faster_way_is_kept_to_and_the_other_tried_seldom() {
        let (mut turns, mut clock) = begin();
        live(&mut turns, &mut clock, 100, |is_on| if is_on { 1000 } else { 400 });
        let on = live(&mut turns, &mut clock, 10_000, |is_on| if is_on { 1000 } else { 400 });
        assert!((0.97..0.999).contains(&on), "{on}");
        live(&mut turns, &mut clock, 2_000, |is_on| if is_on { 1000 } else { 2000 });
        let on = live(&mut turns, &mut clock, 10_000, |is_on| if is_on { 1000 } else { 2000 });
        assert!((0.001..0.03).contains(&on), "the load has changed: {on}");
    }

    #[test]
    fn slow_clients_are_measured_longer_and_silent_ones_not_at_all() {
        let (mut turns, mut clock) = begin();
        live(&mut turns, &mut clock, 1_000, |_| 0);
        assert_eq!(turns.rates, [None; 2]);
        live(&mut turns, &mut clock, 1_000, |is_on| if is_on { 1 } else { 2 });
        assert!(!turns.best, "{turns:?}");
    }
}
