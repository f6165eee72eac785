//! The experiments: a file each, its module's line, and one in [`EXPERIMENTS`]. `docs/experiments.md` tells
//! how to add one.
//!
//! An experiment says what the paper did, which points repeat it, and which of the paper's claims are
//! reproduced. The claims are computed from the points' outcomes, so they hold for the engine and the models
//! as they are today.

mod all;
mod all_caches;
#[cfg(test)]
mod half_stripe;
mod lines;
mod modthresh;
mod modthresh_ablation;
mod modthresh_aligned;
mod modthresh_crossover;
mod modthresh_fine;
mod modthresh_fine_claims;
mod modthresh_lines;
mod msc;
mod msc_aged;
mod msc_bulk;
mod msc_bulk_rows;
mod msc_changing;
mod msc_changing_claims;
mod msc_clients;
mod msc_clients_claims;
mod msc_depth;
mod msc_destage;
mod msc_random;
mod msc_stride;
mod msc_stride_limits;
mod msc_variants;
mod raid4s;
mod raid4s_endurance;
mod raid4s_random;
mod raid4s_seq;
mod raid4s_unaligned;
mod results;
mod scalaraid;
mod scalaraid_locks;
mod scalaraid_tail;
mod scalaraid_threads;

use stripewise_engine::plan::selection::{self, Policy};
use thiserror::Error;

pub use results::{AnyOutcome, Results};

pub use crate::validate::Effort;
use crate::{ext3::Loadfile, findings::Findings, machine::Machine, point::Point, realtime::RealTimePoint};

/// One experiment.
pub struct Experiment {
    /// The word that selects it.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    /// What the paper did, and what the experiment does, a paragraph each.
    pub setting: &'static [&'static str],
    /// Its points.
    pub points: Points,
    /// Computes its findings.
    pub findings: fn(&Results) -> Findings,
}

/// The points of an experiment.
pub enum Points {
    /// Arrays on modelled disks in virtual time: for a seed, the same on every machine.
    Modelled(fn(Effort) -> Vec<Point>),
    /// The same, under the calls of DBench's clients if a loadfile has them.
    Clients(fn(Effort, Option<Loadfile>) -> Vec<Point>),
    /// Arrays in memory in real time: they depend on the machine, which limits the number of threads.
    RealTime(fn(Effort, &Machine) -> Vec<RealTimePoint>),
}

impl Experiment {
    /// Whether it runs in real time.
    pub fn is_real_time(&self) -> bool {
        matches!(self.points, Points::RealTime(_))
    }

    /// Its points on modelled disks, with this loadfile of DBench's.
    pub fn modelled(&self, effort: Effort, loadfile: Option<Loadfile>) -> Vec<Point> {
        match self.points {
            Points::Modelled(points) => points(effort),
            Points::Clients(points) => points(effort, loadfile),
            Points::RealTime(_) => Vec::new(),
        }
    }

    /// Its points on a machine.
    pub fn real_time(&self, effort: Effort, machine: &Machine) -> Vec<RealTimePoint> {
        match self.points {
            Points::Modelled(_) | Points::Clients(_) => Vec::new(),
            Points::RealTime(points) => points(effort, machine),
        }
    }

    /// The keys of all its points.
    pub fn keys(&self, effort: Effort, loadfile: Option<Loadfile>, machine: &Machine) -> Vec<String> {
        let modelled = self.modelled(effort, loadfile).into_iter().map(|point| point.key());
        modelled.chain(self.real_time(effort, machine).iter().map(|point| point.key(machine))).collect()
    }
}

/// All experiments. A new one is a line here, beside that of its module.
pub static EXPERIMENTS: &[&Experiment] = &[
    &raid4s_seq::EXPERIMENT,
    &raid4s_random::EXPERIMENT,
    &raid4s_unaligned::EXPERIMENT,
    &raid4s_endurance::EXPERIMENT,
    &modthresh_fine::EXPERIMENT,
    &modthresh_aligned::EXPERIMENT,
    &all::EXPERIMENT,
    &scalaraid_threads::EXPERIMENT,
    &scalaraid_tail::EXPERIMENT,
    &scalaraid_locks::EXPERIMENT,
    &msc_random::EXPERIMENT,
    &msc_stride::EXPERIMENT,
    &msc_depth::EXPERIMENT,
    &msc_aged::EXPERIMENT,
    &msc_bulk::EXPERIMENT,
    &msc_clients::EXPERIMENT,
    &msc_changing::EXPERIMENT,
    &msc_destage::EXPERIMENT,
];

/// A word that no experiment begins with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "there is no experiment '{word}'; give one of {known}, a word with which some begin, or '{EVERY}' for every one",
    known = ids()
)]
pub struct UnknownExperiment {
    /// The word as given.
    pub word: String,
}

/// The word for every experiment: `all` is one of them.
pub const EVERY: &str = "every";

/// The experiment of this id.
///
/// # Errors
/// [`UnknownExperiment`] if there is none.
pub fn with_id(id: &str) -> Result<&'static Experiment, UnknownExperiment> {
    let found = EXPERIMENTS.iter().find(|experiment| experiment.id == id).copied();
    found.ok_or_else(|| UnknownExperiment { word: id.to_owned() })
}

/// The experiments whose ids begin with one of these words, or every one, in the order of the table.
///
/// # Errors
/// [`UnknownExperiment`] for a word that finds none.
pub fn chosen(words: &[String]) -> Result<Vec<&'static Experiment>, UnknownExperiment> {
    let begins = |experiment: &Experiment, word: &str| {
        word == EVERY || (!word.is_empty() && experiment.id.starts_with(word))
    };
    for word in words {
        if !EXPERIMENTS.iter().any(|experiment| begins(experiment, word)) {
            return Err(UnknownExperiment { word: word.clone() });
        }
    }
    let is_chosen = |experiment: &&&Experiment| words.iter().any(|word| begins(experiment, word));
    Ok(EXPERIMENTS.iter().filter(is_chosen).copied().collect())
}

fn ids() -> String {
    EXPERIMENTS.iter().map(|experiment| experiment.id).collect::<Vec<_>>().join(", ")
}

/// One of two amounts.
fn pick<T>(effort: Effort, quick: T, full: T) -> T {
    match effort {
        Effort::Quick => quick,
        Effort::Full => full,
    }
}

/// A policy that the engine has.
fn policy(name: &str) -> &'static Policy {
    selection::policy(name).expect("experiments name policies of the engine")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{results::spread, *};
    use crate::{
        arrays::{HddSetting, Shape},
        findings::ClaimVerdict,
        point::{WriteLoad, measure},
        runner,
    };

    #[test]
    fn words_choose_experiments() {
        let ids = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            chosen(&words).map(|found| found.into_iter().map(|one| one.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["modthresh"]).unwrap(), ["modthresh-fine", "modthresh-aligned"]);
        assert_eq!(ids(&["all", "raid4s-seq"]).unwrap(), ["raid4s-seq", "all"]);
        let error = ids(&["raid9"]).unwrap_err().to_string();
        assert!(error.contains("'raid9'") && error.contains("raid4s-random"), "{error}");
        assert!(ids(&[""]).is_err());
        assert_eq!(ids(&["every"]).unwrap().len(), EXPERIMENTS.len());
        assert_eq!(ids(&["all"]).unwrap(), ["all"], "one of them");
    }

    #[test]
    fn the_example_of_the_documentation_is_one() {
        let page = include_str!("../../../../docs/experiments.md");
        let example = include_str!("half_stripe.rs");
        assert!(
            page.contains(&format!("```rust\n{example}```\n")),
            "docs/experiments.md shows half_stripe.rs as it is"
        );
        let experiment = &half_stripe::EXPERIMENT;
        let points = experiment.modelled(Effort::Quick, None).into_iter();
        let outcomes = points.map(|point| (point.key(), measure(&point, 1).into())).collect();
        let findings = (experiment.findings)(&Results::new(Effort::Quick, Machine::here(), outcomes));
        assert!(findings.claims.iter().all(|claim| claim.measured.ends_with('x')), "{:?}", findings.claims);
        assert!(findings.plots.iter().all(|plot| !plot.series.is_empty()));
    }

    #[test]
    fn seven_arrays_stand_side_by_side() {
        let comparing =
            ["raid4s-seq", "raid4s-random", "raid4s-unaligned", "modthresh-fine", "modthresh-aligned"];
        for experiment in comparing.map(|id| with_id(id).unwrap()) {
            for effort in [Effort::Quick, Effort::Full] {
                let points = experiment.modelled(effort, None);
                let has = |shape: &&Shape| points.iter().any(|point| point.shape.id == shape.id);
                assert!(raid4s::ARRAYS.iter().all(has), "{}: an array has no points", experiment.id);
            }
            let findings = (experiment.findings)(&Results::made_up(experiment, Effort::Full, |_| 10.0));
            let shown = |name: &str| {
                findings.plots[0].series.iter().any(|series| series.name == name)
                    && findings.tables.iter().any(|table| format!("{table}").contains(name))
            };
            let all_shown = raid4s::ARRAYS.iter().all(|shape| shown(shape.name));
            assert!(all_shown, "{}: an array is not in plots or tables", experiment.id);
        }
    }

    #[test]
    fn the_papers_speed_ups_are_claims_of_their_own() {
        let experiment = with_id("raid4s-random").unwrap();
        let results =
            Results::made_up(
                experiment,
                Effort::Full,
                |point| {
                    if point.shape.id == "raid4s" { 17.5 } else { 10.0 }
                },
            );
        let claims = (experiment.findings)(&results).claims;
        let verdict =
            |paper: &str| claims.iter().find(|claim| claim.paper.contains(paper)).map(|claim| claim.verdict);
        let found = ["3.3x", "1.6x", "1.75x"].map(|paper| verdict(paper).unwrap());
        use ClaimVerdict::{NotReproduced, Reproduced};
        assert_eq!(found, [NotReproduced, Reproduced, Reproduced]);
        let later = claims.iter().find(|claim| claim.paper.contains("1.75x")).unwrap();
        assert!(later.measured.contains("1.75x") && later.reason.contains("Members at work"), "{later}");
    }

    #[test]
    fn stored_ids_are_whole() {
        assert_eq!(with_id("modthresh-fine").unwrap().id, "modthresh-fine");
        assert!(with_id("modthresh").is_err() && with_id(EVERY).is_err());
    }

    #[test]
    fn where_everything_is_equally_fast_nothing_is_said_to_be_faster() {
        for experiment in EXPERIMENTS {
            let results = Results::made_up(experiment, Effort::Full, |_| 10.0);
            for claim in (experiment.findings)(&results).claims {
                assert!(!claim.is_open() && claim.verdict != ClaimVerdict::NotDecidableHere, "{claim}");
                let compares = ["faster", "slower", "ahead", "overtakes"]
                    .iter()
                    .any(|word| claim.statement.contains(word));
                let equal = ["never", "alike", "equal"].iter().any(|word| claim.statement.contains(word));
                assert!(equal || !compares || claim.verdict == ClaimVerdict::NotReproduced, "{claim}");
                for fixed in ["bottleneck", "cheap", "equal:", "no seeks"] {
                    assert!(!claim.reason.contains(fixed), "{claim}");
                }
            }
        }
    }

    #[test]
    fn no_file_of_a_folder_is_written_twice_and_no_two_lines_have_a_colour() {
        let mut names: Vec<_> = runner::OTHER_FILES.map(str::to_owned).to_vec();
        for experiment in EXPERIMENTS {
            let findings = (experiment.findings)(&Results::made_up(experiment, Effort::Full, |_| 10.0));
            names.push(runner::points_file(experiment.id));
            names.extend(findings.plots.iter().map(runner::plot_file));
            for plot in &findings.plots {
                let begins = plot.name.strip_prefix(experiment.id).is_some_and(|rest| rest.starts_with('-'));
                assert!(begins, "{}: its name begins with the experiment's and a dash", plot.name);
                assert!(!plot.repeats_colours(), "{}: there are not as many colours", plot.name);
            }
        }
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        let ids: BTreeSet<_> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
        assert!(ids.len() == EXPERIMENTS.len() && !ids.contains(EVERY));
    }

    /// Throughput of an array under the papers' random writes, in every experiment whose quick run has it.
    fn rates(shape: &str, kib: u64) -> Vec<(&'static str, f64)> {
        let is_asked = |point: &Point| {
            let load = WriteLoad::random(kib << 10, 10, point.load.pass_bytes, point.load.passes);
            point.shape.id == shape
                && point.policy.name == "classic"
                && point.load == load
                && point.hdd == HddSetting::default()
        };
        let of = |experiment: &&'static Experiment| {
            let point = experiment.modelled(Effort::Quick, None).into_iter().find(is_asked)?;
            Some((experiment.id, measure(&point, 1).mb_per_s()))
        };
        EXPERIMENTS.iter().filter_map(of).collect()
    }

    #[test]
    fn experiments_of_a_quick_run_agree_on_what_they_share() {
        let shared =
            [("raid4s", 256), ("raid4s", 4), ("raid0", 4), ("raid5", 64), ("raid4", 128), ("raid5s", 32)];
        for (shape, kib) in shared {
            let rates = rates(shape, kib);
            assert!(rates.len() >= 3, "{shape} {kib} KiB: {rates:?}");
            assert!(spread(&rates) < 1.05, "{shape} {kib} KiB: {rates:?}");
        }
    }

    #[test]
    fn points_are_told_apart_by_their_keys_and_what_is_missing_leaves_claims_open() {
        for experiment in EXPERIMENTS {
            for effort in [Effort::Quick, Effort::Full] {
                let keys = experiment.keys(effort, None, &Machine::here());
                let distinct: BTreeSet<_> = keys.iter().collect();
                assert_eq!(keys.len(), distinct.len(), "{}: a point is there twice", experiment.id);
                let nothing = Results::new(effort, Machine::here(), Default::default());
                let findings = (experiment.findings)(&nothing);
                assert!(findings.claims.iter().all(|claim| claim.is_open() || claim.is_analytic()));
                assert!(!findings.claims.is_empty() && !findings.plots.is_empty(), "{}", experiment.id);
            }
        }
    }
}
