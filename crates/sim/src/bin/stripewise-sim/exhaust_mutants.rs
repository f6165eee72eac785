//! Which deliberate bugs of the engine short histories find.

use stripewise_engine::{
    CacheKind,
    mutants::{self, Mutant},
};
use stripewise_sim::exhaust::{Extent, Shape, Teller};

use crate::{
    args::{ExhaustArgs, WhichMutants, threads_or_all},
    exhaust::base_of,
    hunts::{Hunt, Hunts},
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

/// Lets mutants loose on histories of one operation, and on longer ones if these do not find them. True if
/// all mutants that must be found are.
pub(crate) fn hunt_all(args: &ExhaustArgs) -> bool {
    let wanted: Vec<Mutant> = match args.mutants {
        Some(WhichMutants::All) => Mutant::ALL.into_iter().chain(Mutant::CACHE).collect(),
        _ => MUST_BE_FOUND.to_vec(),
    };
    let hunts = Hunts {
        wanted: &wanted,
        must: &MUST_BE_FOUND,
        told: "histories",
        again: "stripewise-sim exhaust --history HISTORY --mutant NAME",
    };
    hunts.hunt_all(threads_or_all(args.threads), |mutant| hunt(mutant, args))
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
                return Hunt { told: histories, found };
            }
        };
        for history in lot.histories() {
            histories += 1;
            if let Err(failure) = teller.tell(&history) {
                let found = Some((failure.violation.checker.name(), history.to_string()));
                return Hunt { told: histories, found };
            }
        }
    }
    Hunt { told: histories, found: None }
}
