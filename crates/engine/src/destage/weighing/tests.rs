//! Members as a load keeps them busy, and what is chosen.

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
    /// Members that have left.
    left: u64,
    /// Blocks that are no longer dirty.
    clean: u64,
    /// Writes that were gathered so far.
    gathered: f64,
    /// All that is destaged is whole stripes, and writes are gathered if all go through.
    is_stream: bool,
    /// Not even then.
    never_gathers: bool,
    /// What is destaged is on its way as soon as it is dirty: only that writers lack memory shows that the cache is full.
    drains: bool,
    /// What a byte costs if all writes go through.
    gathered_ns: Option<f64>,
}

impl Load {
    /// Clients write for so long, where a byte costs members so many nanoseconds through and back, and members are
    /// busy for a share of the time. Returns the share that went through, and what a byte cost.
    fn run(&mut self, seconds: u64, costs: (f64, f64), busy: f64) -> (f64, f64) {
        self.run_steps(seconds * 1_000_000_000 / STEP_NS, costs, busy)
    }

    fn run_steps(&mut self, steps: u64, (through_ns, back_ns): (f64, f64), busy: f64) -> (f64, f64) {
        let (before, mut ns) = (self.spent, 0.0);
        for _ in 0..steps {
            let share = self.step().bound.bits() as f64 / Bound::ALL.bits() as f64;
            let through_ns = self.gathered_ns.filter(|_| share >= 1.0).unwrap_or(through_ns);
            let time = busy * (STEP_NS * MEMBERS) as f64;
            let bytes = time / (share * through_ns + (1.0 - share) * back_ns);
            let [through, back] = [share * bytes, (1.0 - share) * bytes];
            self.spent.through.ns += (through * through_ns) as u64;
            self.spent.through.bytes += through as u64;
            let writes = through / (BLOCK * self.blocks.max(1)) as f64;
            self.passed += writes;
            let gathers = self.is_stream && share >= 1.0 && !self.never_gathers;
            self.gathered += if gathers { writes } else { 0.0 };
            self.spent.gathered = self.gathered as u64;
            self.spent.through.count = self.passed as u64;
            self.spent.back.ns += (back * back_ns) as u64;
            self.spent.back.bytes += back as u64;
            let destaged = self.spent.back.bytes / BLOCK - self.spent.back.count;
            self.spent.back.count += destaged;
            self.spent.full_blocks += if self.is_stream { destaged } else { 0 };
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
        let spent = || Spent { members: MEMBERS - self.left, ..self.spent };
        let seen = Seen {
            fill: Fill { dirty: HIGH - self.clean, low: HIGH * 85 / 95, high: HIGH },
            wants_room: self.clean == 0 && !self.drains,
            lacks_memory: self.drains,
            excess: 0.0,
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
        [((400.0, 100.0), false), ((100.0, 135.0), true), ((100.0, 105.0), true), ((300.0, 150.0), false)]
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
    load.run(1, large, 1.0);
    assert_eq!(load.step().weighed.why, Why::Unknown);
    load.run(300, large, 1.0);
    assert!(load.run(10, large, 1.0).0 > 0.8);
    for _ in 0..3 {
        load.blocks = 1;
        load.run(1, small, 1.0);
        assert!(load.run(1, small, 1.0).0 < 0.1, "as was known");
        load.blocks = 32;
        load.run(2, large, 1.0);
        assert!(load.run(1, large, 1.0).0 > 0.8, "as was known");
    }
}

#[test]
fn members_that_read_are_busy_too() {
    let mut load = Load { reads: 0.7, ..Load::default() };
    load.run(600, (100.0, 300.0), 0.2);
    assert!(load.weighing.is_through && load.step().weighed.why == Why::Cost);
    // Only readers are left.
    load.run(60, (100.0, 300.0), 1e-9);
    assert!(!load.weighing.is_through);
}

#[test]
fn a_member_that_leaves_takes_what_it_had_spent() {
    let mut load = Load { reads: 0.5, ..Load::default() };
    load.run(600, (100.0, 180.0), 0.4);
    let known = load.weighing.known();
    load.left = 1;
    load.spent.others_ns /= 5;
    load.spent.through.ns /= 5;
    load.spent.back.ns /= 5;
    load.run(1, (100.0, 180.0), 0.4);
    let now = load.weighing.known();
    assert!(now.0 > known.0.map(|ns| 0.9 * ns) && now.1 > known.1.map(|ns| 0.9 * ns), "{known:?} {now:?}");
}

/// What is older was destaged while nothing was measured.
#[test]
fn what_is_older_is_no_more_than_what_is_dirty() {
    let mut load = Load { blocks: 16, ..Load::default() };
    load.run(10, (100.0, 100.0), 1.0);
    assert_eq!(load.weighing.older, 0, "the first size that clients write");
    load.blocks = 1;
    load.run(1, (100.0, 100.0), 1.0);
    assert!(load.weighing.older > HIGH / 2);
    load.clean = HIGH;
    load.step();
    assert_eq!(load.weighing.older, 0);
}

#[test]
fn while_there_is_room_writes_are_put() {
    let mut weighing = Weighing::default();
    let seen = Seen {
        fill: Fill { dirty: 10, low: 85, high: 95 },
        wants_room: false,
        lacks_memory: false,
        excess: 0.0,
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

/// A sample of a stream is not gathered, and so costs members more than the stream would.
#[test]
fn streams_go_the_way_that_serves_them_faster() {
    let mut load = Load { is_stream: true, ..Load::default() };
    load.run(20, (400.0, 100.0), 1.0);
    assert!(load.run(60, (400.0, 100.0), 1.0).0 < 0.1, "the cache serves it faster");
    load.gathered_ns = Some(80.0);
    load.run(60, (400.0, 100.0), 1.0);
    assert!(load.run(60, (400.0, 100.0), 1.0).0 > 0.9);
    // What was on its way to members is there.
    (load.drains, load.clean) = (true, HIGH);
    assert!(load.run(60, (400.0, 100.0), 1.0).0 > 0.9);
    (load.drains, load.clean) = (false, 0);
    load.is_stream = false;
    load.gathered_ns = None;
    load.run(1, (400.0, 100.0), 1.0);
    assert!(load.run(60, (400.0, 100.0), 1.0).0 < 0.1, "no stream any more");
}

/// Most writes of a trial are not gathered.
#[test]
fn a_trial_of_a_stream_is_not_cut_off() {
    let mut load = Load { is_stream: true, never_gathers: true, blocks: 16, ..Load::default() };
    // What is dirty was written.
    load.written.bytes = HIGH * BLOCK;
    load.run(20, (400.0, 100.0), 1.0);
    let mut changes = 0;
    for _ in 0..15_000 {
        let before = load.weighing.streams.is_tried();
        load.run_steps(1, (400.0, 100.0), 1.0);
        changes += u32::from(load.weighing.streams.is_tried() != before);
    }
    assert!((2..=12).contains(&changes), "{changes} in five minutes");
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
            lacks_memory: false,
            excess: 0.0,
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

/// Many blocks become dirty while members work on the first destages, of which none has ended.
#[test]
fn what_a_block_costs_is_not_known_before_some_were_destaged() {
    let mut load = Load::default();
    load.step();
    for clean in [15_000, 0] {
        load.clean = clean;
        load.now += 300_000_000;
        load.spent.back.ns += MEMBERS * 300_000_000;
        load.spent.back.bytes += 1000 * BLOCK;
        load.step();
    }
    load.run(20, (330.0, 250.0), 1.0);
    assert!(load.run(100, (330.0, 250.0), 1.0).0 < 0.1);
}
