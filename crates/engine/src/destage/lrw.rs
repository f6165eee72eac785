//! Least recently written (msc-ct III-A, Fig. 6): the stripe, or row, whose last write is longest ago.

use super::{Candidate, Chosen, What, WhatPolicy, first_of};

pub(super) static POLICY: WhatPolicy = WhatPolicy {
    name: "lrw",
    number: 2,
    summary: "what was written last longest ago",
    make: || Box::new(LeastRecentlyWritten),
};

struct LeastRecentlyWritten;

impl What for LeastRecentlyWritten {
    fn choose(&mut self, mut candidates: Vec<Candidate>, blocks: usize) -> Chosen {
        // Stable: what was written at the same time goes by place.
        candidates.sort_by_key(|candidate| candidate.written);
        first_of(candidates, blocks)
    }
}
