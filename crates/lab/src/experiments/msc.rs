//! Shared parts of the experiments of msc-ct: its array, and the caches that stand side by side.

use stripewise_engine::{CacheKind, plan::passes::GapRule};

use super::{Effort, Results, pick, policy};
use crate::{
    arrays::{HddSetting, shapes},
    findings::Table,
    plot::{Axis, Plot, Series, Style},
    point::{CacheSetting, CacheWay, Destage, Measured, Outcome, Places, Point, WriteLoad},
};

/// msc-ct IV-A.
pub(super) const CACHE_BYTES: u64 = 512 << 20;
/// The paper leaves it open for its random writes; its driver's default elsewhere (IV-F) is 128 KiB.
const CHUNK_BYTES: u32 = 128 << 10;
/// What the paper's page cache writes back at a time: 40 % (`vm.dirty_ratio` of Linux 2.6.11) of the memory that the
/// machine's 1 GB has beside the RAID driver's 512 MiB, about 450 MiB.
const PAGE_CACHE_BYTES: u64 = 180 << 20;
/// A quick run has everything that counts blocks smaller by this factor, so that as many of them are dirty in a stripe.
pub(super) const QUICK_PARTS: u64 = 8;

/// A cache that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cache {
    /// Its name in tables and plots.
    pub(super) name: &'static str,
    kind: CacheKind,
    way: CacheWay,
    /// How it destages.
    pub(super) destage: Destage,
    through: bool,
}

impl Cache {
    /// How partly written rows are written: as md does, and ours as on every array whose members rotate.
    fn selection(self) -> &'static str {
        match self.way {
            CacheWay::Paper => "classic",
            CacheWay::Ours => "cost",
        }
    }

    /// The same that destages in another manner.
    pub(super) const fn destaging(self, name: &'static str, destage: Destage) -> Self {
        Self { name, destage, ..self }
    }
}

/// No cache.
pub(super) const NONE: Cache = paper("none", CacheKind::None);
/// The paper's PBGC, which is md's: a write is acknowledged when members have it.
pub(super) const PBGC: Cache = Cache { through: true, ..paper("PBGC (through)", CacheKind::Pbg) };
/// By rows, and a write is acknowledged when it is cached.
pub(super) const PBGC_BACK: Cache = paper("PBGC (back)", CacheKind::Pbg);
/// The paper's SC.
pub(super) const SC: Cache = paper("SC", CacheKind::Stripe);
/// The paper's MSC-CT.
pub(super) const CT: Cache = paper("MSC-CT", CacheKind::StripeCt);
/// The paper's MSC-CT, with gaps that are weighed instead of its thresholds.
pub(super) const WEIGHED: Cache =
    CT.destaging("MSC-CT, weighed", Destage { gaps: GapRule::Weighed, ..Destage::PAPER });
/// The same transform with our destage policies, and memory by blocks.
pub(super) const OURS: Cache = ours("stripe+ct, ours", CacheKind::StripeCt);

/// The default where disks rotate.
pub(super) const AUTO: Cache = ours("auto, ours", CacheKind::Auto);

/// A cache as msc-ct's driver has it.
const fn paper(name: &'static str, kind: CacheKind) -> Cache {
    Cache { name, kind, way: CacheWay::Paper, destage: Destage::PAPER, through: false }
}

/// A cache with our policies.
pub(super) const fn ours(name: &'static str, kind: CacheKind) -> Cache {
    Cache { name, kind, way: CacheWay::Ours, destage: Destage::OURS, through: false }
}

/// All of them.
pub(super) const CACHES: [Cache; 7] = [NONE, PBGC, PBGC_BACK, SC, CT, OURS, AUTO];

/// Random writes of the paper (IV-B).
pub(super) const RANDOM_WRITES: u64 = 160_000;

/// Writes under way when a page cache is written back: Linux's `nr_requests`.
pub(super) const WRITES_UNDER_WAY: u32 = 128;

/// Dirty blocks that the page cache holds before it writes them back.
pub(super) const DIRTY_BLOCKS: u64 = PAGE_CACHE_BYTES / 4096;
/// 32 MiB: what mke2fs gives a file system of more than a gigabyte.
pub(super) const JOURNAL_BLOCKS: u64 = (32 << 20) / 4096;

/// How far a "times as fast" of the paper's figure may be off, as a part of it: a fifth, or half of the gain if that is less.
pub(super) fn tolerance(times: f64) -> f64 {
    f64::min(0.2, (times - 1.0) / (2.0 * times))
}

/// One of two amounts: all of it, or a part in a quick run.
pub(super) fn part(effort: Effort, amount: u64) -> u64 {
    pick(effort, amount / QUICK_PARTS, amount)
}

/// Writes of 4 KiB anywhere in a workspace, as a page cache writes them back, from an empty cache to the end of a flush.
pub(super) fn point(effort: Effort, cache: Cache, span_bytes: u64, writes: u64, depth: u32) -> Point {
    let load = WriteLoad {
        places: Places::Sweeps(part(effort, writes.min(PAGE_CACHE_BYTES / 4096))),
        span_bytes: Some(part(effort, span_bytes)),
        ..WriteLoad::random(4096, depth, part(effort, 4096 * writes), 1)
    };
    scripted(effort, cache, load)
}

/// A load on the paper's array, from an empty cache to the end of a flush.
pub(super) fn scripted(effort: Effort, cache: Cache, load: WriteLoad) -> Point {
    let setting = CacheSetting {
        kind: cache.kind,
        size_bytes: part(effort, CACHE_BYTES),
        way: cache.way,
        destage: cache.destage,
        through: cache.through,
    };
    Point {
        hdd: HddSetting { write_cache: false, ..HddSetting::default() },
        chunk_bytes: Some(CHUNK_BYTES),
        cache: (cache.kind != CacheKind::None).then_some(setting),
        measured: Measured::Whole,
        ..Point::new(&shapes::MSC, policy(cache.selection()), load)
    }
}

/// A plot of all caches over some quantity.
pub(super) fn plot(
    (name, title): (&'static str, &str),
    (x, y): (Axis, Axis),
    xs: &[u64],
    results: &Results,
    point: impl Fn(Cache, u64) -> Point,
    value: impl Fn(&Outcome) -> f64,
) -> Plot {
    plot_of(&CACHES, (name, title), (x, y), xs, results, point, |_, outcome| value(outcome))
}

/// A plot of some caches over some quantity.
pub(super) fn plot_of(
    caches: &[Cache],
    (name, title): (&'static str, &str),
    (x, y): (Axis, Axis),
    xs: &[u64],
    results: &Results,
    point: impl Fn(Cache, u64) -> Point,
    value: impl Fn(&Point, &Outcome) -> f64,
) -> Plot {
    let line = |cache: Cache| {
        let of = |x: &u64| {
            let point = point(cache, *x);
            Some((*x as f64, value(&point, results.of(&point)?)))
        };
        xs.iter().filter_map(of).collect()
    };
    let series = caches.iter().enumerate();
    let series = series.map(|(hue, cache)| Series::new(cache.name, hue, Style::Marked, line(*cache)));
    Plot { name: name.into(), title: title.to_owned(), x, y, series: series.collect() }
}

/// The same as numbers.
pub(super) fn table(
    title: &str,
    heading: &str,
    xs: &[(u64, String)],
    results: &Results,
    point: impl Fn(Cache, u64) -> Point,
    value: impl Fn(&Outcome) -> f64,
) -> Table {
    table_of(&CACHES, title, heading, xs, results, point, |_, outcome| value(outcome))
}

/// The same of some caches.
pub(super) fn table_of(
    caches: &[Cache],
    title: &str,
    heading: &str,
    xs: &[(u64, String)],
    results: &Results,
    point: impl Fn(Cache, u64) -> Point,
    value: impl Fn(&Point, &Outcome) -> f64,
) -> Table {
    let headings: Vec<_> = std::iter::once(heading).chain(caches.iter().map(|cache| cache.name)).collect();
    let mut table = Table::new(title, &headings);
    for (x, text) in xs {
        let cell = |cache: &Cache| {
            let point = point(*cache, *x);
            let value = results.of(&point).map(|outcome| value(&point, outcome));
            value.map_or_else(String::new, |value| format!("{value:.2}"))
        };
        table.rows.push(std::iter::once(text.clone()).chain(caches.iter().map(cell)).collect());
    }
    table
}

/// Requests to members for each request of a client.
pub(super) fn requests(outcome: &Outcome) -> f64 {
    let requests: u64 = outcome.members.iter().map(|member| member.reads + member.writes).sum();
    requests as f64 / outcome.requests as f64
}

/// What points asked of members for each request of a client, and how long each took.
pub(super) fn work<const N: usize>(results: &Results, of: [(String, Point); N]) -> String {
    let text = |(name, point): (String, Point)| {
        let outcome = results.of(&point)?;
        let busy: u64 = outcome.members.iter().map(|member| member.busy_ns).sum();
        let (each, filled) = (requests(outcome), outcome.blocks_filled as f64 / outcome.requests as f64);
        let ms = busy as f64 / 1e6 / (each * outcome.requests as f64);
        Some(format!(
            "{name}: {each:.2} requests to members for each, {ms:.2} ms each, {filled:.1} blocks filled"
        ))
    };
    of.into_iter().filter_map(text).collect::<Vec<_>>().join("; ") + "."
}
