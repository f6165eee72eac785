//! The policy `cost` beside the others, on every array and at every size; and the default with its cache (`all_caches`).

use std::collections::BTreeMap;

use stripewise_engine::plan::selection::POLICIES;

use super::{
    Effort, Experiment, Points, Results, all_caches,
    lines::{self, Line, Sizes},
    pick, policy,
    results::{at_size, largest, over_best, smallest},
};
use crate::{
    arrays::{Shape, shapes},
    findings::{Claim, Findings, Judged, Table},
    plot::{Axis, Plot, Series, Style},
    point::{Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "all",
    title: "All arrays: selection by cost, and the default with its cache, beside the best others",
    source: "raid4s-modthresh 4.3, its future work; msc-ct IV; ours",
    setting: &[
        "Random writes of 4 to 256 KiB at multiples of their size, 10 under way, on the papers' arrays and on others: SSDs only in \
         their steady state, one disk of half the speed, double parity over disks and SSDs. Every policy is asked the same, \
         but prefer-rmw, which does as modthresh where both cycles read as much, and else as classic.",
        "By default an array has a cache if a member rotates: auto, with the destage policies gain and lt, and rows selected by \
         cost. It stands beside the settings of each paper on the paper's own array: classic, modthresh and modified without a \
         cache on RAID4S and RAID5, with random writes, 10 under way, of four times as much as the cache holds, and with the \
         drives' write caches on; SC and MSC-CT (hlm, lrw) on RAID5 of ST373454LC, with the random writes of msc-random and the \
         clients of msc-clients. From an empty cache to the end of a last flush. A quick run has an eighth of the caches and of \
         what is written. Arrays without a hard disk have no cache by default.",
    ],
    points: Points::Modelled(points),
    findings,
};

const ARRAYS: [&Shape; 8] = [
    &shapes::RAID4S,
    &shapes::RAID4,
    &shapes::RAID4STUPID,
    &shapes::RAID5,
    &shapes::RAID5S,
    &shapes::RAID5_SLOW,
    &shapes::RAID6_HYBRID,
    &shapes::RAID5_STEADY,
];
const COST: &str = "cost";
/// How far `cost` may be behind.
const BEHIND: f64 = 0.97;
/// What counts as ahead.
const AHEAD: f64 = 1.03;

/// On ties of both cycles, which whole blocks have in one of these arrays, it acts as `modthresh`; elsewhere
/// as `classic`.
const LIKE_OTHERS: &str = "prefer-rmw";

/// All policies of the engine except `cost`, and the one that acts as others do.
fn others() -> Vec<&'static str> {
    POLICIES.iter().map(|policy| policy.name).filter(|name| ![COST, LIKE_OTHERS].contains(name)).collect()
}

/// The same, and `cost`.
fn names() -> impl Iterator<Item = &'static str> {
    others().into_iter().chain([COST])
}

fn sizes_kib(effort: Effort) -> Vec<u64> {
    let few = vec![4, 32, 64, 96, 128, 144, 192, 224];
    let many = [4, 8, 12, 16, 24, 32, 48].into_iter().chain((64..=256).step_by(8));
    pick(effort, few, many.collect())
}

fn point(effort: Effort, shape: &'static Shape, name: &str, kib: u64) -> Point {
    let writes = pick(effort, 1000, 2000);
    let load = WriteLoad::random(kib << 10, 10, (kib << 10) * writes, 2);
    Point::new(shape, policy(name), load)
}

fn points(effort: Effort) -> Vec<Point> {
    let mut points = Vec::new();
    for shape in ARRAYS {
        for name in names() {
            points.extend(sizes_kib(effort).into_iter().map(|kib| point(effort, shape, name, kib)));
        }
    }
    points.extend(all_caches::points(effort));
    points
}

fn findings(results: &Results) -> Findings {
    let found: BTreeMap<_, _> =
        ARRAYS.into_iter().filter_map(|shape| Some((shape.id, gains_of(results, shape)?))).collect();
    let mut claims: Vec<_> =
        ARRAYS.into_iter().map(|shape| never_behind(shape, found.get(shape.id))).collect();
    let hybrids: Vec<_> = ARRAYS.into_iter().filter(|shape| shape.is_hybrid()).collect();
    claims.push(ahead_somewhere(&hybrids, &found));
    claims.extend(all_caches::claims(results));
    let sizes = sizes_kib(results.effort);
    let line = |(hue, name): (usize, &'static str)| {
        Line::new(name, hue, &sizes, |kib| point(results.effort, &shapes::RAID4S, name, kib))
    };
    let raid4s: Vec<_> = names().enumerate().map(line).collect();
    let cost = raid4s.last().expect("`cost` is among them");
    let evenly = Sizes::Even;
    Findings {
        claims,
        plots: vec![
            gains(&found),
            lines::throughput(("all-raid4s-throughput", "RAID4S"), evenly, &raid4s, results),
            lines::latency(("all-raid4s-latency", "Latency of a write, RAID4S"), evenly, cost, results),
            lines::utilisation(
                ("all-raid4s-utilisation", "Members at work, RAID4S"),
                evenly,
                &raid4s,
                results,
            ),
            all_caches::plot(results),
        ],
        tables: [summary(&found), all_caches::table(results)]
            .into_iter()
            .chain(ARRAYS.map(|shape| table(results, shape)))
            .collect(),
    }
}

fn rate(results: &Results, shape: &'static Shape, name: &str, kib: u64) -> Option<f64> {
    results.mb_per_s(&point(results.effort, shape, name, kib))
}

/// `cost` over the best of the others at each size.
fn gains_of(results: &Results, shape: &'static Shape) -> Option<Vec<(u64, f64)>> {
    let rate = |name: &str, kib| rate(results, shape, name, kib);
    over_best(&sizes_kib(results.effort), COST, &others(), rate)
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn never_behind(shape: &Shape, ratios: Option<&Vec<(u64, f64)>>) -> Claim {
    let judged = ratios.map(|ratios| {
        let (worst, best) = (smallest(ratios), largest(ratios));
        let measured = format!(
            "worst {} at {} KiB, best {} at {} KiB",
            percent(worst.1),
            worst.0,
            percent(best.1),
            best.0
        );
        Judged::above(worst.1, BEHIND, measured)
    });
    Claim::new(
        format!("{}: cost is never more than 3 % behind the best of the other policies.", shape.name),
        "",
        judged,
    )
}

fn ahead_somewhere(hybrids: &[&'static Shape], found: &BTreeMap<&str, Vec<(u64, f64)>>) -> Claim {
    let best = hybrids.iter().map(|shape| Some((shape.name, largest(found.get(shape.id)?))));
    let judged = best.collect::<Option<Vec<_>>>().map(|best| {
        let text: Vec<_> = best.iter().map(|(name, at)| format!("{name} {}", at_size(*at))).collect();
        let least = best.iter().map(|(_, (_, ratio))| *ratio).fold(f64::INFINITY, f64::min);
        Judged::above(least, AHEAD, text.join(", "))
    });
    Claim::new("On every array of unlike members, cost is ahead somewhere (by more than 3 %).", "", judged)
}

fn summary(found: &BTreeMap<&str, Vec<(u64, f64)>>) -> Table {
    let title = format!("cost against the best of {}", others().join(", "));
    let mut table = Table::new(title, &["array", "worst", "at KiB", "best", "at KiB"]);
    for shape in ARRAYS {
        let Some(ratios) = found.get(shape.id) else { continue };
        let (worst, best) = (smallest(ratios), largest(ratios));
        let cells = [percent(worst.1), worst.0.to_string(), percent(best.1), best.0.to_string()];
        table.rows.push(std::iter::once(shape.name.to_owned()).chain(cells).collect());
    }
    table
}

fn table(results: &Results, shape: &'static Shape) -> Table {
    let title = format!("{}: {}; MB/s", shape.name, shape.what);
    let head: Vec<_> = ["KiB"].into_iter().chain(names()).chain(["to the best"]).collect();
    let mut table = Table::new(title, &head);
    for kib in sizes_kib(results.effort) {
        let rates = names().map(|name| rate(results, shape, name, kib));
        let Some(rates) = rates.collect::<Option<Vec<_>>>() else { continue };
        let Some((cost, others)) = rates.split_last() else { continue };
        let best = others.iter().copied().fold(0.0, f64::max);
        let cells = rates.iter().map(|rate| format!("{rate:.2}")).chain([percent(cost / best)]);
        table.rows.push(std::iter::once(kib.to_string()).chain(cells).collect());
    }
    table
}

fn gains(found: &BTreeMap<&str, Vec<(u64, f64)>>) -> Plot {
    let lines = ARRAYS.into_iter().enumerate().filter_map(|(hue, shape)| {
        let points = found.get(shape.id)?.iter().map(|(kib, ratio)| (*kib as f64, (ratio - 1.0) * 100.0));
        // Hybrid arrays are drawn as lines, others dashed.
        let style = if shape.is_hybrid() { Style::Marked } else { Style::Dashed };
        Some(Series::new(shape.name, hue, style, points.collect()))
    });
    Plot {
        name: "all-cost".into(),
        title: "cost over the best of the other policies".to_owned(),
        x: Axis::linear("write size, KiB"),
        y: Axis::from_zero("ahead, %"),
        series: lines.collect(),
    }
}
