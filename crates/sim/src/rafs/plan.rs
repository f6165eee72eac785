//! What a story is about, and how it is made shorter.

use std::collections::BTreeSet;

#[cfg(feature = "mutants")]
use stripewise_rafs::mutants::Mutant;

use super::{Act, Ground, LONG_LIFE_STEPS};

/// What a story is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// All follows from it.
    pub seed: u64,
    /// What the file system lies on.
    pub ground: Ground,
    /// Lives: each ends with a power failure, or the program is killed.
    pub lives: u32,
    /// Lives at the beginning in which clients do nothing.
    pub quiet_lives: u32,
    /// Steps of the last life at most.
    pub last_steps: u64,
    /// Clients that work at the same time.
    pub clients: u32,
    /// What clients and the operator do not do.
    pub without: BTreeSet<Act>,
    /// Whether what they do is told.
    pub narrate: bool,
    /// A deliberate bug that the file system has.
    #[cfg(feature = "mutants")]
    pub mutant: Option<Mutant>,
}

impl Plan {
    /// A story of twelve lives with three clients.
    #[must_use]
    pub fn new(seed: u64, ground: Ground) -> Self {
        Self {
            seed,
            ground,
            lives: 12,
            quiet_lives: 0,
            last_steps: u64::MAX,
            clients: 3,
            without: BTreeSet::new(),
            narrate: false,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Plans that are a little shorter, the boldest first. `failed` is the life in which the story ended badly.
    #[must_use]
    pub fn shorter(&self, failed: u32) -> Vec<Self> {
        let mut all = Vec::new();
        if failed + 1 < self.lives {
            all.push(Self { lives: failed + 1, ..self.clone() });
        }
        for quiet_lives in [self.lives.saturating_sub(1), self.lives / 2, self.quiet_lives + 1] {
            if quiet_lives > self.quiet_lives && quiet_lives < self.lives {
                all.push(Self { quiet_lives, ..self.clone() });
            }
        }
        all.extend((1..self.clients).map(|clients| Self { clients, ..self.clone() }));
        let steps = self.last_steps.min(LONG_LIFE_STEPS);
        for last_steps in [steps / 2, steps * 7 / 8, steps - steps.min(1)] {
            if last_steps < self.last_steps {
                all.push(Self { last_steps, ..self.clone() });
            }
        }
        for act in Act::ALL.into_iter().filter(|act| !self.without.contains(act)) {
            let without = self.without.iter().copied().chain([act]).collect();
            all.push(Self { without, ..self.clone() });
        }
        all
    }
}
