//! Row locks: writes to different rows of one stripe run together; waiting is a future, never a blocked thread.
//!
//! A table of buckets holds the active stripes; each has a bit set of locked rows and a queue. The queue is first
//! come, first served where rows overlap, so that a rebuild that wants a whole stripe is not starved by small
//! writes. No lock but the row bits is held across I/O.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use stripewise_device::sync::seam::Mutex;

use crate::{geometry::StripeIndex, locking::StripeLocks, mutants, rows::RowSet};

/// Buckets of the table: enough that two of the requests in flight rarely share one.
const BUCKETS_DEFAULT: usize = 1024;

/// The table of locked rows.
pub(crate) struct RowLocks {
    buckets: Box<[Mutex<Bucket>]>,
}

/// Active stripes with the same hash.
#[derive(Default)]
struct Bucket(Vec<ActiveStripe>);

impl Bucket {
    fn index(&self, stripe: StripeIndex) -> Option<usize> {
        self.0.iter().position(|active| active.stripe == stripe)
    }

    fn active(&mut self, stripe: StripeIndex) -> &mut ActiveStripe {
        let index = self.index(stripe).unwrap_or_else(|| {
            self.0.push(ActiveStripe::new(stripe));
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// Takes rows if they are free.
    fn take(&mut self, stripe: StripeIndex, rows: &RowSet) -> bool {
        let active = self.active(stripe);
        let is_free = active.is_free(rows);
        if is_free {
            active.held |= *rows;
        }
        is_free
    }
}

struct ActiveStripe {
    stripe: StripeIndex,
    held: RowSet,
    queue: VecDeque<Waiter>,
    next_ticket: u64,
}

struct Waiter {
    ticket: u64,
    rows: RowSet,
    waker: Waker,
}

impl ActiveStripe {
    fn new(stripe: StripeIndex) -> Self {
        Self { stripe, held: RowSet::EMPTY, queue: VecDeque::new(), next_ticket: 0 }
    }

    fn is_free(&self, rows: &RowSet) -> bool {
        !self.held.intersects(rows) && !self.queue.iter().any(|w| w.rows.intersects(rows))
    }

    /// Gives rows to waiters, oldest first, none past an older one that it overlaps.
    fn grant(&mut self, wakers: &mut Vec<Waker>) {
        let mut blocked = self.held;
        let mut granted = RowSet::EMPTY;
        self.queue.retain(|waiter| {
            let free = !blocked.intersects(&waiter.rows);
            blocked |= waiter.rows;
            if free {
                granted |= waiter.rows;
                wakers.push(waiter.waker.clone());
            }
            !free
        });
        debug_assert!(!self.held.intersects(&granted), "rows are granted to one holder at a time");
        self.held |= granted;
    }
}

impl Default for RowLocks {
    fn default() -> Self {
        Self::with_buckets(BUCKETS_DEFAULT)
    }
}

impl RowLocks {
    pub(crate) fn new(locks: StripeLocks) -> Self {
        match locks {
            StripeLocks::Few(count) => Self::with_buckets(count as usize),
            StripeLocks::PerBucket => Self::default(),
        }
    }

    /// A table with the given number of buckets (rounded up to a power of two).
    pub(crate) fn with_buckets(buckets: usize) -> Self {
        Self { buckets: (0..buckets.max(1).next_power_of_two()).map(|_| Mutex::default()).collect() }
    }

    /// Locks rows of a stripe. Dropping the guard unlocks them.
    pub(crate) fn lock(&self, stripe: StripeIndex, rows: RowSet) -> LockRows<'_> {
        let stripe = StripeIndex(mutants::lock_key(stripe.0));
        LockRows { locks: self, stripe, rows, state: LockState::New }
    }

    /// Locks rows of a stripe, if nobody has them or waits for them.
    pub(crate) fn try_lock(&self, stripe: StripeIndex, rows: RowSet) -> Option<RowGuard<'_>> {
        let stripe = StripeIndex(mutants::lock_key(stripe.0));
        let taken = self.bucket(stripe).lock().take(stripe, &rows);
        taken.then(|| RowGuard { locks: self, stripe, rows })
    }

    /// Goes on with rows that were [kept](RowGuard::keep).
    pub(crate) fn resume(&self, kept: KeptRows) -> RowGuard<'_> {
        RowGuard { locks: self, stripe: kept.stripe, rows: kept.rows }
    }

    fn bucket(&self, stripe: StripeIndex) -> &Mutex<Bucket> {
        // Fibonacci hashing: neighbouring stripes spread over the buckets.
        let hash = stripe.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    /// Takes rows if they are free, else queues.
    fn acquire(&self, stripe: StripeIndex, rows: RowSet, waker: &Waker) -> Option<u64> {
        let mut bucket = self.bucket(stripe).lock();
        if bucket.take(stripe, &rows) {
            return None;
        }
        let active = bucket.active(stripe);
        active.next_ticket += 1;
        let ticket = active.next_ticket;
        active.queue.push_back(Waiter { ticket, rows, waker: waker.clone() });
        Some(ticket)
    }

    /// Whether a ticket is still in the queue; renews its waker.
    fn still_waits(&self, stripe: StripeIndex, ticket: u64, waker: &Waker) -> bool {
        let mut bucket = self.bucket(stripe).lock();
        let queued = bucket
            .0
            .iter_mut()
            .find(|a| a.stripe == stripe)
            .and_then(|active| active.queue.iter_mut().find(|w| w.ticket == ticket));
        queued.is_some_and(|waiter| {
            waiter.waker.clone_from(waker);
            true
        })
    }

    /// Changes an active stripe, serves its queue and forgets it when nothing is left.
    fn release(&self, stripe: StripeIndex, change: impl FnOnce(&mut ActiveStripe)) {
        let mut wakers = Vec::new();
        {
            let mut bucket = self.bucket(stripe).lock();
            let index = bucket.index(stripe).expect("a held stripe is active");
            let active = &mut bucket.0[index];
            change(active);
            active.grant(&mut wakers);
            if active.held.is_empty() && active.queue.is_empty() {
                bucket.0.swap_remove(index);
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn unlock(&self, stripe: StripeIndex, rows: RowSet) {
        self.release(stripe, |active| {
            debug_assert_eq!(active.held & rows, rows, "only held rows are unlocked");
            active.held = active.held - rows;
        });
    }

    /// A waiter that gives up: if it was granted the rows meanwhile, it gives them back.
    fn give_up(&self, stripe: StripeIndex, rows: RowSet, ticket: u64) {
        self.release(stripe, |active| {
            let queued = active.queue.len();
            active.queue.retain(|w| w.ticket != ticket);
            if active.queue.len() == queued {
                active.held = active.held - rows;
            }
        });
    }
}

enum LockState {
    New,
    Queued(u64),
    Done,
}

/// The future of [`RowLocks::lock`].
pub(crate) struct LockRows<'a> {
    locks: &'a RowLocks,
    stripe: StripeIndex,
    rows: RowSet,
    state: LockState,
}

impl<'a> Future for LockRows<'a> {
    type Output = RowGuard<'a>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RowGuard<'a>> {
        let this = &mut *self;
        let waits = match this.state {
            LockState::New => this.locks.acquire(this.stripe, this.rows, cx.waker()).inspect(|ticket| {
                this.state = LockState::Queued(*ticket);
            }),
            LockState::Queued(ticket) => {
                this.locks.still_waits(this.stripe, ticket, cx.waker()).then_some(ticket)
            }
            LockState::Done => unreachable!("a lock future is polled once when ready"),
        };
        if waits.is_some() {
            return Poll::Pending;
        }
        this.state = LockState::Done;
        Poll::Ready(RowGuard { locks: this.locks, stripe: this.stripe, rows: this.rows })
    }
}

impl Drop for LockRows<'_> {
    fn drop(&mut self) {
        if let LockState::Queued(ticket) = self.state {
            self.locks.give_up(self.stripe, self.rows, ticket);
        }
    }
}

/// Locked rows of one stripe.
pub(crate) struct RowGuard<'a> {
    locks: &'a RowLocks,
    stripe: StripeIndex,
    rows: RowSet,
}

/// Locked rows that somebody else goes on with. Whoever loses them leaves them locked for ever.
#[must_use = "the rows stay locked until they are resumed"]
pub(crate) struct KeptRows {
    stripe: StripeIndex,
    rows: RowSet,
}

impl RowGuard<'_> {
    /// Keeps the rows locked, to be resumed.
    pub(crate) fn keep(self) -> KeptRows {
        let kept = KeptRows { stripe: self.stripe, rows: self.rows };
        std::mem::forget(self);
        kept
    }
}

impl Drop for RowGuard<'_> {
    fn drop(&mut self) {
        self.locks.unlock(self.stripe, self.rows);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, task::noop_waker_ref};

    use super::*;

    const S: StripeIndex = StripeIndex(7);

    fn ready<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        match future.poll_unpin(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn different_rows_run_together_and_the_same_wait() {
        let locks = RowLocks::default();
        let first = ready(&mut locks.lock(S, RowSet::range(0..4))).unwrap();
        assert!(ready(&mut locks.lock(S, RowSet::range(4..8))).is_some());
        let mut waiting = locks.lock(S, RowSet::range(3..5));
        assert!(ready(&mut waiting).is_none());
        drop(first);
        assert!(ready(&mut waiting).is_some());
    }

    #[test]
    fn a_try_takes_what_is_free_and_nothing_else() {
        let locks = RowLocks::default();
        let first = locks.try_lock(S, RowSet::range(0..4)).unwrap();
        assert!(locks.try_lock(S, RowSet::range(3..5)).is_none());
        let second = locks.try_lock(S, RowSet::range(4..8)).unwrap();
        let mut waiting = locks.lock(S, RowSet::range(0..8));
        assert!(ready(&mut waiting).is_none());
        assert!(locks.try_lock(S, RowSet::range(9..10)).is_some());
        let kept = first.keep();
        drop(second);
        assert!(ready(&mut waiting).is_none(), "what was kept is still locked");
        drop(locks.resume(kept));
        assert!(locks.try_lock(S, RowSet::range(0..1)).is_none(), "they go to who waits");
        assert!(ready(&mut waiting).is_some());
    }

    #[test]
    fn a_whole_stripe_is_not_starved() {
        let locks = RowLocks::with_buckets(1);
        let small = ready(&mut locks.lock(S, RowSet::range(0..1))).unwrap();
        let mut whole = locks.lock(S, RowSet::range(0..16));
        assert!(ready(&mut whole).is_none());
        let mut later = locks.lock(S, RowSet::range(5..6));
        assert!(ready(&mut later).is_none(), "row 5 is free but an older waiter wants it");
        drop(small);
        assert!(ready(&mut later).is_none());
        let whole = ready(&mut whole).unwrap();
        drop(whole);
        assert!(ready(&mut later).is_some());
    }

    #[test]
    fn a_dropped_waiter_leaves_nothing_locked() {
        let locks = RowLocks::default();
        let first = ready(&mut locks.lock(S, RowSet::range(0..1))).unwrap();
        let mut never_polled_again = locks.lock(S, RowSet::range(0..1));
        let mut queued = locks.lock(S, RowSet::range(0..1));
        assert!(ready(&mut never_polled_again).is_none() && ready(&mut queued).is_none());
        drop(first);
        drop(never_polled_again);
        assert!(ready(&mut queued).is_some());
        assert!(locks.buckets.iter().all(|b| b.lock().0.is_empty()), "idle stripes are forgotten");
    }
}
