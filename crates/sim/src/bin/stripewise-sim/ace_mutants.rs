//! Deliberate bugs of the file system, let loose on short workloads: those that these can find must be found.

use std::time::{Duration, Instant};

use stripewise_rafs::mutants::{self, Mutant};
use stripewise_sim::{
    ace::{Bases, Set, Size, Start, Teller},
    rafs::Ground,
};

use crate::{
    ace::AceArgs,
    args::{WhichMutants, threads_or_all},
    hunts::{Hunt, Hunts},
};

/// Bugs that short workloads find within a second.
const MUST_BE_FOUND: [Mutant; 1] = [Mutant::DataNotFlushed];

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

/// Workloads from the shortest on, until one ends badly.
fn hunt(mutant: Mutant, args: &AceArgs) -> Hunt {
    mutants::set(Some(mutant));
    let (begun, mut told) = (Instant::now(), 0);
    let starts = Size::ALL.map(|size| Start { ground: Ground::File, size, seed: args.seed });
    let sets = [(Set::Seq1, 1), (Set::Seq2, SOME)];
    for (set, some) in sets {
        for start in starts {
            let bases = Bases::new(start);
            for (number, lot) in set.lots(start).into_iter().enumerate() {
                let mut teller = Teller::new(bases.clone(), args.bounds(), false);
                // Others in each lot.
                for workload in lot.workloads().into_iter().skip(number % some).step_by(some) {
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
    }
    Hunt { told, found: None }
}
