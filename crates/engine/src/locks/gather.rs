//! Writes that lie one behind the other wait together for the write before them and are then written as one.
//! So small sequential writes become whole stripes, which need no reads, without a cache.
//!
//! A lone write does not wait. A write is gathered if it begins where a write under way ends, and at least
//! [`STREAM_PARTS`](super::table::STREAM_PARTS) requests are under way in that write's stripe and the stripes before. It is also gathered
//! if it begins where several gathered writes have ended and no write has followed yet: their clients are
//! about to send more.
//!
//! The write before may be in the same stripe or end the stripe before. A gather is due when the write before
//! has ended, or when the gather reaches the end of its stripe. A gather waits only for claims, and claims
//! never wait for a gather. So no gather can wait for itself.

use std::{
    future::Future,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::{
    claim::{Place, Wanted},
    rows::{LockRows, LockState},
    stream::{Gather, Standing},
    stripe::ActiveStripe,
    table::RowLocks,
};
use crate::shape::{geometry::StripeIndex, rows::RowSet};

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

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The write before has ended, or the gather reaches the end of its stripe.
    Due,
    /// The write before has ended and the gather has as many requests as that write, or the gather reaches
    /// the end of its stripe.
    Complete,
}

impl<W> RowLocks<W> {
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
