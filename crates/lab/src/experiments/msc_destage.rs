//! When and what a cache destages: each policy by itself, beside those of the same part.

use std::collections::BTreeSet;

use super::{
    Effort, Experiment, Points, Results,
    msc::{self, CT, Cache, OURS},
    msc_clients::{self, Given},
};
use crate::{
    findings::{Claim, Findings, Judged, Table},
    plot::{Axis, Plot, Series, Style},
    point::{Destage, Point},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "msc-destage",
    title: "When and what is destaged, one policy at a time",
    source: "ours, on the array and loads of msc-ct IV-B and IV-C",
    setting: &[
        "msc-ct destages from 95 % dirty until below 85 % (hlm), what was written longest ago first (lrw). Ours destages the sooner the \
         more is dirty (lt), and first what frees most blocks for the time that members take (gain). The third order is wow: by \
         place, round and round; what was written again since the last round is spared once. Here one of the two parts changes at \
         a time, on the paper's MSC-CT and on our stripe+ct, with all else alike.",
        "Array, caches and loads are those of msc-random and msc-clients: 4 KiB written in workspaces of 1 and 8 GB, and the files of 32 \
         and of 128 clients. What 32 clients keep dirty is about as much as the cache may hold. All are measured from an empty cache \
         to the end of a last flush.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// A cache, and what is changed of it.
struct Base {
    /// For the name of a file.
    word: &'static str,
    of: Cache,
}

static BASES: [Base; 2] = [Base { word: "paper", of: CT }, Base { word: "ours", of: OURS }];

/// What takes turns in each part.
const WHEN: [&str; 2] = ["hlm", "lt"];
const WHAT: [&str; 3] = ["lrw", "wow", "gain"];
/// How far a policy may be behind.
const BEHIND: f64 = 0.97;

impl Base {
    /// With this part changed. The name in plots and tables is the policies'.
    fn when(&self, when: &'static str) -> Cache {
        self.with(Destage { when, ..self.of.destage })
    }

    fn what(&self, what: &'static str) -> Cache {
        self.with(Destage { what, ..self.of.destage })
    }

    fn with(&self, destage: Destage) -> Cache {
        self.of.destaging(name(destage), destage)
    }

    /// As it is, and with every other policy of a part.
    fn all(&self) -> Vec<Cache> {
        let mut names = BTreeSet::new();
        let whens = WHEN.into_iter().map(|when| self.when(when));
        let whats = WHAT.into_iter().map(|what| self.what(what));
        whens.chain(whats).filter(|cache| names.insert(cache.name)).collect()
    }
}

/// As in "lt, gain".
fn name(destage: Destage) -> &'static str {
    match (destage.when, destage.what) {
        ("hlm", "lrw") => "hlm, lrw",
        ("hlm", "wow") => "hlm, wow",
        ("hlm", "gain") => "hlm, gain",
        ("lt", "lrw") => "lt, lrw",
        ("lt", "wow") => "lt, wow",
        ("lt", "gain") => "lt, gain",
        _ => unreachable!("these are the policies that take turns"),
    }
}

/// A load of another experiment.
struct Load {
    name: &'static str,
    point: fn(Effort, Cache) -> Point,
}

static LOADS: [Load; 4] = [
    Load { name: "1 GB", point: |effort, cache| in_workspace(effort, cache, 1) },
    Load { name: "8 GB", point: |effort, cache| in_workspace(effort, cache, 8) },
    Load {
        name: "32 clients",
        point: |effort, cache| msc_clients::with_clients(Given::own_mix(effort), cache, 32),
    },
    Load {
        name: "128 clients",
        point: |effort, cache| msc_clients::with_clients(Given::own_mix(effort), cache, 128),
    },
];

fn in_workspace(effort: Effort, cache: Cache, gb: u64) -> Point {
    msc::point(effort, cache, gb << 30, msc::RANDOM_WRITES, msc::WRITES_UNDER_WAY)
}

fn points(effort: Effort) -> Vec<Point> {
    let of = |base: &Base| {
        let caches = base.all().into_iter();
        caches.flat_map(|cache| LOADS.iter().map(move |load| (load.point)(effort, cache))).collect::<Vec<_>>()
    };
    BASES.iter().flat_map(of).collect()
}

fn findings(results: &Results) -> Findings {
    Findings {
        claims: BASES.iter().flat_map(|base| claims(results, base)).collect(),
        plots: BASES.iter().map(|base| plot(results, base)).collect(),
        tables: BASES.iter().map(|base| table(results, base)).collect(),
    }
}

fn claims(results: &Results, base: &Base) -> [Claim; 2] {
    let (name, Destage { when, what, .. }) = (base.of.name, base.of.destage);
    [
        never_behind(
            results,
            format!("On {name} with {what}, lt is never slower than hlm (within 3 %)."),
            base.when("lt"),
            &[base.when("hlm")],
        ),
        never_behind(
            results,
            format!("On {name} with {when}, gain is never slower than lrw and wow (within 3 %)."),
            base.what("gain"),
            &[base.what("lrw"), base.what("wow")],
        ),
    ]
}

fn never_behind(results: &Results, statement: String, of: Cache, others: &[Cache]) -> Claim {
    let at = |load: &'static Load| {
        let rate = |cache: Cache| results.mb_per_s(&(load.point)(results.effort, cache));
        let rates = others.iter().map(|other| Some((rate(*other)?, *other))).collect::<Option<Vec<_>>>()?;
        let (best, other) = rates.into_iter().max_by(|one, two| one.0.total_cmp(&two.0))?;
        Some((load, rate(of)? / best, other))
    };
    let ratios = LOADS.iter().map(at).collect::<Option<Vec<_>>>();
    let judged = ratios.and_then(|ratios| {
        let text = |(load, ratio, best): &(&Load, f64, Cache)| {
            format!("{ratio:.2}x with {} (over {})", load.name, best.name)
        };
        let told = ratios.iter().map(text).collect::<Vec<_>>().join(", ");
        let judged = |(load, ratio, best): &(&'static Load, f64, Cache)| {
            let named = [of, *best].map(|cache| (cache.name.to_owned(), (load.point)(results.effort, cache)));
            let why = format!("With {}: {}", load.name, msc::work(results, named));
            Judged::above(*ratio, BEHIND, told.clone()).because(why)
        };
        Judged::of_all(ratios.iter().map(judged))
    });
    Claim::new(statement, "", judged)
}

/// Each over the base as it is.
fn plot(results: &Results, base: &Base) -> Plot {
    let own = base.with(base.of.destage);
    let over = |load: &Load, cache: Cache| {
        results.speed_up(&(load.point)(results.effort, cache), &(load.point)(results.effort, own))
    };
    let bars = |cache: Cache| {
        let loads = LOADS.iter().enumerate();
        loads.filter_map(|(index, load)| Some((index as f64, over(load, cache)?))).collect()
    };
    let series = base.all().into_iter().enumerate();
    let series = series.map(|(hue, cache)| Series::new(cache.name, hue, Style::Beside, bars(cache)));
    Plot {
        name: format!("msc-destage-{}", base.word).into(),
        title: format!("When and what is destaged, on {}", base.of.name),
        x: Axis::names("load", LOADS.iter().map(|load| load.name.to_owned()).collect()),
        y: Axis::from_zero(format!("throughput over {}", own.name)),
        series: series.collect(),
    }
}

fn table(results: &Results, base: &Base) -> Table {
    let rows: Vec<_> = (0..).zip(&LOADS).map(|(index, load)| (index, load.name.to_owned())).collect();
    let title = format!("on {}, MB/s", base.of.name);
    let point = |cache, index: u64| (LOADS[index as usize].point)(results.effort, cache);
    msc::table_of(&base.all(), &title, "load", &rows, results, point, |_, outcome| outcome.mb_per_s())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiments::with_id, findings::ClaimVerdict, point::CacheWay};

    #[test]
    fn each_policy_stands_beside_those_of_its_part_with_all_else_alike() {
        let names = |base: &Base| base.all().iter().map(|cache| cache.name).collect::<Vec<_>>();
        assert_eq!(names(&BASES[0]), ["hlm, lrw", "lt, lrw", "hlm, wow", "hlm, gain"]);
        assert_eq!(names(&BASES[1]), ["hlm, gain", "lt, gain", "lt, lrw", "lt, wow"]);
        let own =
            |base: &Base| base.all().into_iter().find(|cache| cache.name == name(base.of.destage)).unwrap();
        for (base, known) in BASES.iter().zip([CT, OURS]) {
            let keys = [own(base), known].map(|cache| (LOADS[0].point)(Effort::Full, cache).key());
            assert_eq!(keys[0], keys[1], "msc-random has it, too");
        }
    }

    #[test]
    fn a_policy_that_is_behind_with_one_load_refutes_its_claim_only() {
        let experiment = with_id("msc-destage").unwrap();
        let slow = |point: &Point| {
            let cache = point.cache.unwrap();
            let is_it = cache.way == CacheWay::Paper && cache.destage.when == "lt";
            if is_it && point.load.span_bytes == Some(8 << 30) { 9.0 } else { 10.0 }
        };
        let results = Results::made_up(experiment, Effort::Full, slow);
        let claims = (experiment.findings)(&results).claims;
        let verdicts: Vec<_> = claims.iter().map(|claim| claim.verdict).collect();
        use ClaimVerdict::{NotReproduced, Reproduced};
        assert_eq!(verdicts, [NotReproduced, Reproduced, Reproduced, Reproduced]);
        assert!(claims[0].measured.contains("0.90x with 8 GB (over hlm, lrw)"), "{}", claims[0]);
    }
}
