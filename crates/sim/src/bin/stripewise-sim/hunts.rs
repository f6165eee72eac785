//! Hunts for deliberate bugs, on all cores: in each, short histories or workloads are told until one ends badly.

use std::{
    fmt::Debug,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What is hunted, and how.
pub(crate) struct Hunts<'a, M> {
    /// The mutants that are let loose.
    pub(crate) wanted: &'a [M],
    /// Those that must be found.
    pub(crate) must: &'a [M],
    /// What is told until one is found: `histories`, for the report.
    pub(crate) told: &'a str,
    /// The command that tells one again.
    pub(crate) again: &'a str,
}

/// The result of the hunt for a mutant.
pub(crate) struct Hunt {
    /// What was told until it was found, or until the end.
    pub(crate) told: u64,
    /// The checker that found it, and in what.
    pub(crate) found: Option<(&'static str, String)>,
}

impl<M: Copy + Ord + Debug + Send + Sync> Hunts<'_, M> {
    /// Hunts for all of them. True if all that must be found are.
    pub(crate) fn hunt_all(&self, threads: usize, hunt: impl Fn(M) -> Hunt + Sync) -> bool {
        let (hunts, next): (Mutex<Vec<(M, Hunt)>>, _) = (Mutex::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(mutant) = self.wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let hunt = hunt(*mutant);
                        hunts.lock().expect("hunters catch panics").push((*mutant, hunt));
                    }
                });
            }
        });
        let mut hunts = hunts.into_inner().expect("hunters catch panics");
        hunts.sort_by_key(|(mutant, _)| *mutant);
        self.report(&hunts)
    }

    fn report(&self, hunts: &[(M, Hunt)]) -> bool {
        println!("{:26} {:>9}  {:11} in", "mutant", self.told, "checker");
        for (mutant, Hunt { told, found }) in hunts {
            let (checker, place) = match found {
                Some((checker, place)) => (*checker, &**place),
                None if self.must.contains(mutant) => ("NOT FOUND", "and it must be"),
                None => ("not found", ""),
            };
            println!("{:26} {told:>9}  {checker:11} {place}", format!("{mutant:?}"));
        }
        let missed = hunts.iter().filter(|(_, hunt)| hunt.found.is_none());
        let must = missed.clone().filter(|(mutant, _)| self.must.contains(mutant)).count();
        println!("{} mutants, {} not found, of which {must} must be", hunts.len(), missed.count());
        println!("to see one: {}", self.again);
        must == 0
    }
}
