//! How long requests are.

use fastrand::Rng;

/// How the length of each request is chosen, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// All alike.
    Fixed(u64),
    /// Each with its weight; at least one weight is above 0.
    Weighted(Vec<(u64, u32)>),
    /// From the first to the last, which is no shorter, in steps above 0, all equally likely.
    Range {
        /// The shortest.
        from: u64,
        /// The longest.
        to: u64,
        /// From one length to the next.
        step: u64,
    },
}

impl Sizes {
    pub(super) fn next(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Weighted(list) => {
                let whole: u64 = list.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let mut left = rng.u64(..whole);
                for (bytes, weight) in list {
                    match left.checked_sub(u64::from(*weight)) {
                        Some(rest) => left = rest,
                        None => return *bytes,
                    }
                }
                unreachable!("the weights sum up to the whole")
            }
            Self::Range { from, to, step } => from + rng.u64(..=(to - from) / step) * step,
        }
    }

    /// The longest possible length.
    pub(super) fn longest(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Weighted(list) => list.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
            Self::Range { to, .. } => *to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_as_their_weights_say() {
        let mut rng = Rng::with_seed(1);
        let sizes = Sizes::Weighted(vec![(512, 1), (4096, 3)]);
        let long = (0..4000).filter(|_| sizes.next(&mut rng) == 4096).count();
        assert!((2850..3150).contains(&long), "{long} of 4000");
        let sizes = Sizes::Range { from: 1024, to: 4096, step: 1024 };
        let mut seen: Vec<_> = (0..100).map(|_| sizes.next(&mut rng)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [1024, 2048, 3072, 4096]);
        assert_eq!(sizes.longest(), 4096);
    }
}
