//! The policy `cost` beside the best of the others, at sizes of write from 4 to 256 KiB, on the modelled arrays.
//!
//! `cargo run --release -p stripewise-lab --example cost_table [seeds] [array] [KiB,KiB,...]`

use stripewise_engine::plan::selection::{POLICIES, Policy};
use stripewise_lab::{
    arrays::{Shape, shapes},
    parallel,
    point::{Outcome, Point, WriteLoad, measure},
};

const SHAPES: [&Shape; 5] =
    [&shapes::RAID4S, &shapes::RAID5, &shapes::RAID5_STEADY, &shapes::RAID5_SLOW, &shapes::RAID6_HYBRID];
const SIZES_KIB: [u64; 12] = [4, 16, 32, 64, 80, 96, 112, 128, 144, 160, 192, 224];
const WRITES: u64 = 1000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seeds: u64 = args.first().map_or(1, |text| text.parse().expect("a number of seeds"));
    let chosen = |shape: &&Shape| args.get(1).is_none_or(|id| id == "all" || id == shape.id);
    let sizes: Vec<u64> = args
        .get(2)
        .map_or(SIZES_KIB.to_vec(), |text| text.split(',').map(|kib| kib.parse().expect("KiB")).collect());
    for shape in SHAPES.into_iter().filter(chosen) {
        table(shape, &sizes, seeds);
    }
}

fn table(shape: &'static Shape, sizes: &[u64], seeds: u64) {
    println!("{} ({}), MB/s at depth 10", shape.name, shape.what);
    println!(
        "  {:>5} {:>9} {:>9} {:>9} {:>9} {:>8}  rmw/rcw of cost",
        "KiB", "classic", "modthresh", "modified", "cost", "to best"
    );
    let of = |policy: &'static Policy| {
        sizes.iter().flat_map(move |kib| (1..=seeds).map(move |seed| (*kib, policy, seed)))
    };
    let points: Vec<_> = POLICIES.iter().flat_map(|policy| of(policy)).collect();
    let outcomes = parallel::map(shape.id, &|_, _, _| (), &points, |(kib, policy, seed)| {
        let load = WriteLoad::random(kib << 10, 10, (kib << 10) * WRITES, 3);
        measure(&Point::new(shape, policy, load), *seed)
    });
    let found = |kib: u64, policy: &str| -> Vec<&Outcome> {
        let all = points.iter().zip(&outcomes);
        all.filter(move |((size, of, _), _)| *size == kib && of.name == policy)
            .map(|(_, outcome)| outcome)
            .collect()
    };
    let (mut worst, mut best_gain) = (f64::INFINITY, f64::NEG_INFINITY);
    for kib in sizes {
        let mean = |policy| mean_mb_per_s(&found(*kib, policy));
        let others = ["classic", "modthresh", "modified"].map(mean);
        let cost = mean("cost");
        let best = others.into_iter().fold(0.0, f64::max);
        let gain = cost / best - 1.0;
        (worst, best_gain) = (worst.min(gain), best_gain.max(gain));
        let runs: Vec<&Outcome> = found(*kib, "cost");
        let rows = |value: fn(&Outcome) -> u64| runs.iter().map(|outcome| value(outcome)).sum::<u64>();
        let [a, b, c] = others;
        println!(
            "  {kib:>5} {a:>9.2} {b:>9.2} {c:>9.2} {cost:>9.2} {:>+7.1}%  {}/{}",
            gain * 100.0,
            rows(|outcome| outcome.rows_rmw),
            rows(|outcome| outcome.rows_rcw)
        );
    }
    println!("  worst {:+.1} %, best {:+.1} %\n", worst * 100.0, best_gain * 100.0);
}

fn mean_mb_per_s(runs: &[&Outcome]) -> f64 {
    runs.iter().map(|outcome| outcome.steady_mb_per_s()).sum::<f64>() / runs.len() as f64
}
