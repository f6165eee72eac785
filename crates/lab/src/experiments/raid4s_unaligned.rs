//! raid4s-slides, "4KB-Unaligned Writes".

use super::{
    Effort, Experiment, Points, Results,
    lines::{self, Line, Sizes},
    pick, policy,
    raid4s::{ARRAYS, OF_THE_SLIDES, after, hue},
};
use crate::{
    arrays::{Shape, shapes},
    findings::{Claim, Findings, Judged, Table},
    point::{Outcome, Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "raid4s-unaligned",
    title: "Writes of sizes that are no multiples of 4 KiB",
    source: "raid4s-slides, \"4KB-Unaligned Writes\"",
    setting: &[
        "The slides: XDD 6.5, random writes of 1 KB to 16 KB, every KB, 256 MB in all, three times; five 4+1 arrays.",
        "Level 0 of four disks and RAID5S of SSDs only stand beside them. Queue depth and seek range are those of raid4s-modthresh 4. Logical blocks are 512 bytes, offsets multiples of the size.",
    ],
    points: Points::Modelled(points),
    findings,
};

const BLOCK_KIB: u64 = 4;
/// Sizes between two multiples: they share a line, and a tolerance.
const SIZES_BETWEEN: usize = 3;
/// A dip must be deeper than the difference between runs.
const DIP: f64 = 0.97;

fn sizes_kib(effort: Effort) -> Vec<u64> {
    (1..=16).filter(|kib| pick(effort, *kib <= 8, true)).collect()
}

fn point(effort: Effort, shape: &'static Shape, kib: u64) -> Point {
    let (pass_bytes, passes) = pick(effort, (32 << 20, 1), (256 << 20, 3));
    Point::new(shape, policy("classic"), WriteLoad::random(kib << 10, 10, pass_bytes, passes))
}

fn points(effort: Effort) -> Vec<Point> {
    let of = |shape| sizes_kib(effort).into_iter().map(move |kib| point(effort, shape, kib));
    ARRAYS.into_iter().flat_map(of).collect()
}

fn findings(results: &Results) -> Findings {
    let sizes = sizes_kib(results.effort);
    let line = |shape: &'static Shape| {
        Line::new(shape.name, hue(shape), &sizes, |kib| point(results.effort, shape, kib))
    };
    let lines = ARRAYS.map(line);
    let over_raid4: Vec<_> = after(&shapes::RAID4).map(line).collect();
    let compared = [line(&shapes::RAID4), line(&shapes::RAID4S)];
    Findings {
        claims: OF_THE_SLIDES.into_iter().map(|shape| dips(results, shape)).collect(),
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
                &compared[1],
                results,
            ),
            lines::speed_up(("raid4s-unaligned-over-raid4", "Over RAID4"), Sizes::Even, &over_raid4, results),
            lines::utilisation(
                ("raid4s-unaligned-utilisation", "Members at work"),
                Sizes::Even,
                &compared,
                results,
            ),
        ],
        tables: vec![lines::table("MB/s, random writes", &lines, results), table(results)],
    }
}

fn dips(results: &Results, shape: &'static Shape) -> Claim {
    let judged = depths(results, shape).map(|depths| {
        let mean = depths.iter().sum::<f64>() / depths.len() as f64;
        let measured = format!("{:+.1} % on average against the line", (mean - 1.0) * 100.0);
        Judged::at_most(mean, DIP, measured)
            .averaged(depths.len() / SIZES_BETWEEN)
            .else_because(crossing(results, shape).unwrap_or_default())
    });
    let statement = format!(
        "{}: sizes between the multiples of 4 KiB are slower than the line between these (by 3 % at least).",
        shape.name
    );
    Claim::new(statement, "dips in a plot", judged)
}

/// Requests to members for each write: more where writes cross the ends of chunks.
fn crossing(results: &Results, shape: &'static Shape) -> Option<String> {
    let requests = |kib| Some(requests_a_write(results.of(&point(results.effort, shape, kib))?));
    Some(format!(
        "A write of 4 or 8 KiB never crosses the end of a chunk, one of 5 KiB does so in one of 16 cases, and then changes two \
         disks: {:.2}, {:.2} and {:.2} requests to members a write of 4, 5 and 8 KiB.",
        requests(4)?,
        requests(5)?,
        requests(8)?
    ))
}

fn requests_a_write(outcome: &Outcome) -> f64 {
    let requests = outcome.members.iter().map(|member| member.reads + member.writes).sum::<u64>();
    requests as f64 / outcome.requests as f64
}

/// The cost of a write of each size on RAID4S.
fn table(results: &Results) -> Table {
    let headings =
        ["KiB", "MB/s", "writes/s", "rows a write", "requests to members", "bytes read and written / data"];
    let why = crossing(results, &shapes::RAID4S).unwrap_or_default();
    let mut table = Table::new(format!("What a write costs on RAID4S. {why}"), &headings);
    for kib in sizes_kib(results.effort) {
        let Some(outcome) = results.of(&point(results.effort, &shapes::RAID4S, kib)) else { continue };
        let rows = (outcome.rows_full + outcome.rows_rmw + outcome.rows_rcw) as f64 / outcome.requests as f64;
        let bytes =
            outcome.members.iter().map(|member| member.read_bytes + member.written_bytes).sum::<u64>();
        let data = outcome.pass_bytes.iter().sum::<u64>() as f64;
        table.rows.push(vec![
            kib.to_string(),
            format!("{:.2}", outcome.mb_per_s()),
            format!("{:.0}", outcome.mb_per_s() * 1e6 / (kib << 10) as f64),
            format!("{rows:.2}"),
            format!("{:.2}", requests_a_write(outcome)),
            format!("{:.2}", bytes as f64 / data),
        ]);
    }
    table
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_between_multiples_are_held_against_the_line() {
        let none = Results::new(Effort::Full, crate::machine::Machine::here(), Default::default());
        assert_eq!(depths(&none, &shapes::RAID4S), None);
        assert_eq!(sizes_kib(Effort::Full).len(), 16);
    }
}
