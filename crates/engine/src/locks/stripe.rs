//! One active stripe: the claims on its rows, the tasks that wait, and the write that later writes lie
//! behind.

use std::{collections::VecDeque, task::Waker};

use super::{
    claim::{Claim, Wanted},
    stream::Gather,
};
use crate::{
    mutants::{Mutant, lives},
    shape::{geometry::StripeIndex, rows::RowSet},
};

/// A stripe with requests under way.
pub(super) struct ActiveStripe<W> {
    pub(super) stripe: StripeIndex,
    pub(super) held: RowSet,
    last_ticket: u64,
    tail: Option<Tail>,
    /// How many client requests have rows here or wait for them.
    parts: u32,
    /// None if no task ever waited, as on most stripes.
    waiting: Option<Box<Waiting<W>>>,
}

/// The tasks and writes that wait at a stripe.
struct Waiting<W> {
    queue: VecDeque<Waiter>,
    /// Writes that wait behind the tail of this stripe or of the one before.
    gather: Option<Gather<W>>,
}

/// A claim that waits for its rows.
pub(super) struct Waiter {
    pub(super) claim: Claim,
    pub(super) waker: Waker,
}

/// The write behind which the next write of a stream would lie: the newest one, or one that other writes wait
/// for.
struct Tail {
    ticket: u64,
    /// Where it ends in the stripe's data bytes.
    end: usize,
    /// How many requests it consists of.
    parts: u32,
    /// Writes gathered in the next stripe wait for it.
    next_waits: bool,
}

impl<W> Default for Waiting<W> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), gather: None }
    }
}

impl<W> ActiveStripe<W> {
    pub(super) fn new(stripe: StripeIndex) -> Self {
        Self { stripe, held: RowSet::EMPTY, last_ticket: 0, tail: None, parts: 0, waiting: None }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty()
            && self.waiting().is_none_or(|waiting| waiting.queue.is_empty() && waiting.gather.is_none())
    }

    fn waiting(&self) -> Option<&Waiting<W>> {
        self.waiting.as_deref()
    }

    pub(super) fn queue(&mut self) -> &mut VecDeque<Waiter> {
        &mut self.waiting.get_or_insert_default().queue
    }

    /// The writes that wait to be gathered.
    pub(super) fn gather(&mut self) -> Option<&mut Gather<W>> {
        self.waiting.as_mut()?.gather.as_mut()
    }

    pub(super) fn take_gather(&mut self) -> Option<Gather<W>> {
        self.waiting.as_mut()?.gather.take()
    }

    pub(super) fn set_gather(&mut self, gather: Gather<W>) {
        self.waiting.get_or_insert_default().gather = Some(gather);
    }

    fn is_free(&self, rows: &RowSet) -> bool {
        let is_wanted = |waiting: &Waiting<W>| waiting.queue.iter().any(|w| w.claim.rows.intersects(rows));
        let waits = self.waiting().is_some_and(is_wanted) && !lives(Mutant::WaitersPassed);
        !self.held.intersects(rows) && !waits
    }

    /// Takes rows if they are free.
    pub(super) fn take(&mut self, wanted: &Wanted) -> Option<Claim> {
        if !self.is_free(&wanted.rows) {
            return None;
        }
        self.held |= wanted.rows;
        Some(self.claim(wanted))
    }

    /// Takes rows if they are free, else queues. Returns the claim and whether it must wait.
    pub(super) fn take_or_queue(&mut self, wanted: &Wanted, waker: &Waker) -> (Claim, bool) {
        if let Some(claim) = self.take(wanted) {
            return (claim, false);
        }
        let claim = self.claim(wanted);
        self.queue().push_back(Waiter { claim, waker: waker.clone() });
        (claim, true)
    }

    fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Notes a claim that holds rows or waits for them.
    fn claim(&mut self, wanted: &Wanted) -> Claim {
        let Wanted { stripe, rows, parts, end, ticket } = *wanted;
        self.parts += parts;
        if let Some(ticket) = ticket {
            return Claim { stripe, rows, ticket, parts };
        }
        let ticket = self.next_ticket();
        // No write replaces a tail that other writes wait for: they would wait for the new tail too, and for
        // the next.
        let is_waited_for = self.waiting().is_some_and(|waiting| waiting.gather.is_some())
            || self.tail.as_ref().is_some_and(|tail| tail.next_waits);
        if let Some(end) = end
            && !is_waited_for
        {
            self.tail = Some(Tail { ticket, end, parts, next_waits: false });
        }
        Claim { stripe, rows, ticket, parts }
    }

    /// The gather reaches the end of the stripe. From now on the next stripe's writes lie behind it. Returns
    /// the ticket that its claim will have.
    pub(super) fn close(&mut self, end: usize, parts: u32) -> u64 {
        let ticket = self.next_ticket();
        // Writes in the next stripe that waited for the old tail wait for this one from now on.
        let next_waits = self.is_waited_for_in_next();
        self.tail = Some(Tail { ticket, end, parts, next_waits });
        ticket
    }

    /// A claim ends. Adds the wakers of the tasks that wait behind it in this stripe. Returns whether a task
    /// waits in the next stripe.
    pub(super) fn end(&mut self, claim: &Claim, wakers: &mut Vec<Waker>) -> bool {
        self.parts -= claim.parts;
        let Some(tail) = self.tail.take_if(|tail| tail.ticket == claim.ticket) else { return false };
        wakers.extend(self.gather().and_then(Gather::make_due));
        tail.next_waits
    }

    /// How many requests the write under way that ends at `end` consists of.
    pub(super) fn parts_before(&self, end: usize) -> Option<u32> {
        self.tail.as_ref().filter(|tail| tail.end == end).map(|tail| tail.parts)
    }

    /// How many requests are under way here.
    pub(super) fn parts(&self) -> u32 {
        let gather = self.waiting().and_then(|waiting| waiting.gather.as_ref());
        self.parts + gather.map_or(0, Gather::closed_parts)
    }

    /// As [`ActiveStripe::parts_before`], for a task in the next stripe that will wait for that write.
    pub(super) fn wait_in_next(&mut self, end: usize) -> Option<u32> {
        let parts = self.parts_before(end)?;
        self.tail.as_mut()?.next_waits = true;
        Some(parts)
    }

    /// Whether a task in the next stripe will be woken.
    pub(super) fn is_waited_for_in_next(&self) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.next_waits)
    }

    /// Gives rows to waiters, oldest first. No waiter passes an older one whose rows overlap its own.
    pub(super) fn grant(&mut self, wakers: &mut Vec<Waker>) {
        let Some(waiting) = &mut self.waiting else { return };
        let mut blocked = self.held;
        let mut granted = RowSet::EMPTY;
        waiting.queue.retain(|Waiter { claim, waker }| {
            let free = !blocked.intersects(&claim.rows);
            blocked |= claim.rows;
            if free {
                granted |= claim.rows;
                wakers.push(waker.clone());
            }
            !free
        });
        debug_assert!(!self.held.intersects(&granted), "rows are granted to one holder at a time");
        self.held |= granted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIPE: StripeIndex = StripeIndex(3);

    fn write(rows: std::ops::Range<usize>, end: usize, ticket: Option<u64>) -> Wanted {
        Wanted { stripe: STRIPE, rows: RowSet::range(rows), parts: 1, end: Some(end), ticket }
    }

    /// Two streams over the same stripe. One had reached its end, and the next stripe waited for that. Then
    /// the other stream closed the stripe, and no task was woken.
    #[test]
    fn who_waits_in_the_next_stripe_is_woken_whoever_closes_this_one() {
        let mut stripe = ActiveStripe::<()>::new(STRIPE);
        let first = stripe.take(&write(0..1, 8192, None)).unwrap();
        assert_eq!(stripe.wait_in_next(8192), Some(1));
        let ticket = stripe.close(8192, 4);
        let second = stripe.take(&write(1..2, 8192, Some(ticket))).unwrap();
        assert!(!stripe.end(&first, &mut Vec::new()), "the one that closed it is still under way");
        assert!(stripe.end(&second, &mut Vec::new()));
    }
}
