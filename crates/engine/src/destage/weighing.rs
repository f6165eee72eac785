//! `auto`: through or back, by how long members are occupied by a byte of the clients.
//!
//! While there is room, writes are put: the cache takes a burst as fast as memory does. Once it is full, members
//! decide how fast clients are served, and the way that occupies them for a shorter time is the faster one. Both are
//! measured at the same time: a sample of the stripes, a small share, goes the other way. It has no more than its share of
//! the cache, so that it finds what all stripes would find.
//!
//! Where members are not the limit, such as flash under a few clients, or where both ways occupy them alike,
//! [turns](super::Turns) decide.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::{
    Passing, PastPolicy,
    past::{Account, Bound, Past, Seen, Spent, Verdict, Weighed, Why},
};

pub(super) static POLICY: PastPolicy = PastPolicy {
    name: "cost",
    number: 2,
    summary: "past a full cache if members are occupied for a shorter time so, as a sample of stripes shows",
    make: || Box::new(Weighing::default()),
};

/// How long what is spent is summed up before it is looked at.
const WINDOW: Duration = Duration::from_millis(200);
/// Members are the limit if they were occupied for so much of the time.
const BUSY: f64 = 0.5;
/// What the sample may cost: the other way's extra time, of all time.
const SAMPLE_COST: f64 = 0.003;
/// The bounds on the sample's share, and what it is until both ways are known: so large that this is soon.
const SAMPLE_MIN: f64 = 1.0 / 2048.0;
const SAMPLE_MAX: f64 = 1.0 / 64.0;
const SAMPLE_FIRST: f64 = 1.0 / 16.0;
/// A sample that goes by way of the cache has room for so many stripes at least, and no more than this share of it.
const SAMPLE_STRIPES: u64 = 8;
const SAMPLE_ROOM_MAX: f64 = 0.25;
/// A way is known after so many writes past the cache, or destaged blocks.
const KNOWN_WRITES: f64 = 64.0;
const KNOWN_BLOCKS: f64 = 256.0;
/// After so many times as much, it counts half.
const HALVED_AFTER: f64 = 8.0;
/// Costs that differ by less than this factor are alike.
const ALIKE: f64 = 1.5;
/// Writes went past the cache, so many in a window at least, and members were not busy: each client waits for one write
/// after the other. That is not tried again for so long.
const PASSED_MIN: u64 = 8;
const NOT_AGAIN: Duration = Duration::from_secs(60);
/// Weight of the newest measurement of what a destaged block takes.
const WEIGHT: f64 = 1.0 / 4.0;

/// Weighs the ways.
#[derive(Debug, Default)]
struct Weighing {
    is_full: bool,
    /// Writes go past the cache, but for the sample.
    is_through: bool,
    /// When it began, what had been spent by then, and how many blocks were dirty.
    window: Option<(Timestamp, Spent, u64)>,
    through: Cost,
    back: Cost,
    /// What a destaged block takes.
    block_ns: Option<f64>,
    /// How busy members were in the last window; none before there was one.
    busy: Option<f64>,
    /// Not through before.
    not_before: Timestamp,
    turns: Passing,
}

/// What one way has cost lately.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    ns: f64,
    bytes: f64,
    count: f64,
}

impl Cost {
    fn add(&mut self, ns: f64, bytes: u64, count: u64) {
        self.ns += ns;
        self.bytes += bytes as f64;
        self.count += count as f64;
    }

    fn halve(&mut self) {
        self.ns /= 2.0;
        self.bytes /= 2.0;
        self.count /= 2.0;
    }

    /// Of a byte, in nanoseconds.
    fn of_byte(&self, known_after: f64) -> Option<f64> {
        (self.count >= known_after && self.bytes > 0.0).then(|| self.ns.max(0.0) / self.bytes)
    }
}

impl Past for Weighing {
    fn next(&mut self, seen: &Seen<'_>) -> Verdict {
        self.is_full = self.is_through || seen.is_full(self.is_full);
        if !self.is_full {
            self.window = None;
            self.busy = None;
            return self.turns.next(seen);
        }
        self.measure(seen);
        if self.is_through {
            let share = self.sample().max(self.room_of_sample(seen));
            return self.verdict(Bound::share(1.0 - share), share);
        }
        if self.busy.is_some_and(|busy| busy < BUSY) || self.are_alike() {
            return self.turns.next(seen);
        }
        self.turns.pause();
        self.verdict(Bound::share(self.sample()), 1.0)
    }
}

impl Weighing {
    /// Takes note of what was spent since the window began, if it is over.
    fn measure(&mut self, seen: &Seen<'_>) {
        let Some((since, before, dirty)) = self.window else {
            self.window = Some((seen.now, (seen.spent)(), seen.fill.dirty));
            return;
        };
        let time = seen.now.since(since);
        if time < WINDOW {
            return;
        }
        let spent = (seen.spent)();
        self.window = Some((seen.now, spent, seen.fill.dirty));
        let [through, back] =
            [(spent.through, before.through), (spent.back, before.back)].map(|(now, before)| Account {
                ns: now.ns.saturating_sub(before.ns),
                bytes: now.bytes.saturating_sub(before.bytes),
                count: now.count.saturating_sub(before.count),
            });
        if back.count > 0 {
            let of_block = back.ns as f64 / back.count as f64;
            let known = self.block_ns.get_or_insert(of_block);
            *known += WEIGHT * (of_block - *known);
        }
        // What has become dirty is still to be destaged.
        let owed = (seen.fill.dirty as f64 - dirty as f64) * self.block_ns.unwrap_or(0.0);
        self.through.add(through.ns as f64, through.bytes, through.count);
        self.back.add(back.ns as f64 + owed, back.bytes, back.count);
        let busy = (through.ns + back.ns) as f64 / (time.as_nanos() as f64 * spent.members.max(1) as f64);
        self.busy = Some(busy);
        if self.through.count > HALVED_AFTER * KNOWN_WRITES && self.back.count > HALVED_AFTER * KNOWN_BLOCKS {
            self.through.halve();
            self.back.halve();
        }
        self.choose(busy, through.count, seen.now);
    }

    /// Chooses anew, after a window with so many writes past the cache.
    fn choose(&mut self, busy: f64, passed: u64, now: Timestamp) {
        let (Some(through), Some(back)) = self.known() else { return };
        if self.is_through {
            let is_slack = busy < BUSY;
            self.is_through = !is_slack && through <= back;
            if is_slack && passed >= PASSED_MIN {
                self.not_before = Timestamp(now.0 + NOT_AGAIN.as_nanos() as u64);
            }
        } else {
            self.is_through = busy >= BUSY && ALIKE * through <= back && now >= self.not_before;
        }
    }

    /// Whether both ways cost nearly the same: then what else they cost decides.
    fn are_alike(&self) -> bool {
        matches!(self.known(), (Some(through), Some(back)) if through < ALIKE * back && back < ALIKE * through)
    }

    /// What a byte costs through, and back.
    fn known(&self) -> (Option<f64>, Option<f64>) {
        (self.through.of_byte(KNOWN_WRITES), self.back.of_byte(KNOWN_BLOCKS))
    }

    /// The share of stripes that goes the other way.
    fn sample(&self) -> f64 {
        let (Some(through), Some(back)) = self.known() else { return SAMPLE_FIRST };
        let (chosen, other) = if self.is_through { (through, back) } else { (back, through) };
        if other <= 0.0 { SAMPLE_MAX } else { (SAMPLE_COST * chosen / other).clamp(SAMPLE_MIN, SAMPLE_MAX) }
    }

    /// The share of the cache without which a sample there would show nothing.
    fn room_of_sample(&self, seen: &Seen<'_>) -> f64 {
        let blocks = SAMPLE_STRIPES * seen.stripe_blocks;
        (blocks as f64 / seen.fill.high.max(1) as f64).min(SAMPLE_ROOM_MAX)
    }

    fn verdict(&self, bound: Bound, share: f64) -> Verdict {
        let (through_ns, back_ns) = self.known();
        let sample = if self.is_through { share } else { self.sample() };
        let why = if through_ns.is_some() && back_ns.is_some() { Why::Cost } else { Why::Unknown };
        let weighed = Weighed { passes: self.is_through, why, sample, through_ns, back_ns };
        Verdict { bound, share, weighed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{destage::Fill, members::stats::Served};

    const MEMBERS: u64 = 5;
    const STEP_NS: u64 = 20_000_000;
    const BLOCK: u64 = 4096;
    const HIGH: u64 = 100_000;

    /// Members, and clients that keep them busy.
    #[derive(Default)]
    struct Load {
        weighing: Weighing,
        now: u64,
        spent: Spent,
        /// Bytes that clients wrote so far.
        written: u64,
    }

    impl Load {
        /// Clients write for so long, where a byte costs members so many nanoseconds through and back, and members are
        /// busy for a share of the time. Returns the share that went through, and what a byte cost.
        fn run(&mut self, seconds: u64, (through_ns, back_ns): (f64, f64), busy: f64) -> (f64, f64) {
            let (before, mut ns) = (self.spent, 0.0);
            for _ in 0..seconds * 1_000_000_000 / STEP_NS {
                let share = self.step().bound.bits() as f64 / Bound::ALL.bits() as f64;
                let time = busy * (STEP_NS * MEMBERS) as f64;
                let bytes = time / (share * through_ns + (1.0 - share) * back_ns);
                let [through, back] = [share * bytes, (1.0 - share) * bytes];
                self.spent.through.ns += (through * through_ns) as u64;
                self.spent.through.bytes += through as u64;
                self.spent.through.count = self.spent.through.bytes / BLOCK;
                self.spent.back.ns += (back * back_ns) as u64;
                self.spent.back.bytes += back as u64;
                self.spent.back.count = self.spent.back.bytes / BLOCK;
                (self.written, ns) = (self.written + bytes as u64, ns + time);
                self.now += STEP_NS;
            }
            let through = self.spent.through.bytes - before.through.bytes;
            let back = self.spent.back.bytes - before.back.bytes;
            (through as f64 / (through + back) as f64, ns / (through + back) as f64)
        }

        fn step(&mut self) -> Verdict {
            let spent = || Spent { members: MEMBERS, ..self.spent };
            let seen = Seen {
                fill: Fill { dirty: HIGH, low: HIGH * 85 / 95, high: HIGH },
                wants_room: true,
                stripe_blocks: 128,
                written: Served { requests: self.written / BLOCK, bytes: self.written, flushes: 0 },
                spent: &spent,
                now: Timestamp(self.now),
            };
            self.weighing.next(&seen)
        }
    }

    #[test]
    fn the_way_that_occupies_members_less_is_taken_and_the_other_costs_little() {
        let mut load = Load::default();
        for (costs, goes_through) in
            [((400.0, 100.0), false), ((100.0, 180.0), true), ((100.0, 105.0), true), ((300.0, 150.0), false)]
        {
            load.run(600, costs, 1.0);
            let (through, cost) = load.run(300, costs, 1.0);
            let (best, what) = (f64::min(costs.0, costs.1), format!("{costs:?}: {through}, {cost}"));
            assert_eq!(through > 0.5, goes_through, "{what}");
            assert!((0.000_5..0.999_5).contains(&through), "both are measured: {what}");
            assert!(cost < 1.05 * best, "{what}");
            if !goes_through {
                assert!(cost < 1.02 * best, "{what}");
            }
        }
    }

    #[test]
    fn while_there_is_room_writes_are_put() {
        let mut weighing = Weighing::default();
        let seen = Seen {
            fill: Fill { dirty: 10, low: 85, high: 95 },
            wants_room: false,
            stripe_blocks: 128,
            written: Served::default(),
            spent: &Spent::default,
            now: Timestamp(1),
        };
        let verdict = weighing.next(&seen);
        assert_eq!((verdict.bound, verdict.weighed.why), (Bound::NONE, Why::Room));
    }

    #[test]
    fn where_both_ways_are_alike_turns_decide() {
        let mut load = Load::default();
        load.run(60, (100.0, 110.0), 1.0);
        assert_eq!(load.step().weighed.why, Why::Served);
        load.run(600, (100.0, 50.0), 1.0);
        assert_eq!(load.step().weighed.why, Why::Cost);
    }

    #[test]
    fn members_that_are_not_busy_decide_nothing() {
        let mut load = Load::default();
        load.run(60, (100.0, 300.0), 0.2);
        assert_eq!(load.step().weighed.why, Why::Served);
        assert!(!load.weighing.is_through);
        load.run(600, (100.0, 300.0), 1.0);
        assert!(load.weighing.is_through);
        load.run(1, (100.0, 300.0), 0.3);
        assert!(!load.weighing.is_through, "each client waits for one write after the other");
        load.run(30, (100.0, 300.0), 1.0);
        assert!(!load.weighing.is_through);
        load.run(600, (100.0, 300.0), 1.0);
        assert!(load.weighing.is_through);
    }

    /// What is destaged later is owed until then.
    #[test]
    fn a_cache_that_fills_up_is_not_taken_for_fast() {
        let mut weighing = Weighing { is_full: true, ..Weighing::default() };
        let mut spent = Spent { members: MEMBERS, ..Spent::default() };
        for step in 0..1000_u64 {
            // Half of what is put is not destaged yet.
            spent.back.bytes += 2 * 64 * BLOCK;
            spent.back.count += 64;
            spent.back.ns += 64 * BLOCK * 100;
            spent.through.bytes += 8 * BLOCK;
            spent.through.count += 8;
            spent.through.ns += 8 * BLOCK * 100;
            let now = spent;
            let seen = Seen {
                fill: Fill { dirty: HIGH + 64 * step, low: HIGH, high: HIGH },
                wants_room: true,
                stripe_blocks: 128,
                written: Served::default(),
                spent: &|| now,
                now: Timestamp(step * WINDOW.as_nanos() as u64),
            };
            weighing.next(&seen);
        }
        let (through, back) = weighing.known();
        let ratio = back.unwrap() / through.unwrap();
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
    }
}
