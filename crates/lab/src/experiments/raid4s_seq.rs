//! raid4s-slides, "Performance is Equal for Sequential Write".

use super::{
    Effort, Experiment, Results,
    lines::{self, Line, Sizes},
    pick, policy,
    raid4s::ARRAYS,
};
use crate::{
    arrays::Shape,
    findings::{Claim, Findings, Judged, Table},
    point::{Places, Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "raid4s-seq",
    title: "Sequential writes are equally fast on all arrays",
    source: "raid4s-slides, \"Performance is Equal for Sequential Write\"",
    setting: &[
        "The slides: dd writes files, 4 GB in units of 1 MB, on five 4+1 arrays.",
        "Here: 4 GiB in sequence from the array's start, 1 MiB a write, 10 under way: dd writes into the page cache, from which \
         the kernel keeps many requests under way. With one under way, as with direct I/O, in the second column of the table.",
    ],
    points,
    findings,
};

const DEPTHS: [u32; 2] = [10, 1];
/// What "about equal" allows, from the slowest to the fastest.
const EQUAL: f64 = 1.1;

fn point(effort: Effort, shape: &'static Shape, depth: u32) -> Point {
    let pass_bytes = pick(effort, 256 << 20, 4 << 30);
    let load = WriteLoad { places: Places::Sequential, write_bytes: 1 << 20, depth, pass_bytes, passes: 1 };
    Point::new(shape, policy("classic"), load)
}

fn points(effort: Effort) -> Vec<Point> {
    DEPTHS.iter().flat_map(|depth| ARRAYS.map(|shape| point(effort, shape, *depth))).collect()
}

fn findings(results: &Results) -> Findings {
    let rates = |depth| -> Option<Vec<(&str, f64)>> {
        let rate = |shape: &&'static Shape| {
            Some((shape.name, results.mb_per_s(&point(results.effort, shape, depth))?))
        };
        ARRAYS.iter().map(rate).collect()
    };
    let spread = |rates: &[(&str, f64)]| {
        let fastest = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        fastest / rates.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min)
    };
    let judged = rates(DEPTHS[0]).zip(rates(DEPTHS[1])).map(|(queued, single)| {
        let text = |(name, rate): &(&str, f64)| format!("{name} {rate:.0}");
        let rates = queued.iter().map(text).collect::<Vec<_>>().join(", ");
        Judged::new(spread(&queued) <= EQUAL, format!("{rates} MB/s: {:.2}x between them", spread(&queued)))
            .because(format!(
                "Writes of whole stripes read nothing. With one write under way the arrays are {:.2}x apart.",
                spread(&single)
            ))
    });
    let mut table = Table::new("MB/s, sequential writes of 1 MiB", &["array", "10 under way", "1 under way"]);
    for shape in ARRAYS {
        let cell = |depth| {
            let rate = results.mb_per_s(&point(results.effort, shape, depth));
            rate.map_or_else(String::new, |rate| format!("{rate:.1}"))
        };
        table.rows.push(vec![shape.name.to_owned(), cell(DEPTHS[0]), cell(DEPTHS[1])]);
    }
    let by_array: Vec<_> = ARRAYS
        .iter()
        .enumerate()
        .map(|(hue, shape)| Line::new(shape.name, hue, &[1024], |_| point(results.effort, shape, DEPTHS[0])))
        .collect();
    Findings {
        claims: vec![Claim::new(
            "All five arrays are about equal (within 10 %).",
            "equal (a bar chart)",
            judged,
        )],
        plots: vec![lines::utilisation(
            ("raid4s-seq-utilisation", "Members at work, sequential writes"),
            Sizes::Even,
            &by_array,
            results,
        )],
        tables: vec![table],
    }
}
