//! Deliberate bugs of the engine, and the checkers that find them.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use stripewise_engine::mutants::Mutant;
use stripewise_sim::{
    check::{Checker, Violation},
    story::{Plan, tell},
};

use crate::args::{MutantsArgs, threads_or_all};

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
    let all: Vec<Mutant> = Mutant::ALL.into_iter().chain(Mutant::CACHE).collect();
    let wanted = if args.only.is_empty() { &all } else { &args.only };
    let threads = threads_or_all(args.threads);
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(Mutant, Hunt)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(mutant) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = hunt(*mutant, args.seeds);
                    eprintln!("{}", line(*mutant, &found, args.seeds));
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
fn hunt(mutant: Mutant, seeds_max: u64) -> Hunt {
    let mut power_failures = 0;
    let found = (0..seeds_max).find_map(|seed| {
        let outcome = tell(&Plan { mutant: Some(mutant), ..Plan::new(seed) });
        power_failures += outcome.crash_points.len();
        outcome.violation.map(|violation| (seed, violation))
    });
    let Some((seed, violation)) = found else { return Hunt::Survived };
    match tell(&Plan::new(seed)).violation {
        None => Hunt::Found { seeds: seed + 1, power_failures, violation },
        Some(violation) => Hunt::FalseAlarm { seed, violation },
    }
}

/// The result of a hunt, in words.
fn line(mutant: Mutant, hunt: &Hunt, seeds_max: u64) -> String {
    let name = format!("{mutant:?}");
    match hunt {
        Hunt::Found { seeds, power_failures, violation } => {
            let checker = violation.checker.name();
            let what: String = violation.what.chars().take(90).collect();
            format!("{name:24} {seeds:>6} {power_failures:>15}  {checker:11} {what}")
        }
        Hunt::Survived => format!("{name:24} SURVIVED {seeds_max} seeds"),
        Hunt::FalseAlarm { seed, violation } => {
            format!("{name:24} FALSE ALARM: seed {seed} ends badly without it too: {violation}")
        }
    }
}

fn report(results: &[(Mutant, Hunt)], args: &MutantsArgs) -> bool {
    println!("{:24} {:>6} {:>15}  {:11} what it found", "mutant", "seeds", "power failures", "checker");
    for (mutant, hunt) in results {
        println!("{}", line(*mutant, hunt, args.seeds));
    }
    let failed = results.iter().filter(|(_, hunt)| !matches!(hunt, Hunt::Found { .. })).count();
    println!("{} mutants, {failed} not found", results.len());
    // A few mutants alone need not make every checker find one.
    let idle = if args.only.is_empty() { idle_checkers(results) } else { Vec::new() };
    idle.iter().for_each(|checker| println!("{} FOUND NONE: nothing shows that it can fail", checker.name()));
    println!(
        "to see one: stripewise-sim replay SEED --mutant NAME, with the seed one below the number of seeds"
    );
    failed == 0 && idle.is_empty()
}

/// Checkers that found no mutant.
fn idle_checkers(results: &[(Mutant, Hunt)]) -> Vec<Checker> {
    let found = |checker: &Checker| {
        results
            .iter()
            .any(|(_, hunt)| matches!(hunt, Hunt::Found { violation, .. } if violation.checker == *checker))
    };
    Checker::ALL.into_iter().filter(|checker| !found(checker)).collect()
}
