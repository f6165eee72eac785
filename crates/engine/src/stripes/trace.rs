//! The decision trace: what write selection chose for each stripe write, for people to read. When it is off,
//! it costs one look at a flag.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::Mutex;
use smallvec::SmallVec;
use stripewise_device::Timestamp;

use crate::{
    destage::Why,
    plan::{Band, Cycle},
};

/// Which way a stripe write came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeWay {
    /// The array has no cache.
    Uncached,
    /// Past the cache, as a whole stripe.
    Whole,
    /// A part of a stripe past the cache.
    Past(Why),
    /// Past the cache, in a stripe of the sample by which the ways are compared.
    Sample,
    /// Cells of the cache are destaged.
    Destage,
}

impl StripeWay {
    /// In words; none without a cache.
    pub fn text(self) -> Option<String> {
        match self {
            Self::Uncached => None,
            Self::Whole => Some("a whole stripe, past the cache".to_owned()),
            Self::Past(why) => Some(format!("past the cache, since {}", why.text())),
            Self::Sample => Some("past the cache, to compare the ways".to_owned()),
            Self::Destage => Some("destaged".to_owned()),
        }
    }
}

/// A stripe write as it was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Counted from 0 since tracing began, over the decisions that passed the filter.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// The stripe.
    pub stripe: u64,
    /// The first byte written, in the array.
    pub offset_bytes: u64,
    /// How much of the request lies in this stripe.
    pub len_bytes: u64,
    /// Which way it came.
    pub way: StripeWay,
    /// The policy that chose.
    pub policy: &'static str,
    /// The rows by cycle, with md's counts and the policy's estimates.
    pub bands: SmallVec<[Band; 4]>,
}

/// Which decisions are kept; all by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceFilter {
    /// Only those with rows of one of these cycles; empty for all.
    pub cycles: Vec<Cycle>,
    /// Only of these stripes.
    pub stripes: Option<Range<u64>>,
    /// Only those in which a policy had a choice.
    pub chosen_only: bool,
    /// Only writes of at least this many bytes in the stripe.
    pub min_bytes: u64,
}

impl TraceFilter {
    fn passes(&self, decision: &Decision) -> bool {
        let cycle = |band: &Band| self.cycles.is_empty() || self.cycles.contains(&band.cycle);
        decision.bands.iter().any(cycle)
            && self.stripes.as_ref().is_none_or(|stripes| stripes.contains(&decision.stripe))
            && (!self.chosen_only || decision.bands.iter().any(|band| band.free))
            && decision.len_bytes >= self.min_bytes
    }
}

/// Decisions from a number on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traced {
    /// In order.
    pub decisions: Vec<Decision>,
    /// Decisions that came after that number and were dropped for want of room.
    pub lost: u64,
    /// The number to ask from next.
    pub next: u64,
}

/// Keeps decisions while a trace is on.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    on: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    filter: TraceFilter,
    capacity: usize,
    next: u64,
    decisions: VecDeque<Decision>,
}

impl Tracer {
    pub(crate) fn start(&self, filter: TraceFilter, capacity: usize) {
        *self.kept.lock() = Kept { filter, capacity, ..Kept::default() };
        self.on.store(true, Relaxed);
    }

    pub(crate) fn stop(&self) {
        self.on.store(false, Relaxed);
        *self.kept.lock() = Kept::default();
    }

    /// Whether a trace is on.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Keeps a decision if a trace is on. Only then is the decision made, from its number.
    pub(crate) fn tell(&self, decision: impl FnOnce(u64) -> Decision) {
        if !self.is_on() {
            return;
        }
        let mut kept = self.kept.lock();
        let decision = decision(kept.next);
        if kept.capacity == 0 || !kept.filter.passes(&decision) {
            return;
        }
        if kept.decisions.len() == kept.capacity {
            kept.decisions.pop_front();
        }
        kept.next += 1;
        kept.decisions.push_back(decision);
    }

    pub(crate) fn since(&self, since: u64) -> Traced {
        let mut kept = self.kept.lock();
        let handed_out = kept.decisions.iter().take_while(|decision| decision.number < since).count();
        kept.decisions.drain(..handed_out);
        let oldest = kept.decisions.front().map_or(kept.next, |decision| decision.number);
        let decisions = kept.decisions.iter().cloned().collect();
        Traced { decisions, lost: oldest.saturating_sub(since), next: kept.next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::rows::RowSet;

    fn decision(number: u64, stripe: u64, cycle: Cycle) -> Decision {
        let rows = RowSet::range(0..1);
        let band = Band { rows, cycle, partial: false, rmw: 2, rcw: 3, free: true, estimate: None };
        let (at, bands) = (Timestamp(0), SmallVec::from_iter([band]));
        let way = StripeWay::Uncached;
        Decision { number, at, stripe, offset_bytes: 0, len_bytes: 4096, way, policy: "classic", bands }
    }

    #[test]
    fn what_passes_the_filter_is_kept_and_what_is_lost_is_counted() {
        let tracer = Tracer::default();
        tracer.tell(|_| unreachable!("nobody traces"));
        let filter = TraceFilter { cycles: vec![Cycle::Rmw], stripes: Some(0..9), ..TraceFilter::default() };
        tracer.start(filter, 2);
        for stripe in 0..10 {
            tracer.tell(|number| decision(number, stripe, Cycle::Rmw));
            tracer.tell(|number| decision(number, stripe, Cycle::Rcw));
        }
        let Traced { decisions, lost, next } = tracer.since(0);
        assert_eq!(decisions.iter().map(|d| d.stripe).collect::<Vec<_>>(), [7, 8]);
        assert_eq!((lost, next), (7, 9));
        assert_eq!(tracer.since(next), Traced { next, ..Traced::default() });
        tracer.stop();
        assert_eq!(tracer.since(0), Traced::default());
    }
}
