//! Writes that lie one behind the other wait together for the write before them and are then written as one.
//! So small sequential writes become whole stripes, which need no reads, without a cache.
//!
//! A lone write does not wait. A write is gathered if it begins where a write under way ends, and at least
//! [`STREAM_PARTS`] requests are under way in that write's stripe and the stripes before. It is also gathered
//! if it begins where several gathered writes have ended and no write has followed yet: their clients are
//! about to send more.
//!
//! The write before may be in the same stripe or end the stripe before. A gather is due when the write before
//! has ended, or when the gather reaches the end of its stripe. A gather waits only for claims, and claims
//! never wait for a gather. So no gather can wait for itself.

use std::{
    future::Future,
    num::NonZeroU32,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::{ActiveStripe, Bucket, LockRows, LockState, RowLocks, Wanted};
use crate::shape::{geometry::StripeIndex, rows::RowSet};

/// Requests that a stream must have in flight before other writes wait behind it. With fewer, waiting would
/// cost more than it gains, because there are no other writes to gather.
const STREAM_PARTS: u32 = 4;

/// Where a write to one stripe goes.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) stripe: StripeIndex,
    /// Its range in the stripe's data bytes.
    pub(crate) bytes: Range<usize>,
    /// It begins its request: bytes before it belong to another request.
    pub(crate) leads: bool,
}

/// Where a stream of gathered writes continues. Kept until a write comes there.
pub(super) struct Expected {
    stripe: StripeIndex,
    start: usize,
    /// How many requests were gathered last.
    parts: NonZeroU32,
}

impl Expected {
    fn is_at(&self, place: &Place) -> bool {
        self.stripe == place.stripe && self.start == place.bytes.start
    }
}

/// What lies before a write in its stripe.
pub(super) enum Before {
    Nothing,
    /// A stream.
    Stream,
    /// This many requests. Requests in the stripes before may make them a stream.
    Some(u32),
}

/// Writes of one stripe that wait, without gaps between them. `W` is what is kept of each.
pub(super) struct Gather<W> {
    bytes: Range<usize>,
    parts: Vec<W>,
    /// How many requests the write before consists of.
    parts_before: u32,
    /// The writes' ticket, once they reach the end of the stripe.
    full: Option<u64>,
    /// The write that they wait for has ended.
    is_due: bool,
    /// Wakes the task that will write them.
    waker: Option<Waker>,
}

/// What became of a write that was to be gathered.
pub(crate) enum Gathered<W> {
    /// It waits with other writes, and another task writes them all.
    Joined,
    /// It is the first: its task must wait until the gather is due and then write the gather.
    First,
    /// The write before it has ended meanwhile.
    Alone(W),
}

/// What else follows when a write joins a gather.
#[derive(Default)]
struct Joined {
    /// The gather now reaches the end of its stripe, with this many requests.
    closed: Option<u32>,
    /// The task to wake.
    waker: Option<Waker>,
}

/// Gathered writes that are due, and their rows.
pub(crate) struct Due<'a, W> {
    pub(crate) bytes: Range<usize>,
    pub(crate) parts: Vec<W>,
    pub(crate) rows: LockRows<'a, W>,
}

/// The state of a gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// There is nothing more to wait for.
    pub(crate) is_complete: bool,
    /// Requests in it.
    pub(crate) parts: u32,
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The write before has ended, or the gather reaches the end of its stripe.
    Due,
    /// The write before has ended and the gather has as many requests as that write, or the gather reaches
    /// the end of its stripe.
    Complete,
}

impl<W> Gather<W> {
    /// The number of requests in it, if it reaches the end of its stripe; else 0.
    pub(super) fn closed_parts(&self) -> u32 {
        self.full.map_or(0, |_| self.parts.len() as u32)
    }

    /// The write that they wait for has ended. Returns the task to wake.
    pub(super) fn make_due(&mut self) -> Option<Waker> {
        self.is_due = true;
        self.waker.take()
    }

    /// Whether there is nothing more to wait for.
    fn is_complete(&self) -> bool {
        self.full.is_some() || self.is_due && self.parts.len() as u32 >= self.parts_before
    }

    fn standing(&self) -> Standing {
        Standing { is_complete: self.is_complete(), parts: self.parts.len() as u32 }
    }
}

impl<W> Bucket<W> {
    fn gather(&mut self, stripe: StripeIndex) -> Option<&mut Gather<W>> {
        self.get(stripe)?.gather()
    }

    /// Several gathered writes end here. A single one is no longer a stream.
    fn expect(&mut self, stripe: StripeIndex, start: usize, parts: u32) {
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

impl<W> RowLocks<W> {
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
    fn with_previous<T>(
        &self,
        stripe: StripeIndex,
        look: impl FnOnce(&mut ActiveStripe<W>, usize) -> Option<T>,
    ) -> Option<T> {
        let previous = StripeIndex(stripe.0.checked_sub(1)?);
        let mut bucket = self.bucket(previous);
        look(bucket.get(previous)?, self.gathers?)
    }

    /// Gathers a write that lies behind one under way.
    pub(crate) fn gather(&self, place: &Place, part: W) -> Gathered<W> {
        let looks_back = place.leads && place.bytes.start == 0;
        // The write that ends the stripe before must be told before this write decides to wait for it.
        let before =
            looks_back.then(|| self.with_previous(place.stripe, ActiveStripe::wait_in_next)).flatten();
        let (gathered, joined) = self.join(place, part, before);
        let will_be_due = || self.with_previous(place.stripe, |a, _| a.is_waited_for_in_next().then_some(()));
        // That write may have ended between the two looks, while there was no task to wake.
        if before.is_some() && matches!(gathered, Gathered::First) && will_be_due().is_none() {
            self.make_due(place.stripe);
        }
        if let Some(parts) = joined.closed {
            let next = StripeIndex(place.stripe.0 + 1);
            self.bucket(next).expect(next, 0, parts);
        }
        joined.waker.into_iter().for_each(Waker::wake);
        gathered
    }

    /// Joins a gather or begins one: behind the stripe before, behind a write of this stripe, or where a
    /// stream was expected to continue.
    fn join(&self, place: &Place, part: W, before: Option<u32>) -> (Gathered<W>, Joined) {
        let Place { stripe, bytes, .. } = place;
        let mut bucket = self.bucket(*stripe);
        let expected =
            bucket.expected.take_if(|expected| expected.is_at(place)).map(|expected| expected.parts.get());
        let active = bucket.active(*stripe);
        let before = before.or_else(|| active.parts_before(bytes.start));
        let (mut gather, gathered) = match (active.take_gather(), before.max(expected)) {
            (Some(mut gather), _) if gather.bytes.end == bytes.start => {
                gather.bytes.end = bytes.end;
                gather.parts.push(part);
                (gather, Gathered::Joined)
            }
            (None, Some(parts_before)) => {
                let (bytes, parts, is_due) = (bytes.clone(), vec![part], before.is_none());
                let gather = Gather { bytes, parts, parts_before, full: None, is_due, waker: None };
                (gather, Gathered::First)
            }
            (other, _) => {
                // If the stripe before was told that a task waits, it wakes no task, or wakes one too early.
                other.into_iter().for_each(|gather| active.set_gather(gather));
                bucket.forget_idle(*stripe);
                return (Gathered::Alone(part), Joined::default());
            }
        };
        let closed = (self.gathers == Some(bytes.end)).then_some(gather.parts.len() as u32);
        gather.full = closed.map(|parts| active.close(bytes.end, parts));
        let waker = if gather.is_complete() { gather.waker.take() } else { None };
        active.set_gather(gather);
        (gathered, Joined { closed, waker })
    }

    /// The write that a stripe's gather waited for has ended.
    pub(super) fn make_due(&self, stripe: StripeIndex) {
        let waker = self.bucket(stripe).gather(stripe).and_then(Gather::make_due);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits for the gather of a stripe. Only the task that must write the gather calls this.
    pub(crate) fn wait_for_gather(&self, stripe: StripeIndex, until: Until) -> WaitForGather<'_, W> {
        WaitForGather { locks: self, stripe, until }
    }

    /// The state of a stripe's gather, and whether the wait is over. If not, notes the waiting task.
    fn look_at_gather(&self, stripe: StripeIndex, until: Until, waker: &Waker) -> (Standing, bool) {
        let mut bucket = self.bucket(stripe);
        let gather = bucket.gather(stripe).expect("a gather stays until it is taken");
        let is_there = gather.is_complete() || until == Until::Due && gather.is_due;
        gather.waker = (!is_there).then(|| waker.clone());
        (gather.standing(), is_there)
    }

    /// The state of a stripe's gather now.
    pub(crate) fn gather_standing(&self, stripe: StripeIndex) -> Standing {
        self.bucket(stripe).gather(stripe).expect("a gather stays until it is taken").standing()
    }

    /// Takes the gathered writes, to write them once their rows are locked.
    pub(crate) fn take_gather(
        &self,
        stripe: StripeIndex,
        rows: impl FnOnce(Range<usize>) -> RowSet,
    ) -> Due<'_, W> {
        let mut bucket = self.bucket(stripe);
        let active = bucket.active(stripe);
        let gather = active.take_gather().expect("a gather stays until it is taken");
        let Gather { bytes, parts, full: ticket, .. } = gather;
        let (rows, end) = (rows(bytes.clone()), Some(bytes.end));
        let wanted = Wanted { stripe, rows, parts: parts.len() as u32, end, ticket };
        let (claim, _) = active.take_or_queue(&wanted, Waker::noop());
        if ticket.is_none() {
            bucket.expect(stripe, bytes.end, wanted.parts);
        }
        let rows = LockRows { locks: self, wanted, state: LockState::Queued(claim) };
        Due { bytes, parts, rows }
    }
}

/// The future of [`RowLocks::wait_for_gather`].
pub(crate) struct WaitForGather<'a, W> {
    locks: &'a RowLocks<W>,
    stripe: StripeIndex,
    until: Until,
}

impl<W> Future for WaitForGather<'_, W> {
    type Output = Standing;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Standing> {
        let (standing, is_there) = self.locks.look_at_gather(self.stripe, self.until, cx.waker());
        if is_there { Poll::Ready(standing) } else { Poll::Pending }
    }
}
