//! The cache's part of `all`: what an array has by default, beside each paper's own settings on the paper's array.

use super::{
    Effort, Results, msc,
    msc::{AUTO, CT, Cache, NONE, SC},
    msc_clients::{self, Given},
    policy,
};
use crate::{
    arrays::{HddSetting, Shape, shapes},
    findings::{Claim, Judged, Table},
    plot::{Axis, Plot, Series, Style},
    point::{Point, WriteLoad},
};

/// How rows are selected, and which cache there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    name: &'static str,
    selection: &'static str,
    cache: Cache,
}

const fn setting(name: &'static str, selection: &'static str, cache: Cache) -> Setting {
    Setting { name, selection, cache }
}

/// As `create` makes an array with a hard disk.
const DEFAULT: Setting = setting("default", "cost", AUTO);
const SETTINGS: [Setting; 6] = [
    setting("classic", "classic", NONE),
    setting("modthresh", "modthresh", NONE),
    setting("modified", "modified", NONE),
    setting("SC", "classic", SC),
    setting("MSC-CT", "classic", CT),
    DEFAULT,
];

/// A paper's array, and the settings that are the paper's own.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    shape: &'static Shape,
    /// Its name beneath bars.
    short: &'static str,
    own: &'static [&'static str],
    /// The drives' write caches, as in the paper's other experiments.
    write_cache: bool,
}

const BY_SELECTION: &[&str] = &["classic", "modthresh", "modified"];
static RAID4S: Place = Place { shape: &shapes::RAID4S, short: "4S", own: BY_SELECTION, write_cache: true };
static RAID5: Place = Place { shape: &shapes::RAID5, short: "5", own: BY_SELECTION, write_cache: true };
static MSC: Place = Place { shape: &shapes::MSC, short: "", own: &["SC", "MSC-CT"], write_cache: false };
static PLACES: [&Place; 3] = [&RAID4S, &RAID5, &MSC];

/// A load of a paper on its array.
struct Load {
    place: &'static Place,
    name: &'static str,
    load: fn(Effort) -> WriteLoad,
}

/// How many times as much as a cache holds is written to an array of the RAID4S papers.
const CACHES_WRITTEN: u64 = 4;

const fn load(place: &'static Place, name: &'static str, load: fn(Effort) -> WriteLoad) -> Load {
    Load { place, name, load }
}

static LOADS: [Load; 12] = [
    load(&RAID4S, "4 KiB", |effort| random(effort, 4)),
    load(&RAID4S, "64 KiB", |effort| random(effort, 64)),
    load(&RAID4S, "128 KiB", |effort| random(effort, 128)),
    load(&RAID4S, "192 KiB", |effort| random(effort, 192)),
    load(&RAID5, "4 KiB", |effort| random(effort, 4)),
    load(&RAID5, "64 KiB", |effort| random(effort, 64)),
    load(&RAID5, "128 KiB", |effort| random(effort, 128)),
    load(&RAID5, "192 KiB", |effort| random(effort, 192)),
    load(&MSC, "1 GB", |effort| in_workspace(effort, 1)),
    load(&MSC, "8 GB", |effort| in_workspace(effort, 8)),
    load(&MSC, "16 clients", |effort| clients(effort, 16)),
    load(&MSC, "128 clients", |effort| clients(effort, 128)),
];

/// The papers' random writes, 10 under way.
fn random(effort: Effort, kib: u64) -> WriteLoad {
    WriteLoad::random(kib << 10, 10, CACHES_WRITTEN * msc::part(effort, msc::CACHE_BYTES), 1)
}

fn in_workspace(effort: Effort, gb: u64) -> WriteLoad {
    msc::point(effort, NONE, gb << 30, msc::RANDOM_WRITES, msc::WRITES_UNDER_WAY).load
}

fn clients(effort: Effort, count: u64) -> WriteLoad {
    msc_clients::with_clients(Given::own_mix(effort), NONE, count).load
}

fn point(effort: Effort, load: &Load, setting: Setting) -> Point {
    let point = msc::scripted(effort, setting.cache, (load.load)(effort));
    let hdd = HddSetting { write_cache: load.place.write_cache, ..point.hdd };
    let chunk_bytes = point.chunk_bytes.filter(|_| load.place == &MSC);
    Point { shape: load.place.shape, policy: policy(setting.selection), hdd, chunk_bytes, ..point }
}

pub(super) fn points(effort: Effort) -> Vec<Point> {
    let of = |load| SETTINGS.map(|setting| point(effort, load, setting));
    LOADS.iter().flat_map(of).collect()
}

/// How far the default may be behind, and what counts as ahead.
const BEHIND: f64 = 0.97;
const AHEAD: f64 = 1.03;

pub(super) fn claims(results: &Results) -> Vec<Claim> {
    PLACES.iter().flat_map(|place| [never_behind(results, place), ahead_somewhere(results, place)]).collect()
}

/// The default over the paper's own best, and that one's name.
fn over_own(results: &Results, load: &Load) -> Option<(f64, Setting)> {
    let rate = |setting: Setting| results.mb_per_s(&point(results.effort, load, setting));
    let own = SETTINGS.into_iter().filter(|setting| load.place.own.contains(&setting.name));
    let rates = own.map(|setting| Some((rate(setting)?, setting))).collect::<Option<Vec<_>>>()?;
    let (best, setting) = rates.into_iter().rev().max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some((rate(DEFAULT)? / best, setting))
}

/// The same at each load of an array; none if a point is missing.
fn over_own_at(results: &Results, place: &Place) -> Option<Vec<(&'static Load, f64, Setting)>> {
    let loads = LOADS.iter().filter(|load| load.place == place);
    loads.map(|load| over_own(results, load).map(|(ratio, best)| (load, ratio, best))).collect()
}

/// As in "1.27x with 4 KiB (over modthresh)".
fn told(all: &[(&Load, f64, Setting)]) -> String {
    let text = |(load, ratio, best): &(&Load, f64, Setting)| {
        format!("{ratio:.2}x with {} (over {})", load.name, best.name)
    };
    all.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn never_behind(results: &Results, place: &'static Place) -> Claim {
    let judged = over_own_at(results, place).and_then(|all| {
        let text = told(&all);
        let judged = |(load, ratio, best): &(&'static Load, f64, Setting)| {
            let named = [*best, DEFAULT]
                .map(|setting| (setting.name.to_owned(), point(results.effort, load, setting)));
            let why = format!("With {}: {}", load.name, msc::work(results, named));
            Judged::above(*ratio, BEHIND, text.clone()).because(why)
        };
        Judged::of_all(all.iter().map(judged))
    });
    let statement = format!(
        "{}: the default, with its cache, is never more than 3 % behind the best of the paper's own settings.",
        place.shape.name
    );
    Claim::new(statement, "", judged)
}

fn ahead_somewhere(results: &Results, place: &'static Place) -> Claim {
    let judged = over_own_at(results, place).and_then(|all| {
        let (load, ratio, best) = *all.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(Judged::above(ratio, AHEAD, told(&[(load, ratio, best)])))
    });
    let statement = format!(
        "{}: the default, with its cache, is ahead of the best of the paper's own settings somewhere (by more than 3 %).",
        place.shape.name
    );
    Claim::new(statement, "", judged)
}

/// All settings beside the best of the paper's own.
pub(super) fn plot(results: &Results) -> Plot {
    let over = |load: &Load, setting: Setting| {
        let (ratio, _) = over_own(results, load)?;
        let of = |setting| results.mb_per_s(&point(results.effort, load, setting));
        Some(ratio * of(setting)? / of(DEFAULT)?)
    };
    let bars = |setting: Setting| {
        let values = LOADS.iter().enumerate();
        values.filter_map(|(index, load)| Some((index as f64, over(load, setting)?))).collect()
    };
    let series = SETTINGS.into_iter().enumerate();
    let series = series.map(|(hue, setting)| Series::new(setting.name, hue, Style::Beside, bars(setting)));
    Plot {
        name: "all-caches".into(),
        title: "The default beside the papers' settings, times as fast as each paper's own best".to_owned(),
        x: Axis::names(
            "RAID4S (4S) and RAID5 (5), KiB; RAID5 of ST373454LC, workspace or clients (c)",
            short_names(),
        ),
        y: Axis::from_zero("times as fast"),
        series: series.collect(),
    }
}

/// Names that fit beneath bars.
fn short_names() -> Vec<String> {
    let short = |load: &Load| {
        let name = load.name.replace(" KiB", "").replace(" clients", "c");
        format!("{} {name}", load.place.short).trim_start().to_owned()
    };
    LOADS.iter().map(short).collect()
}

pub(super) fn table(results: &Results) -> Table {
    let names = SETTINGS.iter().map(|setting| setting.name);
    let head: Vec<_> =
        ["array", "load"].into_iter().chain(names).chain(["default to the paper's own"]).collect();
    let mut table = Table::new("The default, with its cache, beside the papers' settings; MB/s", &head);
    for load in &LOADS {
        let rate = |setting| results.mb_per_s(&point(results.effort, load, setting));
        let Some(rates) = SETTINGS.into_iter().map(rate).collect::<Option<Vec<_>>>() else { continue };
        let Some((ratio, best)) = over_own(results, load) else { continue };
        let cells = rates.iter().map(|rate| format!("{rate:.2}"));
        let cells = cells.chain([format!("{ratio:.2}x {}", best.name)]);
        let row = [load.place.shape.name.to_owned(), load.name.to_owned()];
        table.rows.push(row.into_iter().chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiments::all::EXPERIMENT, findings::ClaimVerdict};

    #[test]
    fn the_default_is_held_against_each_papers_own_best_only() {
        // MSC-CT is no setting of RAID4S's papers.
        let rate = |point: &Point| match point.cache.map(|cache| cache.kind.name()) {
            Some("stripe+ct") => 20.0,
            Some("auto") if point.shape == MSC.shape => 18.0,
            Some("auto") => 12.0,
            _ => 10.0,
        };
        let results = Results::made_up(&EXPERIMENT, Effort::Quick, rate);
        let verdicts: Vec<_> = claims(&results).iter().map(|claim| claim.verdict).collect();
        use ClaimVerdict::{NotReproduced, Reproduced};
        assert_eq!(verdicts, [Reproduced, Reproduced, Reproduced, Reproduced, NotReproduced, NotReproduced]);
    }

    #[test]
    fn the_default_is_what_create_chooses_where_a_disk_rotates() {
        use stripewise_engine::{CacheKind, geometry::Level};
        assert_eq!(CacheKind::for_members(Level::Raid5, true), CacheKind::Auto);
        for load in &LOADS {
            let point = point(Effort::Full, load, DEFAULT);
            let cache = point.cache.unwrap();
            assert_eq!((cache.kind, point.policy.name), (CacheKind::Auto, "cost"));
        }
    }
}
