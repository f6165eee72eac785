//! Whether a way of serving clients is faster than doing without it, as measured in turns.
//!
//! Both are measured in windows of time. The faster one is kept, and the other tried again now and then, the more seldom
//! the more often it was not better and the more time the last trial has cost, and soon when the load has changed.

use std::time::Duration;

use smallvec::SmallVec;
use stripewise_device::Timestamp;

use crate::members::stats::Served;

/// Time and requests of clients that a measurement takes at least. With fewer requests it takes the longer time.
const WINDOW: Duration = Duration::from_millis(20);
const WINDOW_REQUESTS: u64 = 128;
const WINDOW_MAX: Duration = Duration::from_secs(1);
/// Measurements after which the other is tried again, at first; twice as many each time it was not better.
const TRIED_AFTER: u32 = 64;
const TRIED_AFTER_MAX: u32 = 512;
/// The share of time that trials may cost clients; and once the load has changed.
const TRIALS_COST: f64 = 0.02;
const TRIALS_COST_CHANGED: f64 = 0.1;
/// A trial's cost counts as no more than this.
const TRIAL_COST_MAX: Duration = Duration::from_secs(4);
/// Measurements of a trial, unless the first is slower than the other way by a factor.
const TRIAL: usize = 3;
const CLEARLY: f64 = 1.5;
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
/// Measurements after a choice before such a change counts, the first time that a change made no difference to the choice,
/// and at most: a load that changes all the time would be served the slower way for half of the time.
const CHANGES_IGNORED: u32 = 8;
const CHANGES_IGNORED_MAX: u32 = 128;

/// What clients flush in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushes {
    /// That makes no difference.
    Any,
    /// Something: flushes are a part of what is measured.
    Within,
    /// Nothing, or it must last long: a flush writes what was put before, too.
    Seldom,
}

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
    /// Measurements after the choice in which another load does not count.
    ignored: u32,
    window: Option<(Timestamp, Served)>,
    /// When clients were last seen to have been served, and how often by then.
    last: (Timestamp, u64),
    /// It has just been changed, or made no difference before: this window does not count.
    is_settling: bool,
    /// The other way seemed better. The load may have changed meanwhile: this one is measured again, and the other must
    /// be better than before and after.
    is_challenged: bool,
    /// What was measured so far of the way that is tried.
    tried: SmallVec<[f64; TRIAL]>,
    /// Measurements until the other is tried.
    left: u32,
    /// Measurements between two such trials.
    between: u32,
    /// When the last trial began, later by the pauses that it had, and how long clients were served in it.
    tried_at: Timestamp,
    tried_for: Duration,
    /// When the last trial ended, and the time that it has cost.
    ended: Timestamp,
    cost: Duration,
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
            ignored: 0,
            window: None,
            last: Default::default(),
            is_settling: true,
            is_challenged: false,
            tried: SmallVec::new(),
            left: 0,
            between: TRIED_AFTER,
            tried_at: Timestamp::default(),
            tried_for: Duration::ZERO,
            ended: Timestamp::default(),
            cost: Duration::ZERO,
        }
    }

    /// What is served now has nothing to do with the way: neither the window under way counts, nor a trial, nor the
    /// first window afterwards. What a trial that this cuts off has cost is estimated by the rates known before.
    pub(super) fn pause(&mut self, now: Timestamp) {
        if let (true, [Some(off), Some(on)]) = (self.is_tried(), self.rates) {
            self.tried_for = self.last.0.since(self.tried_at);
            self.count_cost(off, on, now);
            self.left = self.between;
        }
        self.window = None;
        self.tried.clear();
        self.is_on = self.best;
        self.is_challenged = false;
        self.is_settling = true;
    }

    /// Which way is better, as far as that is known.
    pub(super) fn best(&self) -> bool {
        self.best
    }

    /// Whether the way that is used now is not the better one, as far as that is known.
    pub(super) fn is_tried(&self) -> bool {
        self.is_on != self.best
    }

    /// Whether both were measured, and it is better on.
    pub(super) fn known_best(&self) -> bool {
        self.best && self.rates.iter().all(Option::is_some)
    }

    /// As long as they have not both been measured, this way is taken for the better one, from the next pause on.
    pub(super) fn expect(&mut self, is_on: bool) {
        if self.rates.iter().any(Option::is_none) {
            self.best = is_on;
        }
    }

    /// Whether the way is on from now on. `served` is what it may make faster.
    pub(crate) fn next(&mut self, served: Served, flushes: Flushes, now: Timestamp) -> bool {
        let is_served = self.last.1 != served.requests;
        let unserved = now.since(self.last.0);
        if unserved > PAUSE_MAX {
            self.window = None;
            if is_served {
                self.tried_at = Timestamp(self.tried_at.0.saturating_add(unserved.as_nanos() as u64));
            }
        }
        if is_served {
            self.last = (now, served.requests);
        }
        match self.window {
            None if is_served => self.window = Some((now, served)),
            None => {}
            Some((since, before)) => {
                let (time, requests) = (now.since(since), served.requests - before.requests);
                let has_flush = served.flushes > before.flushes;
                let is_fair = requests > 0 && (flushes != Flushes::Within || has_flush);
                let is_long = requests < WINDOW_REQUESTS || has_flush && flushes == Flushes::Seldom;
                if is_fair && time >= if is_long { WINDOW_MAX } else { WINDOW } {
                    self.window = Some((now, served));
                    if !std::mem::take(&mut self.is_settling) {
                        let bytes = served.bytes.saturating_sub(before.bytes);
                        self.measured(bytes as f64 / time.as_secs_f64(), now);
                    }
                }
            }
        }
        self.is_on
    }

    /// Clients were served so many bytes in a second.
    fn measured(&mut self, rate: f64, now: Timestamp) {
        if self.rates.iter().any(Option::is_none) || self.is_tried() || self.is_challenged {
            self.tried.push(rate);
            let known = self.rates[usize::from(self.best)].filter(|_| self.is_tried());
            let is_slow = |known| rate < known / CLEARLY && self.tried.len() == 1;
            if self.tried.len() == TRIAL || known.is_some_and(is_slow) {
                self.end_trial(now);
            }
            return;
        }
        let known = &mut self.rates[usize::from(self.is_on)];
        *known = Some(known.map_or(rate, |known| known + WEIGHT * (rate - known)));
        self.left = self.left.saturating_sub(1);
        let is_like = (self.chosen_at / OTHER_LOAD..self.chosen_at * OTHER_LOAD).contains(&rate);
        let since_choice = self.between.saturating_sub(self.left);
        let is_ignored = self.left > 0 && since_choice <= self.ignored;
        self.unlike = if is_like || is_ignored { 0 } else { self.unlike.saturating_add(1) };
        let is_other_load = self.unlike >= OTHER_LOAD_SEEN && self.affords_trial(TRIALS_COST_CHANGED, now);
        if is_other_load {
            self.between = TRIED_AFTER;
            self.rates[usize::from(self.is_on)] = Some(rate);
        }
        if is_other_load || self.left == 0 && self.affords_trial(TRIALS_COST, now) {
            self.turn(!self.best, now);
        }
    }

    /// The way that is used was measured often enough. One window may have had a pause, or a burst: the median counts.
    fn end_trial(&mut self, now: Timestamp) {
        if self.is_tried() {
            self.tried_for = self.last.0.since(self.tried_at);
        }
        self.tried.sort_unstable_by(f64::total_cmp);
        let median = self.tried[self.tried.len() / 2];
        self.tried.clear();
        let known = &mut self.rates[usize::from(self.is_on)];
        let is_first = known.is_none();
        *known = Some(known.filter(|_| self.is_challenged).map_or(median, |before| before.max(median)));
        let [Some(off), Some(on)] = self.rates else { return self.turn(!self.is_on, now) };
        if !is_first && self.is_tried() && is_better(on, off) != self.best {
            self.is_challenged = true;
            return self.turn(self.best, now);
        }
        self.is_challenged = false;
        self.choose(off, on, now);
    }

    /// Both were measured: keeps to the better one for a while.
    fn choose(&mut self, off: f64, on: f64, now: Timestamp) {
        let best = is_better(on, off);
        self.count_cost(off, on, now);
        self.between = if best == self.best { (2 * self.between).min(TRIED_AFTER_MAX) } else { TRIED_AFTER };
        self.ignored = match self.unlike >= OTHER_LOAD_SEEN {
            _ if best != self.best => 0,
            true => (2 * self.ignored).clamp(CHANGES_IGNORED, CHANGES_IGNORED_MAX),
            false => self.ignored / 2,
        };
        self.best = best;
        (self.left, self.unlike) = (self.between, 0);
        self.chosen_at = if best { on } else { off };
        self.turn(best, now);
    }

    /// A trial of the way that was not the better one has ended. It has cost clients the time that the better way would have saved.
    fn count_cost(&mut self, off: f64, on: f64, now: Timestamp) {
        let (best, tried) = if self.best { (on, off) } else { (off, on) };
        self.ended = now;
        let slower_by = (1.0 - tried / best.max(f64::MIN_POSITIVE)).max(0.0);
        self.cost = self.tried_for.mul_f64(slower_by).min(TRIAL_COST_MAX);
    }

    /// Whether so long has passed since the last trial that its cost is no more than this share of the time.
    fn affords_trial(&self, share: f64, now: Timestamp) -> bool {
        now.since(self.ended).mul_f64(share) >= self.cost
    }

    fn turn(&mut self, is_on: bool, now: Timestamp) {
        self.is_settling |= is_on != self.is_on;
        self.is_on = is_on;
        if self.is_tried() {
            self.tried_at = now;
        }
    }
}

/// Whether a way is better on, with these rates.
fn is_better(on: f64, off: f64) -> bool {
    on > MARGIN * off
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: u64 = 4096;

    /// Time goes on while clients are served at a rate that the way decides. Returns the share of time that it is on.
    fn live(turns: &mut Turns, clock: &mut Clock, steps: u32, rate: impl Fn(bool) -> u64) -> f64 {
        let mut on = 0;
        for _ in 0..steps {
            let is_on = turns.next(clock.served, Flushes::Seldom, clock.now);
            on += u32::from(is_on);
            clock.now = Timestamp(clock.now.0 + 10_000_000);
            clock.served.requests += rate(is_on);
            clock.served.bytes += rate(is_on) * REQUEST;
        }
        f64::from(on) / f64::from(steps)
    }

    /// Goes on until both ways are known, and then until the other one is tried again.
    fn until_trial(turns: &mut Turns, clock: &mut Clock, rate: impl Fn(bool) -> u64) {
        live(turns, clock, 1_000, &rate);
        while !turns.is_tried() {
            live(turns, clock, 1, &rate);
        }
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

    /// The windows of the faster way take 20 ms each, and those of the other a second.
    #[test]
    fn trials_of_a_much_slower_way_cost_little() {
        let (mut turns, mut clock) = begin();
        let rate = |is_on| if is_on { 1000 } else { 1 };
        live(&mut turns, &mut clock, 1_000, rate);
        let on = live(&mut turns, &mut clock, 100_000, rate);
        assert!((0.97..0.999).contains(&on), "{on}: {turns:?}");
        let on = (0..1_000).map(|_| {
            turns.pause(clock.now);
            live(&mut turns, &mut clock, 150, rate)
        });
        let on = on.sum::<f64>() / 1_000.0;
        assert!((0.97..0.999).contains(&on), "trials that are cut off cost the same: {on}: {turns:?}");
    }

    /// A reader may go in the middle of a trial, and the next come much later.
    #[test]
    fn a_pause_in_a_trial_costs_nothing() {
        let (mut turns, mut clock) = begin();
        let rate = |is_on| if is_on { 1000 } else { 10 };
        until_trial(&mut turns, &mut clock, rate);
        live(&mut turns, &mut clock, 5, rate);
        clock.now.0 += 3_600_000_000_000;
        let before = turns.cost;
        live(&mut turns, &mut clock, 500, rate);
        assert!(
            !turns.is_tried() && turns.cost != before && turns.cost < Duration::from_secs(2),
            "{turns:?}"
        );
    }

    #[test]
    fn a_load_that_changes_soon_after_a_trial_is_soon_served_the_other_way() {
        let (mut turns, mut clock) = begin();
        let rate = |is_on| if is_on { 1000 } else { 2 };
        until_trial(&mut turns, &mut clock, rate);
        live(&mut turns, &mut clock, 200, rate);
        let on = live(&mut turns, &mut clock, 5_000, |is_on| if is_on { 300 } else { 1000 });
        assert!(!turns.best && on < 0.5, "{on}: {turns:?}");
    }

    #[test]
    fn once_a_trial_is_due_no_change_is_ignored() {
        let (mut turns, mut clock) = begin();
        live(&mut turns, &mut clock, 1_000, |is_on| if is_on { 1000 } else { 300 });
        (turns.ignored, turns.between, turns.left) = (CHANGES_IGNORED_MAX, CHANGES_IGNORED_MAX, 0);
        (turns.ended, turns.cost) = (clock.now, Duration::from_secs(1));
        let on = live(&mut turns, &mut clock, 3_000, |is_on| if is_on { 200 } else { 1000 });
        assert!(!turns.best && on < 0.5, "{on}: {turns:?}");
    }

    #[test]
    fn slow_clients_are_measured_longer_and_silent_ones_not_at_all() {
        let (mut turns, mut clock) = begin();
        live(&mut turns, &mut clock, 1_000, |_| 0);
        assert_eq!(turns.rates, [None; 2]);
        live(&mut turns, &mut clock, 1_000, |is_on| if is_on { 1 } else { 2 });
        assert!(!turns.best, "{turns:?}");
    }

    #[test]
    fn a_flush_now_and_then_and_a_pause_do_not_mislead() {
        let (mut turns, mut clock) = begin();
        for step in 0..1_000 {
            // What comes with a flush is slow either way.
            let is_odd = step % 10 == 0;
            clock.served.flushes += u64::from(is_odd);
            live(&mut turns, &mut clock, 1, |is_on| if is_on && !is_odd { 1000 } else { 400 });
            live(&mut turns, &mut clock, 5, |is_on| if is_on { 1000 } else { 400 });
        }
        assert!(turns.best, "{turns:?}");
        live(&mut turns, &mut clock, 100, |_| 0);
        let known = turns.rates[1];
        live(&mut turns, &mut clock, 10, |is_on| if is_on { 1000 } else { 400 });
        assert!(turns.rates[1] >= known, "the pause was not a part of a window: {known:?}, {turns:?}");
    }

    #[test]
    fn a_load_that_changes_all_the_time_is_mostly_served_the_faster_way() {
        let (mut turns, mut clock) = begin();
        let (mut on, mut steps) = (0.0, 0);
        for round in 0..500 {
            let (load, lasts) = (1 + round % 2, 10 + (round * 17 % 53) as u32);
            on += f64::from(lasts)
                * live(&mut turns, &mut clock, lasts, |is_on| load * if is_on { 1000 } else { 600 });
            steps += lasts;
        }
        let share = on / f64::from(steps);
        assert!(turns.best && share > 0.95, "{share}");
    }

    #[test]
    fn what_is_expected_holds_until_both_ways_were_measured() {
        let (mut turns, mut clock) = begin();
        turns.expect(true);
        turns.pause(clock.now);
        assert_eq!(live(&mut turns, &mut clock, 4, |_| 100), 1.0);
        turns.expect(false);
        turns.pause(clock.now);
        assert_eq!(live(&mut turns, &mut clock, 4, |_| 100), 0.0);
        live(&mut turns, &mut clock, 400, |is_on| if is_on { 200 } else { 100 });
        turns.expect(false);
        turns.pause(clock.now);
        assert_eq!(live(&mut turns, &mut clock, 4, |is_on| if is_on { 200 } else { 100 }), 1.0);
    }

    #[test]
    fn one_slow_window_does_not_decide() {
        let (mut turns, mut clock) = begin();
        live(&mut turns, &mut clock, 5, |_| 1000);
        // Of the first trial.
        live(&mut turns, &mut clock, 2, |_| 10);
        let on = live(&mut turns, &mut clock, 100, |is_on| if is_on { 1000 } else { 800 });
        assert!(turns.best && on > 0.9, "{on}: {turns:?}");
    }
}
