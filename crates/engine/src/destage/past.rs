//! What a policy of passing by goes by, and what it says.

use stripewise_device::Timestamp;

use super::Fill;
use crate::{members::stats::Served, shape::geometry::StripeIndex};

/// Decides which writes of parts of stripes go past the cache, to members at once. Whatever it says, what is dirty is
/// put.
pub(crate) trait Past: Send {
    /// Which ones from now on.
    fn next(&mut self, seen: &Seen<'_>) -> Verdict;
}

/// What the cache, clients and members have come to.
pub(crate) struct Seen<'a> {
    pub(crate) fill: Fill,
    /// The policy of when calls for destages.
    pub(crate) wants_room: bool,
    /// A writer lacks memory.
    pub(crate) lacks_memory: bool,
    /// So much more may be dirty than members were measured to take in the time that a flush may take, as a part of that.
    /// Until there is no excess, writers are slowed.
    pub(crate) excess: f64,
    /// Blocks of a stripe.
    pub(crate) stripe_blocks: u64,
    /// What clients have written.
    pub(crate) written: Served,
    /// What was spent on it so far. To sum it up takes time.
    pub(crate) spent: &'a dyn Fn() -> Spent,
    pub(crate) now: Timestamp,
}

impl Seen<'_> {
    /// Whether the cache is full, if it was so before: the policy of when has called for room, and since then the cache
    /// was never far below its low mark, where destages that make room stop.
    pub(super) fn is_full(&self, was_full: bool) -> bool {
        /// No longer full if fewer blocks are dirty than the low mark by one part in so many.
        const FULL_PARTS: u64 = 4;
        let Fill { dirty, low, .. } = self.fill;
        self.wants_room || was_full && dirty > low * (FULL_PARTS - 1) / FULL_PARTS
    }
}

/// What members have spent so far: on writes of parts of stripes, one way and the other, and on all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Spent {
    pub(crate) through: Account,
    pub(crate) back: Account,
    /// Reads, whole stripes and jobs, all members together, in nanoseconds.
    pub(crate) others_ns: u64,
    pub(crate) members: u64,
    /// Blocks that were destaged as soon as all of their stripe was dirty.
    pub(crate) full_blocks: u64,
    /// Writes that were gathered, and so reached members as one with others.
    pub(crate) gathered: u64,
}

/// One way's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Account {
    /// How long members were occupied, all together, in nanoseconds.
    pub(crate) ns: u64,
    /// What clients wrote.
    pub(crate) bytes: u64,
    /// Writes that passed by; blocks that were destaged.
    pub(crate) count: u64,
}

impl Account {
    /// What has come to it since then.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            ns: self.ns.saturating_sub(before.ns),
            bytes: self.bytes.saturating_sub(before.bytes),
            count: self.count.saturating_sub(before.count),
        }
    }
}

/// Which writes go past the cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) bound: Bound,
    /// Of what may be dirty, so much is left to those that do not.
    pub(crate) share: f64,
    pub(crate) weighed: Weighed,
}

/// Stripes whose writes pass by: those whose places in a shuffled order lie below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bound(u64);

impl Bound {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(1 << 32);

    /// A share of all stripes; of two shares the larger one holds the smaller one.
    pub(crate) fn share(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * (1_u64 << 32) as f64) as u64)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn of_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether so large a share of all stripes, or more, lies between the two.
    pub(super) fn differs_from(self, other: Self, share: f64) -> bool {
        self.0.abs_diff(other.0) >= Self::share(share).0
    }

    /// Whether writes of a stripe pass by.
    #[inline]
    pub(crate) fn holds(self, stripe: StripeIndex) -> bool {
        self >= Self::ALL || self > Self::NONE && shuffled(stripe) < self.0
    }
}

/// A stripe's place in an order that has nothing to do with where stripes lie, nor with their places in the cache: the
/// finalizer of MurmurHash3, without its last step.
fn shuffled(stripe: StripeIndex) -> u64 {
    let first = (stripe.0 ^ stripe.0 >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    (first ^ first >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53) >> 32
}

/// Why writes of parts of stripes go the way that they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Why {
    /// There is room in the cache: writes are put there.
    #[default]
    Room,
    /// An operator wants no writes past the cache.
    Chosen,
    /// Clients are served faster this way, as measured in turns.
    Served,
    /// Which way is better is not known yet.
    Unknown,
    /// Members are occupied for a shorter time this way; a sample of stripes goes the other way.
    Cost,
}

impl Why {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Room => "there is room in the cache",
            Self::Unknown => "which way is better is not known yet",
            Self::Chosen => "none shall go past it",
            Self::Served => "clients are served faster so",
            Self::Cost => "members have less to do so",
        }
    }
}

/// How the ways compare.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weighed {
    /// Writes go past the cache; or by way of it.
    pub passes: bool,
    /// Why.
    pub why: Why,
    /// The share of stripes that goes the other way, to compare.
    pub sample: f64,
    /// How long members are occupied by a byte that goes past the cache, in nanoseconds, once that is known.
    pub through_ns: Option<f64>,
    /// The same for a byte by way of the cache.
    pub back_ns: Option<f64>,
}

impl Verdict {
    /// All writes pass by, or none, and why.
    pub(crate) fn of_all(passes: bool, why: Why) -> Self {
        let bound = if passes { Bound::ALL } else { Bound::NONE };
        Self { bound, share: 1.0, weighed: Weighed { passes, why, ..Weighed::default() } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_stripes_is_below_a_bound_wherever_they_lie() {
        for (share, every) in [(1.0 / 64.0, 1), (1.0 / 64.0, 64), (0.25, 233), (0.9, 4096)] {
            let bound = Bound::share(share);
            let held =
                (0..100_000).filter(|n| bound.holds(StripeIndex(n * every))).count() as f64 / 100_000.0;
            assert!((held / share - 1.0).abs() < 0.1, "{share} of every {every}: {held}");
        }
        let larger = (0..10_000).map(StripeIndex).filter(|stripe| Bound::share(0.1).holds(*stripe));
        assert!(larger.clone().count() > 0 && larger.clone().all(|stripe| Bound::share(0.2).holds(stripe)));
        assert!(!Bound::NONE.holds(StripeIndex(0)) && Bound::ALL.holds(StripeIndex(u64::MAX)));
    }
}
