//! Destage policies: when the cache makes room, and what it destages first (msc-ct I-A, IV-A).
//!
//! A policy of either sort is one file here and one line in its list. `docs/design/caching.md` tells how to add one.

mod past;
mod turns;
mod ways;

use std::fmt;

use stripewise_device::Timestamp;

use self::passing::Passing;
pub use self::past::{Weighed, Why};
pub(crate) use self::{
    past::{Account, Bound, Past, Seen, Spent, Verdict},
    turns::{Flushes, Turns},
};
use crate::shape::{geometry::StripeIndex, rows::RowSet};

/// How full of dirty blocks the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Dirty blocks.
    pub dirty: u64,
    /// As many dirty blocks are let be: the low mark.
    pub low: u64,
    /// As many call for all that members can do: the high mark.
    pub high: u64,
}

/// Decides when the cache makes room, and how fast.
pub trait When: Send {
    /// How many stripes may be under way now, of `most`; 0: none is begun.
    fn in_flight(&mut self, fill: Fill, most: usize) -> usize;

    /// The low mark while this share of what clients put is dirty already.
    fn low_mark(&self, fill: Fill, _rewritten: f64) -> u64 {
        fill.low
    }

    /// How many blocks must be dirty for a stripe to be destaged as soon as it is dirty as a whole; none: it never is.
    /// `rotates`: some member is a hard disk.
    fn takes_full_from(&self, fill: Fill, rotates: bool) -> Option<u64>;
}

/// A stripe, or a row of one, with dirty blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The stripe.
    pub stripe: StripeIndex,
    /// The rows that are dirty.
    pub rows: RowSet,
    /// Dirty blocks.
    pub blocks: usize,
    /// When it was written last.
    pub written: Timestamp,
    /// No dirty block was written before.
    pub dirty_since: Timestamp,
    /// It was written again since a destage policy [passed](Chosen::passed) it.
    pub is_recent: bool,
    /// How long members are occupied by the destage, about.
    pub cost_ns: f32,
}

/// What a policy chose.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chosen {
    /// What is destaged, in this order.
    pub destaged: Vec<Candidate>,
    /// What was looked at and spared: unless it is written again, it is no longer recent.
    pub passed: Vec<Candidate>,
}

/// Decides what is destaged first.
pub trait What: Send {
    /// Chooses at least one of the candidates, and about as many blocks as wanted. There is at least one, and they come by
    /// place.
    fn choose(&mut self, candidates: Vec<Candidate>, blocks: usize) -> Chosen;

    /// Of what is dirty, one part in so many is chosen at a time. What is chosen is destaged by place: the more there is of it,
    /// the less the heads of hard disks move, and the later it is noticed what was written again.
    fn parts(&self) -> u64 {
        16
    }
}

/// A policy, as an operator chooses it.
pub struct DestagePolicy<P: ?Sized + 'static> {
    /// Its name.
    pub name: &'static str,
    /// The number that members keep.
    pub number: u8,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Makes one for an array.
    pub make: fn() -> Box<P>,
}

impl<P: ?Sized> PartialEq for DestagePolicy<P> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<P: ?Sized> Eq for DestagePolicy<P> {}

impl<P: ?Sized> fmt::Debug for DestagePolicy<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A policy of when.
pub type WhenPolicy = DestagePolicy<dyn When>;
/// A policy of what.
pub type WhatPolicy = DestagePolicy<dyn What>;

/// A policy of which writes go past the cache.
pub(crate) type PastPolicy = DestagePolicy<dyn Past>;

/// Policies by their files.
macro_rules! policies {
    ($vis:vis $list:ident: $of:ty, $($file:ident,)+) => {
        $(mod $file;)+

        /// All policies of this sort, the default first.
        $vis static $list: &[&$of] = &[$(&$file::POLICY),+];
    };
}

// A new policy of when is a line here.
policies! {
    pub WHEN: WhenPolicy,
    lt,
    hlm,
}

// A new policy of what is a line here.
policies! {
    pub WHAT: WhatPolicy,
    gain,
    lrw,
    wow,
}

// A new policy of passing by is a line here. A kind of cache has one of them.
policies! {
    pub(crate) PAST: PastPolicy,
    passing,
    weighing,
}

/// The policy with a number that a member keeps: the first for 0; none for a number of a later version.
pub(crate) fn numbered<P: ?Sized>(
    list: &'static [&'static DestagePolicy<P>],
    number: u8,
) -> Option<&'static DestagePolicy<P>> {
    match number {
        0 => list.first().copied(),
        _ => list.iter().find(|policy| policy.number == number).copied(),
    }
}

/// Takes the first of some candidates that are sorted by preference, until they have so many blocks, by place.
fn first_of(sorted: Vec<Candidate>, blocks: usize) -> Chosen {
    let mut sum = 0;
    let wanted = sorted.into_iter().take_while(|candidate| {
        let is_wanted = sum < blocks.max(1);
        sum += candidate.blocks;
        is_wanted
    });
    let mut destaged: Vec<Candidate> = wanted.collect();
    destaged.sort_unstable_by_key(place);
    Chosen { destaged, passed: Vec::new() }
}

/// Where a candidate lies.
pub(crate) fn place(candidate: &Candidate) -> (u64, Option<usize>) {
    (candidate.stripe.0, candidate.rows.first())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(super) fn candidate(stripe: u64, blocks: usize, written_us: u64) -> Candidate {
        let written = Timestamp(written_us * 1000);
        Candidate {
            stripe: StripeIndex(stripe),
            rows: RowSet::range(0..blocks),
            blocks,
            written,
            dirty_since: written,
            is_recent: false,
            cost_ns: 1000.0,
        }
    }

    #[test]
    fn numbers_find_their_policy() {
        for (number, name) in [(0, "lt"), (1, "lt"), (2, "hlm")] {
            assert_eq!(numbered(WHEN, number).map(|policy| policy.name), Some(name));
        }
        for (number, name) in [(0, "gain"), (1, "gain"), (2, "lrw"), (3, "wow")] {
            assert_eq!(numbered(WHAT, number).map(|policy| policy.name), Some(name));
        }
        assert!(numbered(WHEN, 255).is_none() && numbered(WHAT, 255).is_none());
    }

    proptest! {
        /// Whatever a policy prefers: it chooses something, each only once, in order of place from some place on,
        /// and does not spare what it destages.
        #[test]
        fn every_policy_chooses_some_of_the_candidates(
            all in prop::collection::btree_map(0..500_u64, (1..64_usize, 0..100_u64, any::<bool>()), 1..100),
            wanted in 0..300_usize,
            rounds in 1..5,
        ) {
            let candidates: Vec<_> = all.iter().map(|(stripe, (blocks, written, is_recent))| {
                Candidate { is_recent: *is_recent, ..candidate(*stripe, *blocks, *written) }
            }).collect();
            for policy in WHAT {
                let mut what = (policy.make)();
                for _ in 0..rounds {
                    let Chosen { destaged, passed } = what.choose(candidates.clone(), wanted);
                    prop_assert!(!destaged.is_empty(), "{}", policy.name);
                    let turns = destaged.windows(2).filter(|pair| place(&pair[0]) >= place(&pair[1])).count();
                    prop_assert!(turns <= 1, "{} goes back and forth: {destaged:?}", policy.name);
                    prop_assert!(destaged.iter().all(|one| candidates.contains(one) && !passed.contains(one)));
                    let blocks: usize = destaged.iter().map(|one| one.blocks).sum();
                    prop_assert!(blocks < wanted.max(1) + 64, "{}: {blocks} of {wanted}", policy.name);
                }
            }
        }

        /// Whatever it does between the marks: nothing below the low mark, everything from the high mark on.
        #[test]
        fn every_policy_of_when_keeps_the_marks(low in 0..50_u64, gap in 1..50_u64, fills in prop::collection::vec(0..200_u64, 1..50)) {
            for policy in WHEN {
                let mut when = (policy.make)();
                for dirty in &fills {
                    let fill = Fill { dirty: *dirty, low, high: low + gap };
                    let count = when.in_flight(fill, 64);
                    prop_assert!(count <= 64);
                    if *dirty < low {
                        prop_assert_eq!(count, 0, "{}", policy.name);
                    }
                    if *dirty >= low + gap {
                        prop_assert_eq!(count, 64, "{}", policy.name);
                    }
                }
            }
        }
    }
}
