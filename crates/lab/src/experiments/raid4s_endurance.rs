//! raid4s-slides, "SSD Reliability".

use stripewise_engine::endurance::lifetime_s;

use super::{
    Effort, Experiment, Results,
    lines::{self, Line, Sizes},
    pick, policy,
};
use crate::{
    arrays::shapes,
    findings::{Claim, Findings, Judged, Table},
    plot::{Axis, Plot, Series, Style},
    point::{Outcome, Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "raid4s-endurance",
    title: "How long the parity SSD lives",
    source: "raid4s-slides, \"SSD Reliability\"",
    setting: &[
        "The slides: an Intel X25-E of 64 GB is rated for 2 PB of random writes; constant writes at 100 and 25 MB/s.",
        "The same by the engine's own reckoning (months of 30 days), and what RAID4S of modelled disks really writes to its \
         parity SSD under random writes, by the engine's counters of the member.",
    ],
    points,
    findings,
};

/// raid4s-slides: "2PB random write lifetime".
const RATED_BYTES: u64 = 2_000_000_000_000_000;
const MONTH_S: f64 = 30.0 * 86_400.0;
const SIZES_KIB: [u64; 5] = [4, 16, 64, 128, 256];

fn point(effort: Effort, kib: u64) -> Point {
    let (pass_bytes, passes) = pick(effort, (64 << 20, 2), (128 << 20, 3));
    Point::new(&shapes::RAID4S, policy("classic"), WriteLoad::random(kib << 10, 10, pass_bytes, passes))
}

fn points(effort: Effort) -> Vec<Point> {
    SIZES_KIB.map(|kib| point(effort, kib)).to_vec()
}

fn months(mb_per_s: f64) -> f64 {
    lifetime_s(RATED_BYTES, mb_per_s * 1e6) / MONTH_S
}

/// Bytes written to the parity SSD for each byte that clients wrote.
fn parity_share(outcome: &Outcome) -> f64 {
    let ssd = outcome.members.iter().filter(|member| member.drive == "ssd");
    ssd.map(|member| member.written_bytes).sum::<u64>() as f64 / outcome.pass_bytes.iter().sum::<u64>() as f64
}

/// Writes to the parity SSD, or to the others, for each write of clients.
fn writes_each(outcome: &Outcome, to_ssd: bool) -> f64 {
    let members = outcome.members.iter().filter(|member| (member.drive == "ssd") == to_ssd);
    members.map(|member| member.writes).sum::<u64>() as f64 / outcome.requests as f64
}

fn findings(results: &Results) -> Findings {
    let effort = results.effort;
    let line = Line::new(shapes::RAID4S.name, 1, &SIZES_KIB, |kib| point(effort, kib));
    let throughput = ("raid4s-endurance-throughput", "RAID4S, random writes");
    Findings {
        claims: vec![
            slides(100.0, 7.7),
            slides(25.0, 30.7),
            simulated(results, 100.0, 7.7),
            simulated(results, 25.0, 30.7),
        ],
        plots: vec![lifetimes(results), lines::throughput(throughput, Sizes::Powers, &[line], results)],
        tables: vec![table(results)],
    }
}

fn slides(mb_per_s: f64, paper: f64) -> Claim {
    let found = months(mb_per_s);
    Claim::analytic(
        format!("2 PB last {paper} months at {mb_per_s} MB/s (within 1 %)."),
        format!("{paper} months"),
        Judged::new((found / paper - 1.0).abs() <= 0.01, format!("{found:.1} months")),
    )
}

/// With as much parity traffic as the array's counters show.
fn simulated(results: &Results, mb_per_s: f64, paper: f64) -> Claim {
    let kib = SIZES_KIB[0];
    let judged = results.of(&point(results.effort, kib)).map(|outcome| {
        let share = parity_share(outcome);
        let found = months(mb_per_s * share);
        Judged::new(
            (found / paper - 1.0).abs() <= 0.05,
            format!("{found:.1} months: {share:.3} bytes of parity for each byte of data"),
        )
        .because(format!(
            "For each write of {kib} KiB the parity SSD is written to {:.2} times, and the disks together {:.2} times.",
            writes_each(outcome, true),
            writes_each(outcome, false)
        ))
    });
    let statement = format!(
        "The same if clients write {mb_per_s} MB/s in writes of {kib} KiB, by the member's counters (within 5 %)."
    );
    Claim::new(statement, format!("{paper} months"), judged)
}

fn table(results: &Results) -> Table {
    let headings = [
        "write size",
        "clients, MB/s",
        "parity SSD, MB/s",
        "parity / data",
        "life, months",
        "at 100 MB/s",
        "at 25 MB/s",
    ];
    let mut table =
        Table::new("Life of the parity SSD under what RAID4S of modelled disks can write", &headings);
    for kib in SIZES_KIB {
        let Some(outcome) = results.of(&point(results.effort, kib)) else { continue };
        let (rate, share) = (outcome.mb_per_s(), parity_share(outcome));
        let mut row = vec![
            format!("{kib} KiB"),
            format!("{rate:.1}"),
            format!("{:.1}", rate * share),
            format!("{share:.2}"),
        ];
        row.extend([rate * share, 100.0 * share, 25.0 * share].map(|rate| format!("{:.1}", months(rate))));
        table.rows.push(row);
    }
    table
}

fn lifetimes(results: &Results) -> Plot {
    let rates = [10.0, 25.0, 50.0, 100.0, 200.0];
    let reckoned = rates.map(|rate| (rate, months(rate))).to_vec();
    let mut series = vec![
        Series::new("as much parity as data", 0, Style::Line, reckoned),
        Series::new("slides", 0, Style::Rings, vec![(100.0, 7.7), (25.0, 30.7)]),
    ];
    for (hue, kib) in [(1, 4), (2, 128), (3, 256)] {
        let Some(outcome) = results.of(&point(results.effort, kib)) else { continue };
        let share = parity_share(outcome);
        let points = rates.map(|rate| (rate, months(rate * share))).to_vec();
        series.push(Series::new(format!("writes of {kib} KiB, by counters"), hue, Style::Marked, points));
    }
    Plot {
        name: "raid4s-endurance-life",
        title: "Life of the parity SSD".to_owned(),
        x: Axis::linear("clients write, MB/s"),
        y: Axis::log10("months"),
        series,
    }
}
