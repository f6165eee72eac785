//! The drive alone, driven by a closed loop without executor.

use fastrand::Rng;

use super::*;
use crate::model::{ClosedLoop, ModelOp, Window};

const READ: ModelOp = ModelOp::Read;
const WRITE: ModelOp = ModelOp::Write { fua: false };
const FUA: ModelOp = ModelOp::Write { fua: true };
const FLUSH: (ModelOp, u64, u64) = (ModelOp::Flush, 0, 0);

/// A drive of 4 x 2 dies, small enough to be filled in a moment: 64 MiB of flash.
fn small() -> SsdParams {
    SsdParams {
        name: "small",
        sectors: 100_000 / 8 * 8,
        channels: 4,
        dies_per_channel: 2,
        blocks_per_die: 128,
        pages_per_block: 16,
        page_units: 1,
        pages_per_program: 1,
        read_ns: 50_000,
        program_ns: 500_000,
        erase_ns: 2_000_000,
        channel_bytes_per_s: 200_000_000,
        command_ns: 1_000,
        status_ns: 1_000,
        interface_bytes_per_s: 2_000_000_000,
        queue_depth: 64,
        buffer_units: 32,
        write_buffer: true,
        power_loss_protected: false,
    }
}

fn presets() -> [SsdParams; 3] {
    [SsdParams::intel_x25e_64(), SsdParams::intel_535_120(), SsdParams::samsung_980_pro_1tb()]
}

fn random(op: ModelOp, count: usize, units: u32, seed: u64) -> impl Iterator<Item = (ModelOp, u64, u64)> {
    let mut rng = Rng::with_seed(seed);
    (0..count).map(move |_| (op, u64::from(rng.u32(..units)) * UNIT_BYTES, UNIT_BYTES))
}

fn sequential(op: ModelOp, len: u64, count: u64) -> impl Iterator<Item = (ModelOp, u64, u64)> {
    (0..count).map(move |i| (op, i * len, len))
}

fn counter(host: &ClosedLoop<Ssd>, name: &str) -> u64 {
    host.model.counters().find(name).unwrap()
}

/// Programmed over written bytes since `before`.
fn amplification(host: &ClosedLoop<Ssd>, before: &ModelCounters) -> f64 {
    let grown = |name| (counter(host, name) - before.find(name).unwrap()) as f64;
    grown("programmed_bytes") / grown("host_written_bytes")
}

/// Of a drive that was filled and then written over at random for `warm` times its capacity.
fn steady_amplification(params: SsdParams, warm: usize, measured: usize) -> f64 {
    let units = params.user_units();
    let mut host = ClosedLoop::new(Ssd::new(params));
    host.model.fill(units);
    host.run(32, random(WRITE, units as usize * warm, units, 1));
    let before = host.model.counters();
    host.run(32, random(WRITE, units as usize * measured, units, 2));
    amplification(&host, &before)
}

/// Write amplification of greedy collection under uniform random writes, for large blocks and many of them.
///
/// With a the ratio of flash to user capacity: a block's share of valid units when it is collected is u =
/// exp(-a (1 - u)), and each collection gives 1 - u of a block, so A = 1 / (1 - u) = a / (a + W(-a e^-a)).
/// Xiang and Kurkoski, "An improved analytical expression for write amplification in NAND flash", 2012 (arXiv
/// 1110.4245, which has 2.36 for a = 1.3); the same by Desnoyers, "Analytic modeling of SSD write
/// performance", SYSTOR 2012.
fn greedy_amplification(a: f64) -> f64 {
    let mut u = 0.0;
    for _ in 0..1000 {
        u = (-a * (1.0_f64 - u)).exp();
    }
    1.0 / (1.0 - u)
}

#[test]
fn random_writes_amplify_as_the_analysis_says() {
    assert!((greedy_amplification(1.3) - 2.36).abs() < 0.01);
    for percent in [12, 28, 50] {
        // 512 blocks in each of two dies. Small blocks differ more from one another, which greedy collection
        // uses.
        let ratio = |pages_per_block| {
            let flash = SsdParams { channels: 2, dies_per_channel: 1, blocks_per_die: 512, ..small() };
            let params = SsdParams { pages_per_block, ..flash }.with_over_provisioning(percent);
            // Two open blocks and two free ones hold no data that could be collected.
            let usable = f64::from(params.blocks_per_die - 4) / f64::from(params.blocks_per_die);
            let expected = greedy_amplification(params.raw_ratio() * usable);
            steady_amplification(params, 2, 1) / expected
        };
        let (small, large) = (ratio(32), ratio(256));
        assert!((0.97..=1.01).contains(&large), "{percent} %: {large} of the analytic value");
        assert!(small < large, "{percent} %: {small}, {large}");
    }
}

#[test]
fn sequential_writes_are_not_amplified() {
    let units = small().user_units();
    let mut host = ClosedLoop::new(Ssd::new(small()));
    for _ in 0..3 {
        host.run(8, sequential(WRITE, 16 * UNIT_BYTES, u64::from(units) / 16));
    }
    host.run(1, [FLUSH]);
    let whole = amplification(&host, &Ssd::new(small()).counters());
    assert!((0.99..1.01).contains(&whole), "{whole}");
    host.model.ftl.check();
}

#[test]
fn random_writes_fall_from_fresh_to_steady() {
    let units = small().user_units();
    let mut host = ClosedLoop::new(Ssd::new(small()));
    let fresh = host.run(32, random(WRITE, 4000, units, 1)).requests_per_s();
    host.run(32, random(WRITE, units as usize * 4, units, 2));
    let steady = host.run(32, random(WRITE, 4000, units, 3)).requests_per_s();
    assert!(fresh > 2.0 * steady, "{fresh} and {steady} writes/s");
    // Programs and reads of the collection explain the fall: with A = 3, a unit costs 3 programs and 2 reads.
    let before = host.model.counters();
    let window = host.run(32, random(WRITE, units as usize, units, 4));
    let amplified = amplification(&host, &before);
    let (transfer, dies) = (UNIT_BYTES as f64 / 0.2, 8.0);
    let cost_ns = amplified * (500_000.0 + transfer)
        + (amplified - 1.0) * (50_000.0 + transfer)
        + amplified * 2_000_000.0 / 16.0;
    let expected = 1e9 * dies / cost_ns;
    let ratio = window.requests_per_s() / expected;
    assert!((0.9..=1.0).contains(&ratio), "{ratio} of {expected} writes/s, A {amplified}");
}

#[test]
fn discards_lower_the_amplification() {
    let steady = |discarded_share: u32| {
        let units = small().user_units();
        let mut host = ClosedLoop::new(Ssd::new(small()));
        host.model.fill(units);
        let used = units - units / 100 * discarded_share;
        host.run(1, [(ModelOp::Discard, u64::from(used) * UNIT_BYTES, u64::from(units - used) * UNIT_BYTES)]);
        host.run(32, random(WRITE, used as usize * 3, used, 1));
        let before = host.model.counters();
        host.run(32, random(WRITE, used as usize, used, 2));
        host.model.ftl.check();
        amplification(&host, &before)
    };
    let (none, third) = (steady(0), steady(33));
    assert!(third < none * 0.7, "{third} with a third discarded, {none} without");
}

#[test]
fn wear_is_spread() {
    let units = small().user_units();
    let mut host = ClosedLoop::new(Ssd::new(small()));
    host.run(32, random(WRITE, units as usize * 20, units, 1));
    let (min, max, sum) = host.model.ftl.wear();
    let mean = sum as f64 / f64::from(8 * small().blocks_per_die);
    assert!(mean > 20.0 && f64::from(max) < mean * 1.5 && f64::from(min) > mean * 0.5, "{min} {mean} {max}");
}

#[test]
fn reads_find_what_was_written_in_buffer_and_flash() {
    let mut host = ClosedLoop::new(Ssd::new(small()));
    let one = |host: &mut ClosedLoop<Ssd>, asked| host.run(1, [asked]).latency_ns() as u64;
    let never_written = one(&mut host, (READ, 0, UNIT_BYTES));
    assert!(never_written < 10_000, "{never_written} ns without flash");
    let buffered = one(&mut host, (WRITE, 0, UNIT_BYTES));
    assert!(buffered < 10_000, "{buffered} ns");
    let hit = one(&mut host, (READ, 0, UNIT_BYTES));
    assert_eq!((hit, counter(&host, "buffer_hits"), counter(&host, "page_reads")), (never_written, 1, 0));
    host.run(1, [FLUSH]);
    host.settle();
    let flash = one(&mut host, (READ, 0, UNIT_BYTES));
    // 50 us of sensing and 20.48 us on the channel beside what a read without flash takes.
    assert_eq!((flash, counter(&host, "page_reads")), (never_written + 70_480, 1));
    one(&mut host, (ModelOp::Discard, 0, UNIT_BYTES));
    assert_eq!(one(&mut host, (READ, 0, UNIT_BYTES)), never_written);
    assert_eq!(host.model.ftl.valid_units(), 0);
}

#[test]
fn a_full_buffer_makes_writes_wait_for_flash() {
    let params = SsdParams { dies_per_channel: 1, channels: 1, ..small() };
    let params = SsdParams { sectors: 1000 * 8, ..params };
    let mut host = ClosedLoop::new(Ssd::new(params));
    let burst = host.run(1, random(WRITE, 32, 1000, 1));
    let later = host.run(1, random(WRITE, 200, 1000, 2));
    assert!(burst.latency_ns() < 10_000.0 && later.latency_ns() > 400_000.0, "{burst:?} {later:?}");
}

#[test]
fn fua_and_flush_wait_for_programs_unless_power_loss_is_provided_for() {
    let latencies = |params: SsdParams| {
        let mut host = ClosedLoop::new(Ssd::new(params));
        let plain = host.run(1, [(WRITE, 0, UNIT_BYTES)]).latency_ns();
        let flush = host.run(1, [FLUSH]).latency_ns();
        let fua = host.run(1, [(FUA, 4 * UNIT_BYTES, UNIT_BYTES)]).latency_ns();
        let nothing_to_flush = host.run(1, [FLUSH]).latency_ns();
        [plain, flush, fua, nothing_to_flush].map(|ns| ns > 500_000.0)
    };
    assert_eq!(latencies(small()), [false, true, true, false], "programming has begun");
    let collected = SsdParams { page_units: 4, pages_per_block: 16, buffer_units: 64, ..small() };
    assert_eq!(latencies(collected.clone()), [false, true, true, false], "a part of a page waits for more");
    assert_eq!(latencies(collected.clone().with_write_buffer(false)), [true, false, true, false]);
    assert_eq!(latencies(collected.with_power_loss_protection(true)), [false; 4]);
}

#[test]
fn a_flush_leaves_nothing_behind_that_was_complete_before() {
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let params = SsdParams { page_units: 4, buffer_units: 256, ..small() };
        let mut host = ClosedLoop::new(Ssd::new(params));
        for _ in 0..10 {
            host.run(8, random(WRITE, rng.usize(1..200), 4000, rng.u64(..)));
            host.run(1, [FLUSH]);
            assert!(host.model.buffer.is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn a_flush_is_understood_before_it_completes() {
    let params = SsdParams { command_ns: 100_000, ..small() };
    for delay_us in (0..1000).step_by(10) {
        let mut host = ClosedLoop::new(Ssd::new(params.clone()));
        host.run(1, [(WRITE, 0, UNIT_BYTES)]);
        let _ = host.run_for(delay_us * 1000, 1, &mut std::iter::repeat((READ, 1 << 20, UNIT_BYTES)));
        let mut window = Window::default();
        while host.under_way() > 0 {
            host.wait(&mut window);
        }
        let flush = host.run(1, [FLUSH]).latency_ns();
        assert!(flush >= 101_000.0, "after {delay_us} us: {flush} ns");
    }
}

#[test]
fn a_fua_write_pads_its_own_program_only() {
    // All that came while it was being programmed once went out unit by unit: here 50 units of padding
    // for each FUA write.
    let shape = SsdParams { page_units: 4, pages_per_block: 16, buffer_units: 64, ..small() };
    let params = SsdParams { command_ns: 50_000, ..shape };
    let mut host = ClosedLoop::new(Ssd::new(params.clone()));
    let others = random(WRITE, 4000, params.user_units(), 1).enumerate();
    host.run(16, others.map(|(index, (op, at, len))| (if index % 100 == 0 { FUA } else { op }, at, len)));
    let padded = counter(&host, "padded_units");
    assert!(padded <= 40 * 3, "{padded} units in the programs of 40 writes");
}

#[test]
fn what_is_discarded_in_the_buffer_leaves_nothing_behind() {
    let params = SsdParams { page_units: 4, pages_per_block: 16, buffer_units: 64, ..small() };
    let mut host = ClosedLoop::new(Ssd::new(params));
    for _ in 0..100 {
        host.run(1, [(WRITE, 0, UNIT_BYTES)]);
        host.settle();
        host.run(1, [(ModelOp::Discard, 0, UNIT_BYTES)]);
    }
    assert_eq!((host.model.buffer.is_empty(), host.model.buffer.entries()), (true, 0));
}

#[test]
fn parts_of_a_unit_are_merged_with_the_rest() {
    let mut host = ClosedLoop::new(Ssd::new(small()));
    host.run(4, sequential(WRITE, UNIT_BYTES, 64).chain([FLUSH]));
    host.run(1, [(WRITE, 512, 1024), FLUSH]);
    assert_eq!((counter(&host, "merges"), counter(&host, "page_reads")), (1, 1));
    // Across two units, of which one is in the buffer as a whole, and where nothing was.
    host.run(4, [(WRITE, 0, UNIT_BYTES), (WRITE, 3584, 1024), (WRITE, 1 << 20, 512), FLUSH]);
    assert_eq!(counter(&host, "merges"), 2);
    assert_eq!(counter(&host, "host_units"), 64 + 1 + 2 + 1);
    host.model.ftl.check();
}

#[test]
fn depth_raises_random_reads_up_to_the_dies() {
    let rate = |params: &SsdParams, depth| {
        let mut host = ClosedLoop::new(Ssd::new(params.clone()));
        let units = params.user_units().min(1_000_000);
        host.model.fill(units);
        host.run(depth, random(READ, 20_000, units, 1)).requests_per_s()
    };
    let rates: Vec<_> = [1, 2, 4, 8, 32].map(|depth| rate(&small(), depth)).to_vec();
    assert!(rates.windows(2).all(|pair| pair[1] > pair[0] * 1.15), "{rates:?}");
    // One read takes 50 + 20.48 us of a die, eight dies work at once.
    assert!(rates[4] > 0.75 * 8.0 / 70.48e-6 && rates[4] < 8.0 / 70.48e-6, "{rates:?}");
    for params in presets() {
        let (one, many) = (rate(&params, 1), rate(&params, 32));
        assert!(many > 3.0 * one, "{}: {one} and {many} reads/s", params.name);
    }
}

#[test]
fn reads_go_before_programs_but_do_not_starve_them() {
    let params = SsdParams { channels: 1, dies_per_channel: 1, sectors: 1000 * 8, ..small() };
    let mut host = ClosedLoop::new(Ssd::new(params));
    host.model.fill(1000);
    let mut rng = Rng::with_seed(1);
    let mut asked = std::iter::from_fn(move || {
        let at = rng.u64(..1000) * UNIT_BYTES;
        Some((if rng.bool() { READ } else { WRITE }, at, UNIT_BYTES))
    });
    let window = host.run_for(2_000_000_000, 64, &mut asked);
    assert!(counter(&host, "host_units") > 500, "{}", counter(&host, "host_units"));
    assert!(window.latency_ns_max < 500_000_000, "{window:?}");
}

/// Random requests of every kind, near and far, whole and in parts, to drives of every shape.
fn anything_goes(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let params = SsdParams {
        blocks_per_die: rng.u32(24..=48),
        page_units: rng.u32(1..=4),
        pages_per_block: 12,
        pages_per_program: [1, 3][rng.usize(..2)],
        dies_per_channel: rng.u32(1..=2),
        buffer_units: rng.u32(12..=64),
        queue_depth: rng.usize(1..=40),
        write_buffer: rng.bool(),
        power_loss_protected: rng.u8(..4) == 0,
        ..small()
    };
    let spare = u64::from(params.dies()) * 10 * u64::from(params.units_per_block());
    let params = SsdParams { sectors: (params.raw_units() - spare) * 8, ..params };
    let sectors = params.sectors;
    let mut host = ClosedLoop::new(Ssd::new(params));
    let mut asked = std::iter::repeat_with(|| {
        let len = if rng.u8(..10) == 0 { rng.u64(1..=600) } else { rng.u64(1..=16) };
        let len = if rng.bool() { len.next_multiple_of(8) } else { len };
        let span = if rng.bool() { sectors } else { sectors / 8 };
        let at = rng.u64(..span - len);
        let at = if rng.bool() { at / 8 * 8 } else { at };
        let op = [READ, WRITE, WRITE, WRITE, FUA, ModelOp::Discard, ModelOp::Flush]
            [[0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6][rng.usize(..13)]];
        (op, at * 512, len * 512)
    });
    let depth = [1, 4, 50][seed as usize % 3];
    for _ in 0..5 {
        let before = host.now();
        let window = host.run(depth, asked.by_ref().take(1000));
        assert!(window.requests == 1000 && host.now() > before, "seed {seed}");
        host.model.ftl.check();
    }
    host.run(1, [FLUSH]);
    host.settle();
    assert!(host.model.underway.is_empty() && host.model.commands.accepted() == 0, "seed {seed}");
    assert!(host.model.buffer.is_empty() || host.model.params.power_loss_protected, "seed {seed}");
    host.model.ftl.check();
}

#[test]
fn whatever_is_asked_is_done_once_and_the_mapping_stays_one_to_one() {
    (0..60).for_each(anything_goes);
}

fn hash(window: &Window, counters: &ModelCounters) -> u64 {
    let values = counters.0.iter().map(|(_, value)| *value);
    let all = values.chain([window.elapsed_ns, window.latency_ns_sum, window.latency_ns_max]);
    all.fold(0, |hash: u64, value| (hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(29))
}

#[test]
fn scaled_drives_have_the_same_ratios() {
    for params in presets() {
        let scaled = params.clone().scaled(8);
        assert!((scaled.raw_ratio() / params.raw_ratio() - 1.0).abs() < 1e-5, "{}", params.name);
        let share = params.sectors as f64 / scaled.sectors as f64;
        assert!((share / 256.0 - 1.0).abs() < 0.01, "{}: {share}", params.name);
        assert!(scaled.units_per_block() >= 128 && scaled.blocks_per_die >= 64, "{scaled:?}");
        Ssd::new(scaled);
    }
}

#[test]
fn every_machine_has_the_same_run() {
    // Pinned, so that a machine that computes differently is noticed; change it with the model.
    let run = |params: SsdParams| {
        let params = params.scaled(6);
        let units = params.user_units();
        let mut host = ClosedLoop::new(Ssd::new(params));
        host.model.fill(units);
        let mut rng = Rng::with_seed(1);
        let mixed = random(READ, 40_000, units, 2).map(|(_, at, len)| {
            let op = [READ, WRITE, WRITE, FUA][rng.usize(..4)];
            (op, at, len)
        });
        let window = host.run(16, mixed);
        hash(&window, &host.model.counters())
    };
    let hashes = presets().map(run);
    assert_eq!(hashes, presets().map(run));
    assert_eq!(hashes, [17_896_181_174_570_872_191, 14_649_442_559_092_300_879, 15_428_841_046_427_894_104]);
}
