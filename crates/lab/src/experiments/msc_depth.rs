//! msc-ct IV-B, Fig. 12.

use super::{
    Effort, Experiment, Points, Results,
    msc::{self, CACHES, CT, Cache, PBGC, PBGC_BACK, SC},
    msc_variants::Varied,
    pick,
};
use crate::{
    findings::{Claim, Findings, Judged, Table},
    plot::{Axis, Plot},
    point::{Outcome, Point},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "msc-depth",
    title: "40,000 to 2,560,000 random writes in a workspace of 1.5 GB",
    source: "msc-ct IV-B, Fig. 12",
    setting: &[
        "The paper: Tiobench, writes of 4 KiB at uniformly random places; array and caches as in msc-random. Few writes do not fill \
         the cache, so that less is dirty in a stripe when it is destaged.",
        "The load is msc-random's: what a page cache writes back, each page once, in ascending order; if fewer writes come than the \
         page cache holds, all of them in one sweep. Left open by the paper, and here: one workspace for all threads, chunks of \
         128 KiB, 128 writes under way, the drives' write caches off, from an empty cache to the end of a last flush.",
        "Latency is that of the array's writes: from the call until the cache has the block, for PBGC until the members have it. \
         Throughput over CPU load (Fig. 12(d)) needs a processor, which a model has not. What stands for it is what the engine does for \
         a write: requests to members, and blocks that pass between engine and members, each of which is also XORed or copied. \
         The fewest writes are also run with chunks of 64 and of 256 KiB, with two writes under way (a thread for each gigabyte \
         begun) and with 32, MSC-CT also with an S_max of 16 blocks. A quick run has an eighth of the caches, of the workspace and of the writes, and goes to 320k.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// 1.5 GB.
const SPAN_BYTES: u64 = 3 << 29;
const FEWEST: u64 = 40_000;
const MOST: u64 = 2_560_000;
/// How far a ratio of longest latencies may be off: one request decides each.
const LATENCY_TOLERANCE: f64 = 0.5;
/// Threads of Tiobench: one for each gigabyte begun.
const THREADS: u32 = 2;
/// Caches of which claims speak: only they are run with all amounts.
const CLAIMED: [Cache; 3] = [PBGC, SC, CT];
/// The amounts that the others are run with.
const FEW: [u64; 3] = [FEWEST, 160_000, 640_000];
/// What counts as saturated: the last doubling of the writes changes throughput by no more.
const SATURATED: f64 = 0.1;

/// The most writes of a run: from 320k on more change little.
fn most(effort: Effort) -> u64 {
    pick(effort, 320_000, MOST)
}

fn amounts(effort: Effort) -> Vec<u64> {
    let all = (0..7).map(|doublings| FEWEST << doublings).filter(|writes| *writes <= most(effort));
    all.filter(|writes| pick(effort, *writes != 80_000, true)).collect()
}

fn point(effort: Effort, cache: Cache, writes: u64) -> Point {
    msc::point(effort, cache, SPAN_BYTES, writes, msc::WRITES_UNDER_WAY)
}

fn points(effort: Effort) -> Vec<Point> {
    let is_run = |cache: &Cache, writes: &u64| CLAIMED.contains(cache) || FEW.contains(writes);
    let of = |cache: Cache| {
        let amounts = amounts(effort).into_iter().filter(move |writes| is_run(&cache, writes));
        amounts.map(move |writes| point(effort, cache, writes))
    };
    let varied = Varied { threads: THREADS, point: &|cache| point(effort, cache, FEWEST) };
    CACHES.into_iter().flat_map(of).chain(varied.points()).collect()
}

fn findings(results: &Results) -> Findings {
    let most = most(results.effort);
    let mut tables = tables(results);
    let varied = Varied { threads: THREADS, point: &|cache| point(results.effort, cache, FEWEST) };
    tables.push(varied.table(results, "40k writes"));
    Findings {
        claims: vec![
            times(results, FEWEST, 1.53),
            times(results, most, 2.41),
            saturates(results),
            just_below(results, PBGC, most),
            just_below(results, PBGC_BACK, FEW[1]),
            longest(results, (SC, CT), (3.6, most)),
            longest(results, (PBGC, SC), (56.0, most)),
            longest(results, (PBGC_BACK, SC), (56.0, FEW[1])),
            work(results, SC),
            work(results, PBGC),
        ],
        plots: plots(results),
        tables,
    }
}

/// Blocks that members read and write for each write of a client.
fn blocks(outcome: &Outcome) -> f64 {
    let bytes: u64 = outcome.members.iter().map(|member| member.read_bytes + member.written_bytes).sum();
    bytes as f64 / 4096.0 / outcome.requests as f64
}

fn longest_ms(outcome: &Outcome) -> f64 {
    outcome.latency_max_ns as f64 / 1e6
}

fn mean_ms(outcome: &Outcome) -> f64 {
    outcome.latency_mean_ns as f64 / 1e6
}

/// What is shown: a word for files, a title, a unit, and the figure.
type Shown = (&'static str, &'static str, &'static str, fn(&Outcome) -> f64);

const SHOWN: [Shown; 5] = [
    ("msc-depth-throughput", "Throughput (Fig. 12(a))", "MB/s", Outcome::mb_per_s),
    ("msc-depth-latency", "Mean latency (Fig. 12(b))", "ms", mean_ms),
    ("msc-depth-longest", "Longest latency (Fig. 12(c))", "ms", longest_ms),
    ("msc-depth-requests", "Requests to members for a write", "requests", msc::requests),
    ("msc-depth-blocks", "Blocks between engine and members for a write", "blocks", blocks),
];

fn plots(results: &Results) -> Vec<Plot> {
    let (effort, xs) = (results.effort, amounts(results.effort));
    let of = |cache, writes| point(effort, cache, writes);
    let plot = |(name, title, unit, value): Shown| {
        let y = if unit == "ms" { Axis::log10(unit) } else { Axis::from_zero(unit) };
        msc::plot((name, title), (Axis::log2("writes"), y), &xs, results, of, value)
    };
    SHOWN.map(plot).into()
}

fn tables(results: &Results) -> Vec<Table> {
    let (effort, xs) = (results.effort, amounts(results.effort));
    let of = |cache, writes| point(effort, cache, writes);
    let rows: Vec<_> = xs.iter().map(|writes| (*writes, format!("{}k", writes / 1000))).collect();
    let table = |(_, title, unit, value): Shown| {
        msc::table(&format!("{title}, {unit}"), "writes", &rows, results, of, value)
    };
    SHOWN.map(table).into()
}

/// What two caches asked of members.
fn why(results: &Results, both: [Cache; 2], writes: u64) -> String {
    let named = both.map(|cache| (cache.name.to_owned(), point(results.effort, cache, writes)));
    msc::work(results, named)
}

fn times(results: &Results, writes: u64, paper: f64) -> Claim {
    let (of, tolerance) = (|cache| point(results.effort, cache, writes), msc::tolerance(paper));
    let judged = results.speed_up(&of(CT), &of(SC)).map(|ratio| {
        let judged = Judged::near(ratio, paper, tolerance, format!("{ratio:.2}x"));
        let judged = judged.because(why(results, [CT, SC], writes));
        if writes != FEWEST {
            return judged;
        }
        let varied = Varied { threads: THREADS, point: &of };
        varied.told(judged, results, (CT, SC), (paper, tolerance))
    });
    let (thousands, percent) = (writes / 1000, 100.0 * tolerance);
    let statement =
        format!("With {thousands}k writes MSC-CT is {paper}x as fast as SC (within {percent:.0} %).");
    Claim::new(statement, "Fig. 12(a)", judged)
}

fn saturates(results: &Results) -> Claim {
    let most = most(results.effort);
    let of = |cache, writes| results.mb_per_s(&point(results.effort, cache, writes));
    let growth = |cache: Cache| Some((cache.name, of(cache, most)? / of(cache, most / 2)?));
    let judged = CLAIMED.into_iter().map(growth).collect::<Option<Vec<_>>>().and_then(|all| {
        let told: Vec<_> = all.iter().map(|(name, growth)| format!("{name} {growth:.2}x")).collect();
        let judged = |growth: f64| Judged::near(growth, 1.0, SATURATED, told.join(", "));
        Judged::of_all(all.iter().map(|(_, growth)| judged(*growth)))
    });
    let statement = format!(
        "From {}k to {}k writes the throughput of PBGC, SC and MSC-CT hardly changes (within a tenth).",
        most / 2000,
        most / 1000
    );
    Claim::new(statement, "Fig. 12(a)", judged)
}

/// Slightly less: not more, and by no more than a fifth.
fn just_below(results: &Results, over: Cache, writes: u64) -> Claim {
    let of = |cache| point(results.effort, cache, writes);
    let judged = results.speed_up(&of(SC), &of(over)).map(|ratio| {
        let judged = Judged::near(ratio, 0.9, 0.1 / 0.9, format!("{ratio:.2}x"));
        judged.because(why(results, [SC, over], writes))
    });
    let statement =
        format!("With {}k writes SC has 0.8x to 1x of the throughput of {}.", writes / 1000, over.name);
    Claim::new(statement, "Fig. 12(a): slightly less", judged)
}

fn longest(results: &Results, (of, over): (Cache, Cache), (paper, writes): (f64, u64)) -> Claim {
    let outcome = |cache| results.of(&point(results.effort, cache, writes));
    let judged = outcome(of).zip(outcome(over)).map(|(one, other)| {
        let ratio = longest_ms(one) / longest_ms(other);
        let told = format!("{ratio:.2}x: {:.0} ms and {:.0} ms", longest_ms(one), longest_ms(other));
        let text = |(cache, outcome): (Cache, &Outcome)| {
            let [half, most] = [outcome.latency_p50_ns, outcome.latency_p99_ns].map(|ns| ns as f64 / 1e6);
            format!("{}: half of the writes within {half:.1} ms, 99 % within {most:.0} ms", cache.name)
        };
        let why = [(of, one), (over, other)].map(text).join("; ") + ".";
        Judged::near(ratio, paper, LATENCY_TOLERANCE, told).because(why)
    });
    let statement = format!(
        "With {}k writes the longest latency of {} is {paper}x that of {} (within a half).",
        writes / 1000,
        of.name,
        over.name
    );
    Claim::new(statement, "Fig. 12(c)", judged)
}

/// The CPU load of a write is not known; what costs a processor is.
fn work(results: &Results, over: Cache) -> Claim {
    let most = most(results.effort);
    let outcome = |cache| results.of(&point(results.effort, cache, most));
    let judged = outcome(CT).zip(outcome(over)).map(|(ct, other)| {
        let told = format!(
            "{:.2} and {:.2} requests, {:.1} and {:.1} blocks for a write",
            msc::requests(ct),
            msc::requests(other),
            blocks(ct),
            blocks(other)
        );
        Judged::at_most(msc::requests(ct) / msc::requests(other), 1.0, told)
    });
    let statement = format!(
        "With {}k writes MSC-CT makes no more requests to members for a write than {}; this stands for \
         \"CT rarely has a CPU load degradation\".",
        most / 1000,
        over.name
    );
    Claim::new(statement, "Fig. 12(d)", judged)
}
