//! Deliberate bugs of the engine, and who finds them.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use stripewise_engine::mutants::{self, Mutant};
use stripewise_sim::{
    check::Violation,
    story::{Plan, tell},
};

use crate::args::MutantsArgs;

/// How a mutant was found.
struct Found {
    seeds: u64,
    power_failures: usize,
    violation: Violation,
}

/// Tries every mutant. True if each was found.
pub(crate) fn mutants(args: &MutantsArgs) -> bool {
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(Mutant, Option<Found>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(mutant) = Mutant::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = hunt(*mutant, args.seeds);
                    results.lock().expect("hunters catch panics").push((*mutant, found));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("hunters catch panics");
    results.sort_by_key(|(mutant, _)| *mutant);
    report(&results, args.seeds)
}

/// Seeds from 0 on, until one ends badly.
fn hunt(mutant: Mutant, seeds_max: u64) -> Option<Found> {
    mutants::set(Some(mutant));
    let mut power_failures = 0;
    let found = (0..seeds_max).find_map(|seed| {
        let outcome = tell(&Plan::new(seed));
        power_failures += outcome.crash_points.len();
        outcome.violation.map(|violation| Found { seeds: seed + 1, power_failures, violation })
    });
    mutants::set(None);
    // The same story without the mutant must end well, or the checkers cry at anything.
    found.filter(|found| tell(&Plan::new(found.seeds - 1)).violation.is_none())
}

fn report(results: &[(Mutant, Option<Found>)], seeds_max: u64) -> bool {
    println!("{:24} {:>6} {:>15}  {:11} what it found", "mutant", "seeds", "power failures", "checker");
    for (mutant, found) in results {
        let name = format!("{mutant:?}");
        match found {
            Some(Found { seeds, power_failures, violation }) => {
                let checker = violation.checker.name();
                let what: String = violation.what.chars().take(90).collect();
                println!("{name:24} {seeds:>6} {power_failures:>15}  {checker:11} {what}");
            }
            None => println!("{name:24} SURVIVED {seeds_max} seeds"),
        }
    }
    let survivors = results.iter().filter(|(_, found)| found.is_none()).count();
    println!("{} mutants, {survivors} survived", results.len());
    survivors == 0
}
