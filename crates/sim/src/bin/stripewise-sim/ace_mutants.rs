//! Deliberate bugs of the file system, let loose on short workloads: those that these can find must be found.

use std::time::{Duration, Instant};

use stripewise_rafs::mutants::{self, Mutant};
use stripewise_sim::{
    ace::{Bases, Set, Size, Start, Teller, Workload},
    rafs::Ground,
};

use crate::{
    ace::AceArgs,
    args::{WhichMutants, threads_or_all},
    hunts::{Hunt, Hunts},
};

/// Bugs that one operation finds, or two on one file.
const MUST_BE_FOUND: [Mutant; 23] = [
    Mutant::DataNotFlushed,
    Mutant::RecordNotFlushed,
    Mutant::AnchorBeforeNodes,
    Mutant::AnchorNotFlushed,
    Mutant::InodeNumberForgotten,
    Mutant::NodesReused,
    Mutant::ReplayForgetsNothing,
    Mutant::ReplayedNotJournaled,
    Mutant::LeftNotTold,
    Mutant::LostNotTold,
    Mutant::LengthTooEarly,
    Mutant::TailSeen,
    Mutant::OverwriteJournaled,
    Mutant::NeighboursZeroed,
    Mutant::OldExtentsStay,
    Mutant::OldPlacesLeak,
    Mutant::ExtentTailLost,
    Mutant::CrcsNotCut,
    Mutant::InlineStays,
    Mutant::ReplacedStays,
    Mutant::OldNumberStays,
    Mutant::OrphanNotNoted,
    Mutant::OrphanFreedInPart,
];

/// How long one is hunted.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Of so many workloads of two operations one is told at first.
const SOME: usize = 37;

/// Lets mutants loose on workloads of one operation, and on those of two if these do not find them. True if all mutants that must be
/// found are.
pub(crate) fn hunt_all(args: &AceArgs) -> bool {
    let wanted = match args.mutants {
        Some(WhichMutants::All) => Mutant::ALL,
        _ => &MUST_BE_FOUND,
    };
    let hunts = Hunts {
        wanted,
        must: &MUST_BE_FOUND,
        told: "workloads",
        again: "stripewise-sim ace --workload WORKLOAD --mutant NAME",
    };
    hunts.hunt_all(threads_or_all(args.threads), |mutant| hunt(mutant, args))
}

/// Whether a workload is told, by its number.
type IsTold<'a> = &'a dyn Fn(&Workload, usize) -> bool;

/// Workloads from the shortest on, until one ends badly: of those of two operations all that are on one file, and then some of the others.
fn hunt(mutant: Mutant, args: &AceArgs) -> Hunt {
    mutants::set(Some(mutant));
    let one_file = |workload: &Workload, _: usize| workload.is_of_one_file();
    let some = |workload: &Workload, number: usize| number.is_multiple_of(SOME) && !workload.is_of_one_file();
    let rounds: [(Set, IsTold<'_>); 3] =
        [(Set::Seq1, &|_, _| true), (Set::Seq2, &one_file), (Set::Seq2, &some)];
    let (begun, mut told) = (Instant::now(), 0);
    for ((set, is_told), size) in rounds.iter().flat_map(|round| Size::ALL.map(|size| (round, size))) {
        let start = Start { ground: Ground::File, size, seed: args.seed };
        let bases = Bases::new(start);
        for (first, lot) in set.lots(start).into_iter().enumerate() {
            let mut teller = Teller::new(bases.clone(), args.bounds(), false);
            // Others in each lot.
            let workloads = (first..).zip(lot.workloads());
            for (_, workload) in workloads.filter(|(number, workload)| is_told(workload, *number)) {
                if begun.elapsed() > TIME_MAX {
                    return Hunt { told, found: None };
                }
                told += 1;
                if let Err(failure) = teller.tell(&workload) {
                    let failure = failure.shortest(args.bounds());
                    let found = Some((failure.violation.checker.name(), failure.workload.to_string()));
                    return Hunt { told, found };
                }
            }
        }
    }
    Hunt { told, found: None }
}
