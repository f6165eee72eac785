//! Wise ordering for writes (Gill and Modha, 2005): a hand goes over the stripes by place, round and round. What was
//! written again since the hand passed it is spared once.

use super::{Candidate, Chosen, What, WhatPolicy, place};

pub(super) static POLICY: WhatPolicy = WhatPolicy {
    name: "wow",
    number: 3,
    summary: "by place, round and round; what was written again since the last round is spared once",
    make: || Box::new(WiseOrdering::default()),
};

/// Where the hand stands: it has passed what lies before.
#[derive(Default)]
struct WiseOrdering {
    hand: (u64, Option<usize>),
}

impl What for WiseOrdering {
    fn choose(&mut self, mut candidates: Vec<Candidate>, blocks: usize) -> Chosen {
        let from = candidates.partition_point(|candidate| place(candidate) <= self.hand);
        candidates.rotate_left(from);
        let mut chosen = Chosen::default();
        let mut sum = 0;
        for candidate in candidates {
            if sum >= blocks.max(1) {
                break;
            }
            self.hand = place(&candidate);
            if candidate.is_recent {
                chosen.passed.push(candidate);
            } else {
                sum += candidate.blocks;
                chosen.destaged.push(candidate);
            }
        }
        if chosen.destaged.is_empty() {
            // All were spared, and are not in the next round: it may begin.
            let first = chosen.passed.remove(0);
            self.hand = place(&first);
            chosen.destaged.push(first);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::candidate, *};

    #[test]
    fn the_hand_goes_round_and_spares_what_is_recent() {
        let mut hand = WiseOrdering::default();
        let recent = |stripe| Candidate { is_recent: true, ..candidate(stripe, 1, 0) };
        let all = || vec![candidate(1, 1, 0), recent(2), candidate(3, 1, 0), candidate(4, 1, 0)];
        let stripes = |chosen: &[Candidate]| chosen.iter().map(|one| one.stripe.0).collect::<Vec<_>>();
        let first = hand.choose(all(), 2);
        assert_eq!((stripes(&first.destaged), stripes(&first.passed)), (vec![1, 3], vec![2]));
        let second = hand.choose(all(), 2);
        assert_eq!((stripes(&second.destaged), stripes(&second.passed)), (vec![4, 1], vec![]));
        let spared = hand.choose(vec![recent(2)], 2);
        assert_eq!((stripes(&spared.destaged), stripes(&spared.passed)), (vec![2], vec![]));
    }
}
