//! The table of active stripes: buckets, each with its lock, and what can be seen there of the writes under way.

use std::{num::NonZeroU32, ops::RangeInclusive, task::Waker};

use stripewise_device::sync::seam::{Mutex, MutexGuard, spin};

use super::{
    claim::Place,
    stream::{Before, Expected, Gather},
    stripe::ActiveStripe,
};
use crate::{intent::locking::StripeLocks, shape::geometry::StripeIndex};

/// Buckets of the table for each thread: enough that two requests in flight, or two streams of gathered
/// writes, rarely share a bucket. There are no more, because a bucket that is rarely used is not in the
/// cache.
const BUCKETS_PER_THREAD: usize = 256;
/// The fewest buckets and the most.
const BUCKETS: RangeInclusive<usize> = 256..=1024;
/// Requests that a stream must have in flight before other writes wait behind it. With fewer, waiting would
/// cost more than it gains, because there are no other writes to gather.
pub(super) const STREAM_PARTS: u32 = 4;

/// The table of locked rows. `W` is what the table keeps of a write that waits to be gathered.
pub(crate) struct RowLocks<W> {
    buckets: Box<[Slot<W>]>,
    /// The data bytes of a stripe if writes are gathered, else None.
    pub(super) gathers: Option<usize>,
}

/// A bucket with its lock. It fills exactly two cache lines. So a writer gets the state of its stripe
/// together with the lock, and takes nothing from writers in other buckets.
#[repr(align(128))]
struct Slot<W>(Mutex<Bucket<W>>);

#[cfg(not(feature = "loom"))]
const _: () = assert!(size_of::<Slot<()>>() == 128);

/// Active stripes with the same hash.
pub(super) struct Bucket<W> {
    /// There is seldom more than one.
    first: Option<ActiveStripe<W>>,
    /// Some if there ever was more than one. Empty if there is no first.
    others: Option<Box<Others<W>>>,
    /// Where a stream of gathered writes continues.
    pub(super) expected: Option<Expected>,
}

struct Others<W>(Vec<ActiveStripe<W>>);

impl<W> Default for Slot<W> {
    fn default() -> Self {
        Self(Mutex::new(Bucket { first: None, others: None, expected: None }))
    }
}

impl<W> Bucket<W> {
    #[inline]
    pub(super) fn get(&mut self, stripe: StripeIndex) -> Option<&mut ActiveStripe<W>> {
        match &mut self.first {
            Some(first) if first.stripe == stripe => Some(first),
            _ => self.others.as_mut()?.0.iter_mut().find(|active| active.stripe == stripe),
        }
    }

    #[inline]
    pub(super) fn active(&mut self, stripe: StripeIndex) -> &mut ActiveStripe<W> {
        if self.first.as_ref().is_none_or(|first| first.stripe == stripe) {
            return self.first.get_or_insert_with(|| ActiveStripe::new(stripe));
        }
        let Others(others) = &mut **self.others.get_or_insert_with(|| Box::new(Others(Vec::new())));
        let index = others.iter().position(|active| active.stripe == stripe).unwrap_or_else(|| {
            others.push(ActiveStripe::new(stripe));
            others.len() - 1
        });
        &mut others[index]
    }

    /// Forgets a stripe if it has no requests.
    #[inline]
    pub(super) fn forget_idle(&mut self, stripe: StripeIndex) {
        let is_idle = |active: &ActiveStripe<W>| active.stripe == stripe && active.is_idle();
        if self.first.take_if(|first| is_idle(first)).is_some() {
            self.first = self.others.as_mut().and_then(|others| others.0.pop());
        } else if let Some(others) = &mut self.others {
            others.0.retain(|active| !is_idle(active));
        }
    }

    pub(super) fn gather(&mut self, stripe: StripeIndex) -> Option<&mut Gather<W>> {
        self.get(stripe)?.gather()
    }

    /// Several gathered writes end here. A single one is no longer a stream.
    pub(super) fn expect(&mut self, stripe: StripeIndex, start: usize, parts: u32) {
        if let Some(parts) = NonZeroU32::new(parts).filter(|parts| parts.get() > 1) {
            self.expected = Some(Expected { stripe, start, parts });
        }
    }

    /// What lies before a write.
    #[inline]
    pub(super) fn before(&mut self, place: &Place) -> Before {
        if self.expected.as_ref().is_some_and(|expected| expected.is_at(place)) {
            return Before::Stream;
        }
        let Some(active) = self.get(place.stripe) else { return Before::Nothing };
        match active.gather() {
            Some(gather) if gather.bytes.end == place.bytes.start => Before::Stream,
            Some(_) => Before::Nothing,
            None => active
                .parts_before(place.bytes.start)
                .map_or(Before::Nothing, |_| Before::Some(active.parts())),
        }
    }
}

impl<W> Default for RowLocks<W> {
    fn default() -> Self {
        Self::with_buckets(*BUCKETS.start())
    }
}

impl<W> RowLocks<W> {
    /// A table for this many threads.
    pub(crate) fn new(locks: StripeLocks, threads: usize, gathers: Option<usize>) -> Self {
        let buckets = match locks {
            StripeLocks::Few(count) => count as usize,
            StripeLocks::PerBucket => (BUCKETS_PER_THREAD * threads).clamp(*BUCKETS.start(), *BUCKETS.end()),
        };
        Self { gathers, ..Self::with_buckets(buckets) }
    }

    /// A table with the given number of buckets (rounded up to a power of two), that gathers nothing.
    pub(crate) fn with_buckets(buckets: usize) -> Self {
        let buckets = (0..buckets.max(1).next_power_of_two()).map(|_| Slot::default()).collect();
        Self { buckets, gathers: None }
    }

    /// Whether no request holds rows or waits.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.buckets.iter().all(|Slot(bucket)| bucket.lock().first.is_none())
    }

    /// A stripe's bucket, locked.
    pub(super) fn bucket(&self, stripe: StripeIndex) -> MutexGuard<'_, Bucket<W>> {
        // Fibonacci hashing: neighbouring stripes spread over the buckets.
        let hash = stripe.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        spin(&self.buckets[hash as usize & (self.buckets.len() - 1)].0)
    }

    /// Whether a write may ever be gathered: whole stripes gain nothing from it.
    #[inline]
    pub(super) fn may_gather(&self, place: &Place) -> bool {
        self.gathers.is_some_and(|stripe_bytes| place.bytes.len() < stripe_bytes)
    }

    /// Whether `parts` requests under way right before a write in its stripe make a stream, together with
    /// those in the stripes before.
    pub(super) fn is_stream(&self, place: &Place, mut parts: u32) -> bool {
        let mut stripe = place.stripe;
        let mut may_look = place.leads || place.bytes.start > 0;
        while parts < STREAM_PARTS {
            let found = may_look.then(|| self.parts_to_the_end_before(stripe)).flatten();
            let Some((previous, found)) = found else { return false };
            (stripe, parts, may_look) = (previous, parts + found, true);
        }
        true
    }

    /// The stripe before and the number of requests under way in it, if one of them reaches its end.
    fn parts_to_the_end_before(&self, stripe: StripeIndex) -> Option<(StripeIndex, u32)> {
        let look = |active: &mut ActiveStripe<W>, end| active.parts_before(end).map(|_| active.parts());
        Some((StripeIndex(stripe.0.checked_sub(1)?), self.with_previous(stripe, look)?))
    }

    /// Calls `look` with the stripe before and the place where it ends.
    pub(super) fn with_previous<T>(
        &self,
        stripe: StripeIndex,
        look: impl FnOnce(&mut ActiveStripe<W>, usize) -> Option<T>,
    ) -> Option<T> {
        let previous = StripeIndex(stripe.0.checked_sub(1)?);
        let mut bucket = self.bucket(previous);
        look(bucket.get(previous)?, self.gathers?)
    }

    /// The write that a stripe's gather waited for has ended.
    pub(super) fn make_due(&self, stripe: StripeIndex) {
        let waker = self.bucket(stripe).gather(stripe).and_then(Gather::make_due);
        waker.into_iter().for_each(Waker::wake);
    }
}
