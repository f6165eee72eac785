//! msc-ct IV-F, Fig. 15: every S_max beside the measured one, on the drive alone and in an array; and in the array gaps
//! that are weighed by the curve instead.

use std::sync::OnceLock;

use stripewise_sim::model::ModelOp;

use super::{
    Effort, Results,
    msc::{self, CT, Cache, WEIGHED},
};
use crate::{
    findings::{Claim, Judged, Table},
    plot::{Axis, Plot, Series, Style},
    point::{Places, Point, WriteLoad},
    strides::{self, Disk},
    validate::drives::WRITE,
};

/// Fig. 15.
const MEAN: u64 = 10;
const STRIDE_MAX: u64 = 64;
/// Settings of S_max that are compared in the array; none is as measured.
const LIMITS: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
const CHUNK_BYTES: u32 = 256 << 10;
const WRITES: u64 = 160_000;
/// How far the measured S_max may be behind the best.
const BEHIND: f64 = 0.98;
const DRIVE: &str = "ST373454LC";

/// The drive alone, with one operation.
struct Alone {
    word: &'static str,
    measured: u64,
    /// What the benchmark found, by stride.
    curve: Vec<(f64, f64)>,
    /// By S_max from 1 on: the time over that of all blocks.
    times: Vec<(u64, f64)>,
}

fn alone() -> &'static [Alone; 2] {
    static FOUND: OnceLock<[Alone; 2]> = OnceLock::new();
    FOUND.get_or_init(|| {
        let disks = strides::disks();
        let disk = disks.iter().find(|disk| disk.name == DRIVE).expect("the lab has the paper's drive");
        let found = disk.strides();
        [("reads", ModelOp::Read, found.read), ("writes", WRITE, found.write)].map(|(word, op, record)| {
            let (measured, curve) = (u64::from(record.s_max), strides::curve(&record));
            Alone { word, measured, curve, times: times(disk, op) }
        })
    })
}

fn times(disk: &Disk, op: ModelOp) -> Vec<(u64, f64)> {
    let (runs, whole) = (strides::exponential(MEAN, STRIDE_MAX), strides::contiguous());
    let whole_ns = disk.pass_ns(op, &whole);
    let of = |limit: u64| (limit, disk.pass_ns(op, &strides::filled(&runs, limit)) / whole_ns);
    (1..=STRIDE_MAX).map(of).collect()
}

fn limited(effort: Effort, stride_max: Option<u16>) -> Point {
    Point { stride_max, ..point(effort, CT) }
}

fn point(effort: Effort, cache: Cache) -> Point {
    let all = msc::point(effort, cache, 0, WRITES, msc::WRITES_UNDER_WAY);
    let places = Places::Skips { mean: MEAN, max: STRIDE_MAX };
    let load = WriteLoad { places, span_bytes: None, ..all.load };
    Point { load, chunk_bytes: Some(CHUNK_BYTES), ..all }
}

pub(super) fn points(effort: Effort) -> Vec<Point> {
    let limits = std::iter::once(None).chain(LIMITS.map(Some)).map(|limit| limited(effort, limit));
    limits.chain([point(effort, WEIGHED)]).collect()
}

pub(super) fn claims(results: &Results) -> Vec<Claim> {
    let mut claims: Vec<_> = alone().iter().map(of_drive).collect();
    claims.extend([of_array(results), of_weighing(results)]);
    claims
}

fn of_drive(alone: &Alone) -> Claim {
    let at = |limit: u64| alone.times.iter().find(|(at, _)| *at == limit).map_or(f64::NAN, |(_, time)| *time);
    let (best, least) =
        alone.times.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are settings");
    let measured = at(alone.measured);
    let told = format!(
        "{measured:.3} with the measured {}; least {least:.3}, with {best}; {:.3} without filling",
        alone.measured,
        at(1)
    );
    let judged = Judged::new(least / measured > BEHIND, told).else_because(between(alone));
    let statement = format!(
        "Of all S_max of {} from 1 to 64 the measured one is the fastest on the drive alone (within 2 %).",
        alone.word
    );
    Claim::analytic(statement, "IV-F, Fig. 15", judged)
}

/// Strides that the threshold of 1.2 leaves, although all blocks would take less time.
fn between(alone: &Alone) -> String {
    let left = alone.curve.iter().filter(|(stride, _)| *stride >= alone.measured as f64);
    let slower: Vec<_> = left.filter(|(_, time)| *time > 1.0).collect();
    let most = slower.iter().map(|(_, time)| *time).fold(1.0, f64::max);
    let last = slower.last().map_or(alone.measured as f64, |(stride, _)| *stride);
    format!(
        "By the benchmark, {} strides from {} to {last} take longer than all blocks, up to {most:.2} times as long. They are \
         below the threshold of 1.2, and are not filled.",
        slower.len(),
        alone.measured
    )
}

fn of_array(results: &Results) -> Claim {
    let rate = |limit| results.mb_per_s(&limited(results.effort, limit));
    let rates = LIMITS.iter().map(|limit| Some((*limit, rate(Some(*limit))?))).collect::<Option<Vec<_>>>();
    let judged = rates.zip(rate(None)).map(|(rates, measured)| {
        let (best, most) = rates.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are settings");
        let told =
            format!("{measured:.2} MB/s as measured; {most:.2} MB/s with {best}, the best of the others");
        let both = [("as measured", None), ("the best of the others", Some(best))];
        let named = both.map(|(name, limit)| (name.to_owned(), limited(results.effort, limit)));
        let busy = both.map(|(_, limit)| busy_ms(results, limit));
        let why = msc::work(results, named);
        Judged::above(measured / most, BEHIND, told).because(format!(
            "{why} In all a write keeps members busy for {:.2} ms and for {:.2} ms.",
            busy[0], busy[1]
        ))
    });
    let statement =
        "In the array the measured S_max is the fastest of 1, 2, 4, 8, 16, 32 and 64 (within 2 %).";
    Claim::new(statement, "IV-F, Fig. 15", judged)
}

fn of_weighing(results: &Results) -> Claim {
    let rate = |point: &Point| results.mb_per_s(point);
    let (weighed, measured) = (point(results.effort, WEIGHED), limited(results.effort, None));
    let judged = rate(&weighed).zip(rate(&measured)).map(|(ours, papers)| {
        let told = format!("{ours:.2} MB/s weighed, {papers:.2} MB/s by the measured S_max");
        let named =
            [("weighed", weighed), ("by S_max", measured)].map(|(name, point)| (name.to_owned(), point));
        Judged::above(ours / papers, 1.0, told).because(msc::work(results, named))
    });
    Claim::new(
        "In the array gaps that are weighed by the curve are faster than by the measured S_max.",
        "ours",
        judged,
    )
}

/// How long a client's write keeps members busy, in milliseconds.
fn busy_ms(results: &Results, limit: Option<u16>) -> f64 {
    let outcome = results.of(&limited(results.effort, limit)).expect("its throughput was compared");
    let busy_ns: u64 = outcome.members.iter().map(|member| member.busy_ns).sum();
    busy_ns as f64 / 1e6 / outcome.requests as f64
}

pub(super) fn plots(results: &Results) -> [Plot; 2] {
    let line = |(hue, alone): (usize, &Alone)| {
        let times = alone.times.iter().map(|(limit, time)| (*limit as f64, *time)).collect();
        Series::new(alone.word, hue, Style::Marked, times)
    };
    let rate =
        |limit: &u16| Some((f64::from(*limit), results.mb_per_s(&limited(results.effort, Some(*limit)))?));
    let at = alone()[1].measured as f64;
    let mark = |point: &Point| results.mb_per_s(point).map(|rate| (at, rate)).into_iter().collect();
    let series = vec![
        Series::new("S_max given", 0, Style::Marked, LIMITS.iter().filter_map(rate).collect()),
        Series::new("as measured", 1, Style::Marked, mark(&limited(results.effort, None))),
        Series::new("gaps weighed", 2, Style::Marked, mark(&point(results.effort, WEIGHED))),
    ];
    [
        Plot {
            name: "msc-stride-limits".into(),
            title: format!("{DRIVE} alone: exponential strides of mean 10 with gaps filled (Fig. 15)"),
            x: Axis::log2("S_max, blocks"),
            y: Axis::from_zero("turnaround time, contiguous = 1"),
            series: alone().iter().enumerate().map(line).collect(),
        },
        Plot {
            name: "msc-stride-array".into(),
            title: "The array: writes at exponential strides of mean 10".to_owned(),
            x: Axis::log2("S_max, blocks"),
            y: Axis::from_zero("MB/s"),
            series,
        },
    ]
}

pub(super) fn table(results: &Results) -> Table {
    let headings = ["S_max", "MB/s", "requests for a write", "blocks filled for a write"];
    let mut table = Table::new("the array, by S_max in blocks", &headings);
    let limits = LIMITS.map(|limit| (limit.to_string(), limited(results.effort, Some(limit))));
    let measured = ("as measured".to_owned(), limited(results.effort, None));
    let weighed = ("weighed".to_owned(), point(results.effort, WEIGHED));
    for (name, point) in limits.into_iter().chain([measured, weighed]) {
        let Some(outcome) = results.of(&point) else { continue };
        let filled = outcome.blocks_filled as f64 / outcome.requests as f64;
        let figures = [outcome.mb_per_s(), msc::requests(outcome), filled];
        table.rows.push(std::iter::once(name).chain(figures.map(|figure| format!("{figure:.2}"))).collect());
    }
    table
}
