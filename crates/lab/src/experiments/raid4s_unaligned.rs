//! raid4s-slides, "4KB-Unaligned Writes".

use super::{
    Effort, Experiment, Results,
    lines::{self, Line, Sizes},
    pick, policy,
    raid4s::ARRAYS,
};
use crate::{
    arrays::Shape,
    findings::{Claim, Findings, Judged},
    point::{Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "raid4s-unaligned",
    title: "Writes of sizes that are no multiples of 4 KiB",
    source: "raid4s-slides, \"4KB-Unaligned Writes\"",
    setting: &[
        "The slides: XDD 6.5, random writes of 1 KB to 16 KB, every KB, 256 MB in all, three times; five 4+1 arrays.",
        "Here: the same, with 10 under way and over the seek range of raid4s-modthresh 4. Logical blocks are 512 bytes, offsets \
         multiples of the size.",
    ],
    points,
    findings,
};

const BLOCK_KIB: u64 = 4;
/// A dip is deeper than what runs differ by.
const DIP: f64 = 0.97;

fn sizes_kib(effort: Effort) -> Vec<u64> {
    (1..=16).filter(|kib| pick(effort, *kib <= 8, true)).collect()
}

fn point(effort: Effort, shape: &'static Shape, kib: u64) -> Point {
    let (pass_bytes, passes) = pick(effort, (8 << 20, 1), (256 << 20, 3));
    Point::new(shape, policy("classic"), WriteLoad::random(kib << 10, 10, pass_bytes, passes))
}

fn points(effort: Effort) -> Vec<Point> {
    let of = |shape| sizes_kib(effort).into_iter().map(move |kib| point(effort, shape, kib));
    ARRAYS.into_iter().flat_map(of).collect()
}

fn findings(results: &Results) -> Findings {
    let sizes = sizes_kib(results.effort);
    let lines: Vec<_> = ARRAYS
        .into_iter()
        .enumerate()
        .map(|(hue, shape)| Line::new(shape.name, hue, &sizes, |kib| point(results.effort, shape, kib)))
        .collect();
    Findings {
        claims: ARRAYS.into_iter().map(|shape| dips(results, shape)).collect(),
        plots: vec![
            lines::throughput(
                ("raid4s-unaligned-throughput", "Random writes, every KiB"),
                Sizes::Even,
                &lines,
                results,
            ),
            lines::latency(
                ("raid4s-unaligned-latency", "Latency of a write"),
                Sizes::Even,
                &lines[1],
                results,
            ),
        ],
        tables: Vec::new(),
    }
}

fn dips(results: &Results, shape: &'static Shape) -> Claim {
    let judged = depths(results, shape).map(|depths| {
        let mean = depths.iter().sum::<f64>() / depths.len() as f64;
        let extra = reads_a_write(results, shape);
        Judged::new(
            mean < DIP,
            format!("{:+.1} % on average against the line between multiples", (mean - 1.0) * 100.0),
        )
        .because(extra.unwrap_or_default())
    });
    let statement = format!(
        "{}: sizes between the multiples of 4 KiB are slower than the line between these (by 3 % at least).",
        shape.name
    );
    Claim::new(statement, "dips in a plot", judged)
}

/// At each size between two multiples: throughput over that of the line between them.
fn depths(results: &Results, shape: &'static Shape) -> Option<Vec<f64>> {
    let rate = |kib| results.mb_per_s(&point(results.effort, shape, kib));
    let between = |kib: &u64| *kib > BLOCK_KIB && !kib.is_multiple_of(BLOCK_KIB);
    let depth = |kib: u64| {
        let below = kib - kib % BLOCK_KIB;
        let (low, high) = (rate(below)?, rate(below + BLOCK_KIB)?);
        let line = low + (high - low) * (kib - below) as f64 / BLOCK_KIB as f64;
        Some(rate(kib)? / line)
    };
    sizes_kib(results.effort).into_iter().filter(between).map(depth).collect()
}

/// What an unaligned write costs in requests to members, beside an aligned one.
fn reads_a_write(results: &Results, shape: &'static Shape) -> Option<String> {
    let of = |kib| {
        let outcome = results.of(&point(results.effort, shape, kib))?;
        let requests = outcome.requests as f64;
        let members = || outcome.members.iter();
        let ios = members().map(|member| member.reads + member.writes).sum::<u64>() as f64;
        let rows = (outcome.rows_full + outcome.rows_rmw + outcome.rows_rcw) as f64;
        Some(format!(
            "{kib} KiB: {:.2} rows, {:.2} requests to members a write",
            rows / requests,
            ios / requests
        ))
    };
    Some(format!("{}; {}; {}.", of(4)?, of(5)?, of(8)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::shapes;

    #[test]
    fn sizes_between_multiples_are_held_against_the_line() {
        let none = Results::new(Effort::Full, Default::default());
        assert_eq!(depths(&none, &shapes::RAID4S), None);
        assert_eq!(sizes_kib(Effort::Full).len(), 16);
    }
}
