//! raid4s-slides, "Performance is Equal for Sequential Write".

use super::{
    Effort, Experiment, Points, Results, pick, policy,
    raid4s::{ARRAYS, OF_THE_SLIDES, hue},
    results::{self, rates_text, spread},
};
use crate::{
    arrays::Shape,
    findings::{Claim, Findings, Judged, Table},
    plot::{Axis, Plot, Series, Style},
    point::{Outcome, Places, Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "raid4s-seq",
    title: "Sequential writes are equally fast on all arrays",
    source: "raid4s-slides, \"Performance is Equal for Sequential Write\"",
    setting: &[
        "The slides: dd writes files, 4 GB in units of 1 MB, on five 4+1 arrays.",
        "Beside them stand level 0 of four disks and RAID5S of SSDs only. In sequence from the array's start, 1,048,576 bytes a write. dd writes into the page cache, from which the kernel \
         keeps a number of requests under way that is not known: 10 are taken for it; with fewer and more beside them.",
    ],
    points: Points::Modelled(points),
    findings,
};

const DEPTHS: [u32; 5] = [1, 2, 4, 10, 32];
/// Stands for dd.
const DD_DEPTH: u32 = 10;
/// The tolerance of "about equal", from the slowest to the fastest.
const EQUAL: f64 = 1.1;

fn point(effort: Effort, shape: &'static Shape, depth: u32) -> Point {
    let pass_bytes = pick(effort, 512 << 20, 4 << 30);
    let load = WriteLoad { places: Places::Sequential, ..WriteLoad::random(1 << 20, depth, pass_bytes, 1) };
    Point::new(shape, policy("classic"), load)
}

fn points(effort: Effort) -> Vec<Point> {
    DEPTHS.iter().flat_map(|depth| ARRAYS.map(|shape| point(effort, shape, *depth))).collect()
}

fn findings(results: &Results) -> Findings {
    let judged = rates(results, DD_DEPTH).map(|rates| {
        let (text, spread) = (rates_text(&rates), spread(&rates));
        let judged = Judged::at_most(spread, EQUAL, format!("{text} MB/s: {spread:.2}x between them"));
        judged.because(others(results).unwrap_or_default())
    });
    Findings {
        claims: vec![Claim::new(
            "The slides' five arrays are about equal (within 10 %).",
            "equal (a bar chart)",
            judged,
        )],
        plots: vec![
            by_depth(
                results,
                ("raid4s-seq-throughput", "Sequential writes of 1 MiB", "MB/s"),
                Outcome::mb_per_s,
            ),
            by_depth(results, ("raid4s-seq-latency", "Latency of a write: 99 %", "ms"), |outcome| {
                outcome.latency_p99_ns as f64 / 1e6
            }),
        ],
        tables: vec![table(results)],
    }
}

/// Rates of the arrays that the slides call equal.
fn rates(results: &Results, depth: u32) -> Option<Vec<(&'static str, f64)>> {
    results::rates(results, &OF_THE_SLIDES, |shape| point(results.effort, shape, depth))
}

/// How far apart they are with more or fewer under way, and what members read meanwhile.
fn others(results: &Results) -> Option<String> {
    let apart = |depth: &u32| Some(format!("{:.2}x with {depth}", spread(&rates(results, *depth)?)));
    let spreads: Vec<_> = DEPTHS.iter().map(apart).collect::<Option<_>>()?;
    let reads = |shape: &&'static Shape| {
        let outcome = results.of(&point(results.effort, shape, DD_DEPTH))?;
        Some(outcome.members.iter().map(|member| member.reads).sum::<u64>() as f64 / outcome.requests as f64)
    };
    let most = OF_THE_SLIDES.iter().map(reads).collect::<Option<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
    Some(format!(
        "A write takes {most:.2} reads of members at most. Between the arrays are {} under way.",
        spreads.join(", ")
    ))
}

fn table(results: &Results) -> Table {
    let headings = DEPTHS.map(|depth| format!("{depth} under way"));
    let headings: Vec<_> = std::iter::once("array").chain(headings.iter().map(String::as_str)).collect();
    let mut table = Table::new("MB/s, sequential writes of 1 MiB", &headings);
    for shape in ARRAYS {
        let cell = |depth: u32| {
            let rate = results.mb_per_s(&point(results.effort, shape, depth));
            rate.map_or_else(String::new, |rate| format!("{rate:.1}"))
        };
        table.rows.push(std::iter::once(shape.name.to_owned()).chain(DEPTHS.map(cell)).collect());
    }
    table
}

fn by_depth(
    results: &Results,
    (name, title, unit): (&'static str, &str, &str),
    value: impl Fn(&Outcome) -> f64,
) -> Plot {
    let series = ARRAYS.into_iter().map(|shape| {
        let at = |depth: &u32| {
            Some((f64::from(*depth), value(results.of(&point(results.effort, shape, *depth))?)))
        };
        Series::new(shape.name, hue(shape), Style::Marked, DEPTHS.iter().filter_map(at).collect())
    });
    Plot {
        name: name.into(),
        title: title.to_owned(),
        x: Axis::log2("writes under way"),
        y: Axis::from_zero(unit),
        series: series.collect(),
    }
}
