//! What write selection costs: nanoseconds of `plan::build` for each row, by policy and size of the write. A
//! 4+1 array of 64 KiB chunks, every member with costs of its own. The limit for `cost` beyond `classic` is
//! 200 ns a row.

use std::{hint::black_box, time::Instant};

use stripewise_engine::{
    geometry::{Geometry, Level, StripeIndex, StripeSpan},
    plan::{
        Presence, StripeState, WriteSelection, build,
        costs::{MemberCost, ServiceTime},
        selection::POLICIES,
    },
};

/// Plans made in a turn of a policy.
const ROUNDS: u32 = 20_000;
/// Turns of each policy, one after the other; figures are medians, so that what disturbs the machine for a
/// while counts less.
const TURNS: usize = 21;

/// What `cost` may take for a row beyond `classic`, in nanoseconds.
const LIMIT_NS: f64 = 200.0;

fn main() {
    let geometry = Geometry::new(Level::Raid4, 5, 64 << 10, 1 << 30, 512).expect("a usual shape");
    let costs: Vec<MemberCost> = (0..5).map(member_cost).collect();
    println!("{:>10} {:>5}{}", "write", "rows", names());
    let mut worst: f64 = 0.0;
    for (start, len) in [(0, 4), (2, 1), (0, 64), (0, 128), (0, 132), (60, 68), (30, 100), (62, 140)] {
        let (start, len) = (start * 1024, len * 1024);
        let span = StripeSpan { stripe: StripeIndex(0), start, len, request_offset: 0 };
        let state = StripeState::for_write(&geometry, &span, true, |_| Presence::Present);
        let rows = state.dirty_rows().len();
        let turn =
            |_| POLICIES.iter().map(|policy| build_ns(&state, &*(policy.make)(), &costs) / rows as f64);
        let turns: Vec<Vec<f64>> = (0..TURNS).map(|index| turn(index).collect()).collect();
        let figure = |at: usize| median(turns.iter().map(|ns| ns[at]).collect());
        let figures: String = (0..POLICIES.len()).map(|at| format!(" {:>10.1}", figure(at))).collect();
        println!("{:>7} KiB {rows:>5}{figures}", len as f64 / 1024.0);
        worst = worst.max(median(turns.iter().map(|ns| of("cost", ns) - of("classic", ns)).collect()));
    }
    println!("cost beyond classic, at worst: {worst:.0} ns a row, {:.2} of the limit", worst / LIMIT_NS);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The figure of a policy.
fn of(name: &str, ns: &[f64]) -> f64 {
    ns[POLICIES.iter().position(|policy| policy.name == name).expect("a policy of ours")]
}

fn names() -> String {
    POLICIES.iter().map(|policy| format!(" {:>10}", policy.name)).collect()
}

/// A hard disk, and for the last member a solid-state drive; no two alike.
fn member_cost(member: u32) -> MemberCost {
    let slower = 1.0 + member as f32 / 10.0;
    let time = |fixed_ns: f32, block_ns: f32| ServiceTime { fixed_ns: fixed_ns * slower, block_ns };
    if member == 4 {
        return MemberCost { queue: 0.1, ..MemberCost::SSD };
    }
    MemberCost {
        read: time(8e6, 27e3),
        write: time(9e6, 27e3),
        rewrite: time(8.3e6, 27e3),
        queue: 2.0 * slower,
    }
}

#[allow(clippy::disallowed_methods, reason = "the engine's own ban; this measures it from outside")]
fn build_ns(state: &StripeState, selection: &dyn WriteSelection, costs: &[MemberCost]) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        let plan = build(black_box(state), selection, &costs);
        black_box(plan.is_ok());
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}
