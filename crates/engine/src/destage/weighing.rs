//! `auto`: through or back, by how long members are occupied by a byte of the clients.
//!
//! While there is room, writes are put: the cache takes a burst as fast as memory does. Once it is full, members
//! decide how fast clients are served, and the way that occupies them for a shorter time is the faster one. Both are
//! measured at the same time: a sample of the stripes, a small share, goes the other way. It has no more than its share of
//! the cache, so that it finds what all stripes would find. Writes of each size are weighed by themselves.
//!
//! Where members are not the limit, such as flash under a few clients, or where both ways occupy them alike,
//! [turns](super::Turns) decide.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::{
    Passing, PastPolicy,
    past::{Bound, Past, Seen, Spent, Verdict, Weighed, Why},
    ways::{SIZES, Ways, size_of},
};
use crate::members::stats::Served;

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
/// Costs that differ by less than this factor are alike.
const ALIKE: f64 = 1.25;
/// Writes went past the cache, so many in a window at least, and members were not busy: each client waits for one write
/// after the other. That is not tried again for so long.
const PASSED_MIN: u64 = 8;
const NOT_AGAIN: Duration = Duration::from_secs(60);
/// Weight of the newest measurement of what a destaged block takes.
const WEIGHT: f64 = 1.0 / 4.0;

/// What is summed up.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Timestamp,
    /// What had been spent by then, what clients had written, and how many blocks were dirty.
    spent: Spent,
    written: Served,
    dirty: u64,
}

impl Window {
    fn new(seen: &Seen<'_>) -> Self {
        Self { since: seen.now, spent: (seen.spent)(), written: seen.written, dirty: seen.fill.dirty }
    }
}

/// Weighs the ways.
#[derive(Debug, Default)]
struct Weighing {
    is_full: bool,
    /// Writes go past the cache, but for the sample.
    is_through: bool,
    window: Option<Window>,
    /// What the ways cost, by the size of writes.
    ways: [Ways; SIZES],
    /// Which size clients write now.
    size: usize,
    /// Blocks that were dirty when the size changed, and are not destaged yet: what they take says nothing of writes of the
    /// new size.
    older: u64,
    /// What a destaged block takes.
    block_ns: Option<f64>,
    /// How busy members were in the last window; none before there was one.
    busy: Option<f64>,
    /// Not through before.
    not_before: Timestamp,
    turns: Passing,
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
        let (through, back) = self.known();
        self.turns.pause(through.zip(back).map(|(through, back)| through < back));
        self.verdict(Bound::share(self.sample()), 1.0)
    }
}

impl Weighing {
    /// Takes note of what was spent since the window began, if it is over.
    fn measure(&mut self, seen: &Seen<'_>) {
        let Some(before) = self.window else {
            self.window = Some(Window::new(seen));
            return;
        };
        let time = seen.now.since(before.since);
        if time < WINDOW {
            return;
        }
        let now = Window::new(seen);
        self.window = Some(now);
        let (spent, earlier) = (now.spent, before.spent);
        let [through, back] = [(spent.through, earlier.through), (spent.back, earlier.back)]
            .map(|(now, before)| now.since(before));
        if back.count > 0 {
            let of_block = back.ns as f64 / back.count as f64;
            let known = self.block_ns.get_or_insert(of_block);
            *known += WEIGHT * (of_block - *known);
        }
        self.look_at_size(before, now);
        let ways = &mut self.ways[self.size];
        ways.through.add(through.ns as f64, through.bytes, through.count);
        if self.older == 0 {
            // What has become dirty is still to be destaged.
            let owed = (now.dirty as f64 - before.dirty as f64) * self.block_ns.unwrap_or(0.0);
            ways.back.add(back.ns as f64 + owed, back.bytes, back.count);
        }
        self.older = self.older.saturating_sub(back.count);
        ways.fade();
        let occupied_ns = through.ns + back.ns + (spent.others_ns - earlier.others_ns);
        let busy = occupied_ns as f64 / (time.as_nanos() as f64 * spent.members.max(1) as f64);
        self.busy = Some(busy);
        self.choose(busy, through.count, seen.now);
    }

    /// Which size clients wrote in a window. If it is another one, what is dirty by now is older.
    fn look_at_size(&mut self, before: Window, now: Window) {
        let requests = now.written.requests - before.written.requests;
        if requests == 0 {
            return;
        }
        let size = size_of((now.written.bytes - before.written.bytes) / requests);
        if size != self.size {
            (self.size, self.older) = (size, before.dirty);
            // What was chosen for another size says nothing.
            self.is_through &= !matches!(self.known(), (None, _) | (_, None));
        }
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

    /// What a byte of writes of this size costs through, and back.
    fn known(&self) -> (Option<f64>, Option<f64>) {
        self.ways[self.size].known()
    }

    /// The share of stripes that goes the other way.
    fn sample(&self) -> f64 {
        let (through, back) = self.known();
        let (chosen, other) = if self.is_through { (through, back) } else { (back, through) };
        match (chosen, other) {
            (_, None) => SAMPLE_FIRST,
            (Some(chosen), Some(other)) if other > 0.0 => {
                (SAMPLE_COST * chosen / other).clamp(SAMPLE_MIN, SAMPLE_MAX)
            }
            _ => SAMPLE_MAX,
        }
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
    use crate::destage::Fill;

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
        /// What clients wrote so far.
        written: Served,
        /// Writes that passed by so far.
        passed: f64,
        /// Blocks of a write.
        blocks: u64,
        /// The share of the time that members read.
        reads: f64,
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
                self.passed += through / (BLOCK * self.blocks.max(1)) as f64;
                self.spent.through.count = self.passed as u64;
                self.spent.back.ns += (back * back_ns) as u64;
                self.spent.back.bytes += back as u64;
                self.spent.back.count = self.spent.back.bytes / BLOCK;
                self.spent.others_ns += (self.reads * (STEP_NS * MEMBERS) as f64) as u64;
                let request = BLOCK * self.blocks.max(1);
                self.written.bytes += bytes as u64 / request * request;
                self.written.requests += bytes as u64 / request;
                ns += time;
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
                written: self.written,
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

    /// Both are known from before, and neither is taken for the other.
    #[test]
    fn each_size_of_writes_has_its_own_way() {
        let mut load = Load::default();
        let (small, large) = ((400.0, 100.0), (100.0, 200.0));
        load.run(300, small, 1.0);
        load.blocks = 32;
        assert!(load.run(1, large, 1.0).0 < 0.1, "not known yet");
        load.run(300, large, 1.0);
        assert!(load.run(10, large, 1.0).0 > 0.8);
        for _ in 0..3 {
            load.blocks = 1;
            load.run(1, small, 1.0);
            assert!(load.run(1, small, 1.0).0 < 0.1, "as was known");
            load.blocks = 32;
            load.run(1, large, 1.0);
            assert!(load.run(1, large, 1.0).0 > 0.8, "as was known");
        }
    }

    #[test]
    fn members_that_read_are_busy_too() {
        let mut load = Load { reads: 0.7, ..Load::default() };
        load.run(600, (100.0, 300.0), 0.2);
        assert!(load.weighing.is_through && load.step().weighed.why == Why::Cost);
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
