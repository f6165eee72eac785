//! Deliberate bugs of the engine and of the file system, and the checkers that find them.

use std::{
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use stripewise_engine::mutants::Mutant;
use stripewise_rafs::mutants::Mutant as RafsMutant;
use stripewise_sim::{check::Checker, rafs, story};

use crate::{
    args::{MutantsArgs, threads_or_all},
    rafs::ground,
};

/// A deliberate bug.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bug {
    Engine(Mutant),
    Rafs(RafsMutant),
}

impl fmt::Debug for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(mutant) => mutant.fmt(f),
            Self::Rafs(mutant) => mutant.fmt(f),
        }
    }
}

/// How a story ended: at how many power failures, and the checker that has seen something, and what.
type Told = (usize, Option<Violation>);

/// What is wrong: the checker that has seen it, and what it is.
type Violation = (&'static str, String);

impl Bug {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let of_engine = Mutant::ALL.into_iter().chain(Mutant::CACHE).map(Self::Engine);
        of_engine.chain(RafsMutant::ALL.iter().copied().map(Self::Rafs)).collect()
    }

    /// Seeds within which it must be found, if those of the engine must be within so many: stories of the file system are shorter.
    fn seeds(self, of_engine: u64) -> u64 {
        match self {
            Self::Engine(_) => of_engine,
            Self::Rafs(_) => 5 * of_engine,
        }
    }

    /// Tells a story, with the bug or without.
    fn tell(self, seed: u64, lives: bool) -> Told {
        match self {
            Self::Engine(mutant) => {
                let mutant = lives.then_some(mutant);
                let told = story::tell(&story::Plan { mutant, ..story::Plan::new(seed) });
                let violation = told.violation.map(|found| (found.checker.name(), found.what));
                (told.crash_points.len(), violation)
            }
            Self::Rafs(mutant) => {
                let mutant = lives.then_some(mutant);
                let told = rafs::tell(&rafs::Plan { mutant, ..rafs::Plan::new(seed, ground(seed)) });
                let violation = told.violation.map(|found| (found.checker.name(), found.what));
                (told.crash_points.len(), violation)
            }
        }
    }

    /// The command that tells its story.
    fn command(self) -> &'static str {
        match self {
            Self::Engine(_) => "stripewise-sim replay SEED --mutant NAME",
            Self::Rafs(_) => "stripewise-sim rafs --stories 1 --seed SEED --mutant NAME",
        }
    }
}

/// The result of the hunt for a mutant.
enum Hunt {
    Found {
        seeds: u64,
        power_failures: usize,
        violation: Violation,
    },
    /// No story ended badly.
    Survived,
    /// This seed's story ends badly without the mutant too: the checkers raise false alarms.
    FalseAlarm {
        seed: u64,
        violation: Violation,
    },
}

/// Tries every mutant. True if each was found, and every checker found one.
pub(crate) fn mutants(args: &MutantsArgs) -> bool {
    let all = Bug::all();
    let wanted = if args.only.is_empty() { &all } else { &args.only };
    let threads = threads_or_all(args.threads);
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(Bug, Hunt)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(mutant) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seeds = mutant.seeds(args.seeds);
                    let found = hunt(*mutant, seeds);
                    eprintln!("{}", line(*mutant, &found, seeds));
                    results.lock().expect("hunters catch panics").push((*mutant, found));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("hunters catch panics");
    results.sort_by_key(|(mutant, _)| *mutant);
    report(&results, args)
}

/// Seeds from 0 on, until one ends badly.
fn hunt(mutant: Bug, seeds_max: u64) -> Hunt {
    let mut power_failures = 0;
    let found = (0..seeds_max).find_map(|seed| {
        let (failures, violation) = mutant.tell(seed, true);
        power_failures += failures;
        violation.map(|violation| (seed, violation))
    });
    let Some((seed, violation)) = found else { return Hunt::Survived };
    match mutant.tell(seed, false).1 {
        None => Hunt::Found { seeds: seed + 1, power_failures, violation },
        Some(violation) => Hunt::FalseAlarm { seed, violation },
    }
}

/// The result of a hunt, in words.
fn line(mutant: Bug, hunt: &Hunt, seeds_max: u64) -> String {
    let name = format!("{mutant:?}");
    match hunt {
        Hunt::Found { seeds, power_failures, violation } => {
            let (checker, what) = violation;
            let what: String = what.chars().take(90).collect();
            format!("{name:24} {seeds:>6} {power_failures:>15}  {checker:11} {what}")
        }
        Hunt::Survived => format!("{name:24} SURVIVED {seeds_max} seeds"),
        Hunt::FalseAlarm { seed, violation } => {
            format!("{name:24} FALSE ALARM: seed {seed} ends badly without it too: {}", violation.1)
        }
    }
}

fn report(results: &[(Bug, Hunt)], args: &MutantsArgs) -> bool {
    println!("{:24} {:>6} {:>15}  {:11} what it found", "mutant", "seeds", "power failures", "checker");
    for (mutant, hunt) in results {
        println!("{}", line(*mutant, hunt, mutant.seeds(args.seeds)));
    }
    let failed = results.iter().filter(|(_, hunt)| !matches!(hunt, Hunt::Found { .. })).count();
    println!("{} mutants, {failed} not found", results.len());
    // A few mutants alone need not make every checker find one.
    let idle = if args.only.is_empty() { idle_checkers(results) } else { Vec::new() };
    idle.iter().for_each(|checker| println!("{checker} FOUND NONE: nothing shows that it can fail"));
    let mut commands: Vec<&str> = results.iter().map(|(mutant, _)| mutant.command()).collect();
    commands.dedup();
    println!("to see one: {}, with the seed one below the number of seeds", commands.join(", or "));
    failed == 0 && idle.is_empty()
}

/// Checkers that found no mutant.
fn idle_checkers(results: &[(Bug, Hunt)]) -> Vec<&'static str> {
    let found = |checker: &&str| {
        results
            .iter()
            .any(|(_, hunt)| matches!(hunt, Hunt::Found { violation, .. } if violation.0 == *checker))
    };
    let of_engine = Checker::ALL.into_iter().map(Checker::name);
    let of_rafs = rafs::Checker::ALL.into_iter().map(rafs::Checker::name);
    of_engine.chain(of_rafs).filter(|checker| !found(checker)).collect()
}
