//! Stripes to be discarded: what freed them is durable, and nothing lies there.
//!
//! They wait until the caller asks for some. Those are kept then, so that nobody fills them while the volume discards them. A stripe
//! that was filled meanwhile is passed over.

use std::{collections::BTreeSet, ops::Range};

use super::Store;
use crate::{
    mutants::{Mutant, lives},
    shape::StripeNo,
};

/// Stripes that wait.
#[derive(Debug, Default)]
pub(super) struct Discards {
    are_wanted: bool,
    waiting: BTreeSet<StripeNo>,
}

impl Discards {
    pub(super) fn add(&mut self, stripes: impl IntoIterator<Item = StripeNo>) {
        if self.are_wanted {
            self.waiting.extend(stripes);
        }
    }
}

impl Store {
    /// Whether stripes that become free from now on are to be discarded.
    pub fn want_discards(&mut self, are_wanted: bool) {
        self.discards.are_wanted = are_wanted;
    }

    /// Those that wait are not discarded.
    pub fn forget_discards(&mut self) {
        self.discards.waiting.clear();
    }

    /// Whether stripes wait to be discarded.
    #[must_use]
    pub fn has_discards(&self) -> bool {
        !self.discards.waiting.is_empty()
    }

    /// Up to `max` stripes that the caller discards now, as runs. They are kept until each is [closed](Self::close_stripe).
    pub fn keep_discards(&mut self, max: usize) -> Vec<Range<StripeNo>> {
        let mut runs: Vec<Range<StripeNo>> = Vec::new();
        let mut left = max;
        while left > 0
            && let Some(stripe) = self.discards.waiting.pop_first()
        {
            if !lives(Mutant::DiscardNotKept) && !self.space.keep(stripe) {
                continue;
            }
            left -= 1;
            let end = StripeNo(stripe.0 + 1);
            match runs.last_mut() {
                Some(run) if run.end == stripe => run.end = end,
                _ => runs.push(stripe..end),
            }
        }
        runs
    }
}
