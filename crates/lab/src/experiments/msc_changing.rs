//! Loads that change while they run. What is claimed is in `msc_changing_claims`.

use std::collections::BTreeMap;

use stripewise_engine::CacheKind;

use super::{
    Effort, Experiment, Points, Results,
    msc::{self, AUTO, Cache, OURS},
    msc_changing_claims as claims, pick,
};
use crate::{
    findings::{Findings, Table},
    plot::{Axis, Plot, Series, Style},
    point::{Changing, Outcome, Phase, PhaseOutcome, Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "msc-changing",
    title: "Loads that change while they run",
    source: "ours, on the array of msc-ct IV-A",
    setting: &[
        "No paper has this. Level 5 of five ST373454LC, caches as in msc-random, chunks of 128 KiB, the drives' write caches off. The \
         load changes on the running array, with no flush in between: 4 KiB written anywhere on the whole array, far more than \
         the cache holds; 4 KiB written anywhere in half of what the cache holds; whole chunks written anywhere on the array; \
         64 KiB written in sequence; and 4 KiB anywhere in sixteen times what the cache holds, 70 % of which read. With long \
         phases that is all; with short ones the same requests come in eight rounds.",
        "The caches are those of ours, with their default policies, and rows are selected by cost: none, stripe, stripe+ct, and auto, \
         which is stripe+ct and sends writes past the cache while that occupies members for a shorter time, as it measures. All \
         are from an empty cache to the end of a last flush. What a phase leaves dirty is written in the next one, so that only \
         the time in all compares settings; the time of a phase shows where it was spent.",
        "A client waits 1 ms between two requests: in a model the cache takes no time, and a phase that fits it would not, either. \
         A quick run has an eighth of the caches, of the parts of the array that are used, and of the requests.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// No cache, with rows selected as on every array whose members rotate.
pub(super) const NONE: Cache = msc::ours("none", CacheKind::None);
const STRIPE: Cache = msc::ours("stripe, ours", CacheKind::Stripe);
/// What stands side by side.
pub(super) const CACHES: [Cache; 4] = [NONE, STRIPE, OURS, AUTO];

const GIB: u64 = 1 << 30;
/// Nearly all of four disks of 73.4 GB.
const ARRAY_BYTES: u64 = 270 * GIB;

const WRITES: Phase = Phase {
    name: "scattered",
    requests: 320_000,
    request_bytes: 4096,
    span_bytes: ARRAY_BYTES,
    sequential: false,
    read_percent: 0,
    durable: false,
    under_way: msc::WRITES_UNDER_WAY,
};

static PHASES: [Phase; 5] = [
    WRITES,
    Phase { name: "hot", requests: 240_000, span_bytes: msc::CACHE_BYTES / 2, ..WRITES },
    Phase { name: "chunks", requests: 80_000, request_bytes: 128 << 10, ..WRITES },
    Phase {
        name: "stream",
        requests: 120_000,
        request_bytes: 64 << 10,
        sequential: true,
        under_way: 8,
        ..WRITES
    },
    Phase { name: "mixed", requests: 320_000, span_bytes: 16 * msc::CACHE_BYTES, read_percent: 70, ..WRITES },
];

/// How long phases are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Long,
    Short,
}

/// Both.
pub(super) const LENGTHS: [Length; 2] = [Length::Long, Length::Short];

impl Length {
    /// In words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Long => "long phases",
            Self::Short => "short phases",
        }
    }

    /// Rounds, and how much shorter phases are.
    fn rounds(self) -> (u32, u64) {
        match self {
            Self::Long => (1, 1),
            Self::Short => (8, 8),
        }
    }
}

fn changing(effort: Effort, length: Length) -> Changing {
    let (rounds, shorter) = length.rounds();
    Changing { phases: &PHASES, rounds, part: pick(effort, msc::QUICK_PARTS, 1), shorter }
}

pub(super) fn point(effort: Effort, cache: Cache, length: Length) -> Point {
    msc::scripted(effort, cache, WriteLoad::changing(changing(effort, length)))
}

fn points(effort: Effort) -> Vec<Point> {
    let of = |length| CACHES.map(|cache| point(effort, cache, length));
    LENGTHS.into_iter().flat_map(of).collect()
}

fn findings(results: &Results) -> Findings {
    let tables = LENGTHS.into_iter().flat_map(|length| [seconds(results, length), ways(results, length)]);
    Findings {
        claims: claims::all(results),
        plots: LENGTHS.map(|length| plot(results, length)).into(),
        tables: tables.collect(),
    }
}

/// What each phase of an outcome came to, over all rounds: its name, and its time in seconds.
pub(super) fn by_phase(outcome: &Outcome) -> Vec<(&'static str, f64)> {
    let of = |index: usize| rounds_of(outcome, index).map(|phase| phase.ns as f64 / 1e9).sum();
    PHASES.iter().enumerate().map(|(index, phase)| (phase.name, of(index))).collect()
}

/// The time from the end of the last phase to that of the flush, in seconds.
fn flush_seconds(outcome: &Outcome) -> f64 {
    let phases: u64 = outcome.phases.iter().map(|phase| phase.ns).sum();
    outcome.elapsed_ns().saturating_sub(phases) as f64 / 1e9
}

/// The parts that an outcome's time has, and the whole of it.
fn parts(outcome: &Outcome) -> Vec<f64> {
    let phases = by_phase(outcome).into_iter().map(|(_, seconds)| seconds);
    phases.chain([flush_seconds(outcome), outcome.elapsed_ns() as f64 / 1e9]).collect()
}

fn seconds(results: &Results, length: Length) -> Table {
    let names = PHASES.iter().map(|phase| phase.name);
    let head: Vec<_> = ["cache"].into_iter().chain(names).chain(["last flush", "in all"]).collect();
    let mut table = Table::new(format!("Seconds, {}, all rounds together", length.name()), &head);
    for cache in CACHES {
        let Some(outcome) = results.of(&point(results.effort, cache, length)) else { continue };
        let cells = parts(outcome).into_iter().map(|seconds| format!("{seconds:.2}"));
        table.rows.push(std::iter::once(cache.name.to_owned()).chain(cells).collect());
    }
    table
}

fn plot(results: &Results, length: Length) -> Plot {
    let bars = |cache: Cache| {
        let outcome = results.of(&point(results.effort, cache, length));
        let seconds = outcome.map(parts).unwrap_or_default();
        seconds.into_iter().enumerate().map(|(index, value)| (index as f64, value)).collect()
    };
    let series = CACHES.into_iter().enumerate();
    let series = series.map(|(hue, cache)| Series::new(cache.name, hue, Style::Beside, bars(cache)));
    let names = PHASES.iter().map(|phase| phase.name).chain(["last flush", "in all"]);
    let name = match length {
        Length::Long => "msc-changing-long",
        Length::Short => "msc-changing-short",
    };
    Plot {
        name: name.into(),
        title: format!("A load that changes, {}", length.name()),
        x: Axis::names("phase, all rounds together", names.map(str::to_owned).collect()),
        y: Axis::from_zero("seconds"),
        series: series.collect(),
    }
}

/// The rounds of a phase, by its place among the phases.
pub(super) fn rounds_of(outcome: &Outcome, index: usize) -> impl DoubleEndedIterator<Item = &PhaseOutcome> {
    outcome.phases.iter().skip(index).step_by(PHASES.len())
}

/// Why writes went the way that they went for most of a phase, and for what share of it, in hundredths.
pub(super) fn mostly(outcome: &Outcome, index: usize) -> Option<(String, u64)> {
    let mut looks: BTreeMap<&str, u64> = BTreeMap::new();
    for (why, count) in rounds_of(outcome, index).flat_map(|round| &round.reasons) {
        *looks.entry(why).or_default() += count;
    }
    let all: u64 = looks.values().sum();
    let (why, count) = looks.into_iter().max_by_key(|(_, count)| *count)?;
    Some((why.to_owned(), 100 * count / all))
}

/// What `auto` thought that a KiB takes past the cache and by way of it at the end of a phase's last round.
fn thought(outcome: &Outcome, index: usize) -> String {
    let costs = rounds_of(outcome, index).next_back().and_then(|round| round.costs_ns);
    costs.map_or_else(
        || "-".to_owned(),
        |costs| costs.map(|ns| format!("{:.2}", ns as f64 / 1e6)).join(" and "),
    )
}

const WAYS_HEAD: [&str; 7] = [
    "phase",
    "rounds",
    "changes",
    "the last of a round after, s, at most",
    "parts past it",
    "ms of members for a KiB past it and by way of it, as thought at the end",
    "why, mostly",
];

/// How long `auto` takes to change its way, and why it keeps to it.
fn ways(results: &Results, length: Length) -> Table {
    let mut table = Table::new(format!("The way of auto, {}", length.name()), &WAYS_HEAD);
    let Some(outcome) = results.of(&point(results.effort, AUTO, length)) else { return table };
    for (index, phase) in PHASES.iter().enumerate() {
        let rounds = || rounds_of(outcome, index);
        let latest = rounds().filter_map(|round| round.changes.last()).map(|change| change.after_ns).max();
        let changes: usize = rounds().map(|round| round.changes.len()).sum();
        let passed: u64 = rounds().map(|round| round.passed).sum();
        table.rows.push(vec![
            phase.name.to_owned(),
            rounds().count().to_string(),
            changes.to_string(),
            latest.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e9)),
            passed.to_string(),
            thought(outcome, index),
            mostly(outcome, index).map_or_else(String::new, |(why, share)| format!("{why} ({share} %)")),
        ]);
    }
    table
}
