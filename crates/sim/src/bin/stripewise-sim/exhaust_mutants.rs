//! Which deliberate bugs of the engine short histories find.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use stripewise_engine::{
    CacheKind,
    mutants::{self, Mutant},
};
use stripewise_sim::exhaust::{Extent, Shape, Teller};

use crate::{
    args::{ExhaustArgs, WhichMutants, threads_or_all},
    exhaust::base_of,
};

/// Bugs in the order in which writes become durable, and in what a crash leaves.
const MUST_BE_FOUND: [Mutant; 11] = [
    Mutant::SkipIntent,
    Mutant::IntentNotDurable,
    Mutant::SkipDirtyMark,
    Mutant::ClearWithoutFlush,
    Mutant::AcknowledgeBeforeFua,
    Mutant::FlushSkipsMember,
    Mutant::FailureNotRecorded,
    Mutant::UseStaleMember,
    Mutant::EventsNotRaised,
    Mutant::FlushSkipsDirty,
    Mutant::FuaInCache,
];

/// The result of the hunt for a mutant.
struct Hunt {
    mutant: Mutant,
    histories: u64,
    /// The checker that found it, and the history.
    found: Option<(&'static str, String)>,
}

/// Lets mutants loose on histories of one operation, and on longer ones if these do not find them. True if
/// all mutants that must be found are.
pub(crate) fn hunt_all(args: &ExhaustArgs) -> bool {
    let wanted: Vec<Mutant> = match args.mutants {
        Some(WhichMutants::All) => Mutant::ALL.into_iter().chain(Mutant::CACHE).collect(),
        _ => MUST_BE_FOUND.to_vec(),
    };
    let (hunts, next): (Mutex<Vec<Hunt>>, _) = (Mutex::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads_or_all(args.threads) {
            scope.spawn(|| {
                while let Some(mutant) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let hunt = hunt(*mutant, args);
                    hunts.lock().expect("hunters catch panics").push(hunt);
                }
            });
        }
    });
    let mut hunts = hunts.into_inner().expect("hunters catch panics");
    hunts.sort_by_key(|hunt| hunt.mutant);
    report(&hunts)
}

/// Histories from the shortest on, until one ends badly.
fn hunt(mutant: Mutant, args: &ExhaustArgs) -> Hunt {
    mutants::set(Some(mutant));
    let (mut histories, mut base) = (0, None);
    // Those of the cache live only where there is one.
    let is_cached = |shape: &Shape| shape.cache != CacheKind::None;
    let may_live = |shape: &Shape| !Mutant::CACHE.contains(&mutant) || is_cached(shape);
    let lots_of = |shape| {
        let extent = move |ops| Extent { shapes: vec![shape], ops, seeds: 1, seeds_of_one: 1 };
        (1..=args.ops).flat_map(move |ops| extent(ops).lots())
    };
    for lot in args.extent().shapes.into_iter().filter(may_live).flat_map(lots_of) {
        let mut teller = match base_of(lot, &mut base) {
            Ok(base) => Teller::new(base, args.states),
            Err(violation) => {
                let found = Some((violation.checker.name(), "the array cannot be made".to_owned()));
                return Hunt { mutant, histories, found };
            }
        };
        for history in lot.histories() {
            histories += 1;
            if let Err(failure) = teller.tell(&history) {
                let found = Some((failure.violation.checker.name(), history.to_string()));
                return Hunt { mutant, histories, found };
            }
        }
    }
    Hunt { mutant, histories, found: None }
}

fn report(hunts: &[Hunt]) -> bool {
    println!("{:26} {:>9}  {:11} in", "mutant", "histories", "checker");
    for Hunt { mutant, histories, found } in hunts {
        let (checker, history) = match found {
            Some((checker, history)) => (*checker, &**history),
            None if MUST_BE_FOUND.contains(mutant) => ("NOT FOUND", "and it must be"),
            None => ("not found", ""),
        };
        println!("{:26} {histories:>9}  {checker:11} {history}", format!("{mutant:?}"));
    }
    let missed = hunts.iter().filter(|hunt| hunt.found.is_none());
    let must = missed.clone().filter(|hunt| MUST_BE_FOUND.contains(&hunt.mutant)).count();
    println!("{} mutants, {} not found, of which {must} must be", hunts.len(), missed.count());
    println!("to see one: stripewise-sim exhaust --history HISTORY --mutant NAME");
    must == 0
}
