//! The bytes that all connections of a server share. Each connection has a small reserve besides
//! (`budget.rs`), so that small requests never wait for memory that other connections' large ones hold.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

/// Bytes of data that requests may hold together.
#[derive(Debug)]
pub(super) struct Pool(Mutex<State>);

#[derive(Debug)]
struct State {
    free_bytes: u64,
    /// First come, first served: small requests must not keep passing a large one.
    queue: VecDeque<Waiting>,
    next_number: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    waker: Waker,
}

impl Pool {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free_bytes: bytes, queue: VecDeque::new(), next_number: 0 })))
    }

    /// Waits for a share. Given back with [`Pool::give_back`].
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Take {
        Take { pool: self.clone(), bytes, number: None }
    }

    pub(super) fn give_back(&self, bytes: u64) {
        let next = {
            let mut state = self.0.lock();
            state.free_bytes += bytes;
            state.first_waker()
        };
        next.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn first_waker(&self) -> Option<Waker> {
        self.queue.front().map(|waiting| waiting.waker.clone())
    }
}

/// Waits for a share of a pool. Dropped, it leaves the queue.
#[derive(Debug)]
pub(super) struct Take {
    pool: Arc<Pool>,
    bytes: u64,
    /// Its place in the queue.
    number: Option<u64>,
}

impl Future for Take {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let pool = self.pool.clone();
        let mut state = pool.0.lock();
        let is_first = match self.number {
            None => state.queue.is_empty(),
            Some(number) => state.queue.front().is_some_and(|first| first.number == number),
        };
        if is_first && state.free_bytes >= self.bytes {
            state.free_bytes -= self.bytes;
            if self.number.take().is_some() {
                state.queue.pop_front();
            }
            let next = state.first_waker();
            drop(state);
            next.into_iter().for_each(Waker::wake);
            return Poll::Ready(());
        }
        match self.number {
            None => {
                let number = state.next_number;
                state.next_number += 1;
                state.queue.push_back(Waiting { number, waker: cx.waker().clone() });
                self.number = Some(number);
            }
            Some(number) => {
                let waiting = state.queue.iter_mut().find(|waiting| waiting.number == number);
                waiting.expect("it is queued until it is served").waker.clone_from(cx.waker());
            }
        }
        Poll::Pending
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let next = {
            let mut state = self.pool.0.lock();
            state.queue.retain(|waiting| waiting.number != number);
            state.first_waker()
        };
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, task::noop_waker_ref};

    use super::*;

    fn is_ready(take: &mut Take) -> bool {
        take.poll_unpin(&mut Context::from_waker(noop_waker_ref())).is_ready()
    }

    #[test]
    fn shares_are_given_in_turn_and_what_is_given_back_is_there_again() {
        let pool = Pool::new(100);
        let (mut first, mut large, mut small) = (pool.take(80), pool.take(60), pool.take(10));
        assert!(is_ready(&mut first) && !is_ready(&mut large));
        assert!(!is_ready(&mut small), "there is room, and another came before");
        pool.give_back(80);
        assert!(is_ready(&mut large) && is_ready(&mut small));
        pool.give_back(70);
        assert!(is_ready(&mut pool.take(100)));
    }

    #[test]
    fn one_that_waits_no_more_does_not_keep_the_others() {
        let pool = Pool::new(100);
        let (mut all, mut large, mut small) = (pool.take(90), pool.take(60), pool.take(10));
        assert!(is_ready(&mut all) && !is_ready(&mut large) && !is_ready(&mut small));
        drop(large);
        assert!(is_ready(&mut small));
    }
}
