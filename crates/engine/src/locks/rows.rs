//! Rows of stripes, locked: futures that wait for them, and guards that hold them.

use std::{
    future::Future,
    ops::RangeInclusive,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use stripewise_device::parts::{self, within};

use super::{
    claim::{Claim, Place, Wanted},
    stream::Before,
    stripe::ActiveStripe,
    table::RowLocks,
};
use crate::{
    mutants,
    shape::{geometry::StripeIndex, rows::RowSet},
};

/// What a write gets when it asks for its rows.
pub(crate) enum Entry<'a, W> {
    /// It holds them.
    Had(RowGuard<'a, W>),
    /// Other requests hold them or wait for them.
    Busy,
    /// None yet: it lies behind a write under way and must be gathered.
    Behind,
}

impl<W> RowLocks<W> {
    /// Locks rows of a stripe. Dropping the guard unlocks them.
    pub(crate) fn lock(&self, stripe: StripeIndex, rows: RowSet) -> LockRows<'_, W> {
        self.lock_wanted(Wanted { stripe, rows, parts: 0, end: None, ticket: None })
    }

    /// Locks rows of a stripe, if no request holds them or waits for them.
    pub(crate) fn try_lock(&self, stripe: StripeIndex, rows: RowSet) -> Option<RowGuard<'_, W>> {
        let _part = within(parts::Part::StripeLock);
        let stripe = StripeIndex(mutants::lock_key(stripe.0));
        let wanted = Wanted { stripe, rows, parts: 0, end: None, ticket: None };
        let claim = self.bucket(stripe).active(stripe).take(&wanted)?;
        Some(RowGuard { locks: self, claim })
    }

    /// As [`RowLocks::lock`], for a write.
    pub(crate) fn lock_write(&self, place: &Place, rows: RowSet) -> LockRows<'_, W> {
        self.lock_wanted(Wanted::write(place, rows))
    }

    fn lock_wanted(&self, wanted: Wanted) -> LockRows<'_, W> {
        let stripe = StripeIndex(mutants::lock_key(wanted.stripe.0));
        LockRows { locks: self, wanted: Wanted { stripe, ..wanted }, state: LockState::New }
    }

    /// Locks rows for a write, if no request holds them or waits for them and the write need not be gathered.
    #[inline(always)]
    pub(crate) fn enter(&self, place: &Place, rows: RowSet) -> Entry<'_, W> {
        let _part = within(parts::Part::StripeLock);
        let may_wait = self.may_gather(place);
        if may_wait && place.bytes.start == 0 && self.is_stream(place, 0) {
            return Entry::Behind;
        }
        let stripe = StripeIndex(mutants::lock_key(place.stripe.0));
        let mut bucket = self.bucket(stripe);
        if may_wait {
            match bucket.before(place) {
                Before::Nothing => {}
                Before::Stream => return Entry::Behind,
                Before::Some(parts) => {
                    drop(bucket);
                    if self.is_stream(place, parts) {
                        return Entry::Behind;
                    }
                    bucket = self.bucket(stripe);
                }
            }
        }
        match bucket.active(stripe).take(&Wanted { stripe, ..Wanted::write(place, rows) }) {
            Some(claim) => Entry::Had(RowGuard { locks: self, claim }),
            None => Entry::Busy,
        }
    }

    /// Takes up rows that were [kept](RowGuard::keep).
    pub(crate) fn resume(&self, kept: KeptRows) -> RowGuard<'_, W> {
        RowGuard { locks: self, claim: kept.0 }
    }

    /// Takes rows if they are free, else queues. Returns the claim and whether it must wait.
    fn acquire(&self, wanted: &Wanted, waker: &Waker) -> (Claim, bool) {
        let _part = within(parts::Part::StripeLock);
        let mut bucket = self.bucket(wanted.stripe);
        bucket.active(wanted.stripe).take_or_queue(wanted, waker)
    }

    /// Whether a claim is still in the queue; renews its waker.
    fn still_waits(&self, claim: &Claim, waker: &Waker) -> bool {
        let _part = within(parts::Part::StripeLock);
        let mut bucket = self.bucket(claim.stripe);
        let active = bucket.get(claim.stripe);
        let queued =
            active.and_then(|active| active.queue().iter_mut().find(|w| w.claim.ticket == claim.ticket));
        queued.is_some_and(|waiter| {
            waiter.waker.clone_from(waker);
            true
        })
    }

    /// Changes an active stripe as a claim ends, serves the queue, and forgets the stripe if nothing is left.
    fn release(&self, claim: &Claim, change: impl FnOnce(&mut ActiveStripe<W>)) {
        let mut wakers = Vec::new();
        let is_next_due = {
            let mut bucket = self.bucket(claim.stripe);
            let active = bucket.get(claim.stripe).expect("a held stripe is active");
            change(active);
            let is_next_due = active.end(claim, &mut wakers);
            active.grant(&mut wakers);
            bucket.forget_idle(claim.stripe);
            is_next_due
        };
        if is_next_due && !mutants::lives(mutants::Mutant::GatheredNotWoken) {
            self.make_due(StripeIndex(claim.stripe.0 + 1));
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn unlock(&self, claim: &Claim) {
        let _part = within(parts::Part::StripeLock);
        self.release(claim, |active| {
            debug_assert_eq!(active.held & claim.rows, claim.rows, "only held rows are unlocked");
            active.held = active.held - claim.rows;
        });
    }

    /// A waiter gives up. If it was granted the rows meanwhile, it gives them back.
    fn give_up(&self, claim: &Claim) {
        self.release(claim, |active| {
            let queue = active.queue();
            let queued = queue.len();
            queue.retain(|w| w.claim.ticket != claim.ticket);
            if queue.len() == queued {
                active.held = active.held - claim.rows;
            }
        });
    }
}

pub(super) enum LockState {
    New,
    Queued(Claim),
    Done,
}

/// The future of [`RowLocks::lock`].
pub(crate) struct LockRows<'a, W> {
    pub(super) locks: &'a RowLocks<W>,
    pub(super) wanted: Wanted,
    pub(super) state: LockState,
}

impl<'a, W> Future for LockRows<'a, W> {
    type Output = RowGuard<'a, W>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RowGuard<'a, W>> {
        let (claim, waits) = match self.state {
            LockState::New => self.locks.acquire(&self.wanted, cx.waker()),
            LockState::Queued(claim) => (claim, self.locks.still_waits(&claim, cx.waker())),
            LockState::Done => unreachable!("a lock future is polled once when ready"),
        };
        if waits {
            self.state = LockState::Queued(claim);
            return Poll::Pending;
        }
        self.state = LockState::Done;
        Poll::Ready(RowGuard { locks: self.locks, claim })
    }
}

impl<W> Drop for LockRows<'_, W> {
    fn drop(&mut self) {
        if let LockState::Queued(claim) = self.state {
            self.locks.give_up(&claim);
        }
    }
}

/// Locked rows of one stripe.
pub(crate) struct RowGuard<'a, W> {
    locks: &'a RowLocks<W>,
    claim: Claim,
}

/// Locked rows with which another task continues. If this is lost, the rows stay locked forever.
#[must_use = "the rows stay locked until they are resumed"]
pub(crate) struct KeptRows(Claim);

impl<W> RowGuard<'_, W> {
    /// Checks that consecutive rows of the stripe are locked, because what follows relies on it. The first
    /// and the last row are always checked, those between only with debug assertions.
    ///
    /// # Panics
    /// If a checked row is not locked.
    #[inline]
    pub(crate) fn assert_holds(&self, stripe: StripeIndex, rows: RangeInclusive<usize>) {
        let Claim { stripe: own, rows: held, .. } = &self.claim;
        let is_held = |row: &usize| held.contains(*row) || mutants::lives(mutants::Mutant::WideRowsUnseen);
        let is_here = own.0 == mutants::lock_key(stripe.0);
        assert!(
            is_here && is_held(rows.start()) && is_held(rows.end()),
            "rows are written only while locked"
        );
        debug_assert!(rows.clone().all(|row| is_held(&row)), "rows are written only while locked");
    }

    /// Keeps the rows locked, for [`RowLocks::resume`].
    pub(crate) fn keep(self) -> KeptRows {
        let kept = KeptRows(self.claim);
        std::mem::forget(self);
        kept
    }
}

impl<W> Drop for RowGuard<'_, W> {
    fn drop(&mut self) {
        self.locks.unlock(&self.claim);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, task::noop_waker_ref};

    use super::*;

    type Rows = RowLocks<()>;

    const S: StripeIndex = StripeIndex(7);

    fn enter(locks: &Rows, rows: std::ops::Range<usize>) -> Option<RowGuard<'_, ()>> {
        let place = Place { stripe: S, bytes: 0..512, leads: true };
        match locks.enter(&place, RowSet::range(rows)) {
            Entry::Had(guard) => Some(guard),
            Entry::Busy => None,
            Entry::Behind => unreachable!("this table gathers nothing"),
        }
    }

    fn ready<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        match future.poll_unpin(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn different_rows_run_together_and_the_same_wait() {
        let locks = Rows::default();
        let first = ready(&mut locks.lock(S, RowSet::range(0..4))).unwrap();
        assert!(ready(&mut locks.lock(S, RowSet::range(4..8))).is_some());
        let mut waiting = locks.lock(S, RowSet::range(3..5));
        assert!(ready(&mut waiting).is_none());
        drop(first);
        assert!(ready(&mut waiting).is_some());
    }

    #[test]
    fn a_try_takes_what_is_free_and_nothing_else() {
        let locks = Rows::default();
        let first = enter(&locks, 0..4).unwrap();
        assert!(enter(&locks, 3..5).is_none());
        let second = enter(&locks, 4..8).unwrap();
        let mut waiting = locks.lock(S, RowSet::range(0..8));
        assert!(ready(&mut waiting).is_none());
        assert!(enter(&locks, 9..10).is_some());
        let kept = first.keep();
        drop(second);
        assert!(ready(&mut waiting).is_none(), "what was kept is still locked");
        drop(locks.resume(kept));
        assert!(enter(&locks, 0..1).is_none(), "they go to who waits");
        assert!(ready(&mut waiting).is_some());
    }

    #[test]
    fn a_whole_stripe_is_not_starved() {
        let locks = Rows::with_buckets(1);
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
    fn stripes_that_share_a_bucket_are_found_and_forgotten_in_any_order() {
        let rows = RowSet::range(0..1);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let locks = Rows::with_buckets(1);
            let mut held: Vec<_> = (0..3).map(|n| ready(&mut locks.lock(StripeIndex(n), rows))).collect();
            assert!(held.iter().all(Option::is_some));
            for index in order {
                let mut waiting = locks.lock(StripeIndex(index as u64), rows);
                assert!(ready(&mut waiting).is_none());
                held[index] = None;
                assert!(ready(&mut waiting).is_some(), "{order:?}");
            }
            assert!(locks.is_idle(), "{order:?}");
        }
    }

    #[test]
    fn a_dropped_waiter_leaves_nothing_locked() {
        let locks = Rows::default();
        let first = ready(&mut locks.lock(S, RowSet::range(0..1))).unwrap();
        let mut never_polled_again = locks.lock(S, RowSet::range(0..1));
        let mut queued = locks.lock(S, RowSet::range(0..1));
        assert!(ready(&mut never_polled_again).is_none() && ready(&mut queued).is_none());
        drop(first);
        drop(never_polled_again);
        assert!(ready(&mut queued).is_some());
        assert!(locks.is_idle(), "idle stripes are forgotten");
    }
}
