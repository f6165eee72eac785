//! The most blocks for the least time of members: full rows before single blocks, runs before scattered ones. What was
//! written a moment ago may still grow, and comes later than what is as cheap and was left alone.

use super::{Candidate, Chosen, What, WhatPolicy, first_of};

pub(super) static POLICY: WhatPolicy = WhatPolicy {
    name: "gain",
    number: 1,
    summary: "what frees the most blocks in the time that it takes members",
    make: || Box::new(Gain),
};

struct Gain;

/// Gains within a factor of two are alike: then what was written longest ago goes first.
fn class_of(candidate: &Candidate) -> i32 {
    (candidate.blocks as f32 / candidate.cost_ns.max(1.0)).log2().floor() as i32
}

impl What for Gain {
    fn choose(&mut self, mut candidates: Vec<Candidate>, blocks: usize) -> Chosen {
        candidates.sort_by_cached_key(|candidate| (-class_of(candidate), candidate.written));
        first_of(candidates, blocks)
    }

    /// What was written lately is in the other half.
    fn parts(&self) -> u64 {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::candidate, *};

    #[test]
    fn cheap_blocks_go_first_and_old_ones_among_them() {
        let dear = Candidate { cost_ns: 9000.0, ..candidate(1, 1, 0) };
        let all = vec![dear, candidate(2, 1, 5), candidate(3, 1, 3), candidate(4, 4, 9)];
        let stripes = |blocks| {
            let chosen = Gain.choose(all.clone(), blocks).destaged;
            chosen.iter().map(|one| one.stripe.0).collect::<Vec<_>>()
        };
        assert_eq!(stripes(1), [4]);
        assert_eq!(stripes(5), [3, 4]);
        assert_eq!(stripes(100), [1, 2, 3, 4]);
    }
}
