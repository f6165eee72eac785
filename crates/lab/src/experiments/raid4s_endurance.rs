//! raid4s-slides, "SSD Reliability".

use stripewise_engine::endurance::lifetime_s;

use super::{
    Effort, Experiment, Points, Results,
    lines::{self, Line, Sizes},
    pick, policy,
    raid4s::{ARRAYS, hue},
};
use crate::{
    arrays::{Drive, Shape, shapes},
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
        "The same by the engine's own reckoning (months of 30 days), and what arrays of modelled disks really write to an SSD \
         under random writes, by the engine's counters of the member. RAID0, RAID4 and RAID5 have no SSD to wear.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// raid4s-slides: "2PB random write lifetime".
const RATED_BYTES: u64 = 2_000_000_000_000_000;
const MONTH_S: f64 = 30.0 * 86_400.0;
const SIZES_KIB: [u64; 5] = [4, 16, 64, 128, 256];

/// The arrays with SSDs.
fn arrays() -> impl Iterator<Item = &'static Shape> {
    ARRAYS.into_iter().filter(|shape| shape.drives.contains(&Drive::Ssd))
}

fn point(effort: Effort, shape: &'static Shape, kib: u64) -> Point {
    let (pass_bytes, passes) = pick(effort, (64 << 20, 2), (128 << 20, 3));
    Point::new(shape, policy("classic"), WriteLoad::random(kib << 10, 10, pass_bytes, passes))
}

fn points(effort: Effort) -> Vec<Point> {
    arrays().flat_map(|shape| SIZES_KIB.map(|kib| point(effort, shape, kib))).collect()
}

fn months(mb_per_s: f64) -> f64 {
    lifetime_s(RATED_BYTES, mb_per_s * 1e6) / MONTH_S
}

/// Bytes written to the most written SSD, for each byte that clients wrote.
fn ssd_share(outcome: &Outcome) -> f64 {
    let ssds = outcome.members.iter().filter(|member| member.drive == "ssd");
    let most = ssds.map(|member| member.written_bytes).max().unwrap_or_default();
    most as f64 / outcome.pass_bytes.iter().sum::<u64>() as f64
}

/// Writes to the parity SSD, or to the others, for each write of clients.
fn writes_each(outcome: &Outcome, to_ssd: bool) -> f64 {
    let members = outcome.members.iter().filter(|member| (member.drive == "ssd") == to_ssd);
    members.map(|member| member.writes).sum::<u64>() as f64 / outcome.requests as f64
}

fn findings(results: &Results) -> Findings {
    let effort = results.effort;
    let line = |shape: &'static Shape| {
        Line::new(shape.name, hue(shape), &SIZES_KIB, |kib| point(effort, shape, kib))
    };
    let lines: Vec<_> = arrays().map(line).collect();
    let throughput = ("raid4s-endurance-throughput", "Arrays with SSDs, random writes");
    Findings {
        claims: vec![
            slides(100.0, 7.7),
            slides(25.0, 30.7),
            simulated(results, 100.0, 7.7),
            simulated(results, 25.0, 30.7),
        ],
        plots: vec![lifetimes(results), lines::throughput(throughput, Sizes::Powers, &lines, results)],
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
    let judged = results.of(&point(results.effort, &shapes::RAID4S, kib)).map(|outcome| {
        let share = ssd_share(outcome);
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
        "array",
        "KiB",
        "clients, MB/s",
        "SSD, MB/s",
        "SSD / data",
        "life, months",
        "at 100 MB/s",
        "at 25 MB/s",
    ];
    let title = "Life of the SSD that is written to the most, under what arrays of modelled disks can write";
    let mut table = Table::new(title, &headings);
    for (shape, kib) in arrays().flat_map(|shape| SIZES_KIB.map(|kib| (shape, kib))) {
        let Some(outcome) = results.of(&point(results.effort, shape, kib)) else { continue };
        let (rate, share) = (outcome.mb_per_s(), ssd_share(outcome));
        let mut row = vec![
            shape.name.to_owned(),
            kib.to_string(),
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
        let Some(outcome) = results.of(&point(results.effort, &shapes::RAID4S, kib)) else { continue };
        let share = ssd_share(outcome);
        let points = rates.map(|rate| (rate, months(rate * share))).to_vec();
        series.push(Series::new(format!("writes of {kib} KiB, by counters"), hue, Style::Marked, points));
    }
    Plot {
        name: "raid4s-endurance-life".into(),
        title: "Life of the parity SSD".to_owned(),
        x: Axis::linear("clients write, MB/s"),
        y: Axis::log10("months"),
        series,
    }
}
