//! What one connection may have under way: requests, and bytes of their data.
//!
//! A connection first takes from a small reserve of its own, then from the pool that all connections share
//! (`pool.rs`): so a few small requests never wait for other connections, whatever these hold.
//!
//! The receiver takes a ticket before it takes a request's data or starts it, and the ticket is held until
//! the reply is sent. So once a client that reads no replies has used up its budget, the server stops reading
//! from it.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::pool::Pool;
use crate::nbd::limits::CONNECTION_RESERVE_BYTES;

/// What a connection holds, and has held at most.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) requests: u64,
    pub(super) peak_bytes: u64,
    pub(super) peak_requests: u64,
}

impl Held {
    /// The higher peaks of two connections, neither of which holds anything any more.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            bytes: 0,
            requests: 0,
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            peak_requests: self.peak_requests.max(other.peak_requests),
        }
    }
}

#[derive(Debug, Default)]
struct Use {
    bytes: u64,
    /// Of these, bytes from its own reserve.
    reserve_bytes: u64,
    requests: u32,
    peak_bytes: u64,
    peak_requests: u32,
    /// Of these, bytes still waited for: the connection has room, and the pool has none.
    waiting_bytes: u64,
    /// The receiver, waiting for room or for the end of all.
    waiting: Option<Waker>,
}

impl Use {
    fn take(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
        self.peak_requests = self.peak_requests.max(self.requests);
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }

    /// Takes from the reserve, if enough is left.
    fn take_reserve(&mut self, bytes: u64) -> bool {
        let fits = self.reserve_bytes + bytes <= CONNECTION_RESERVE_BYTES;
        self.reserve_bytes += if fits { bytes } else { 0 };
        fits
    }
}

/// The budget of one connection.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    requests_max: u32,
    pool: Arc<Pool>,
    used: Mutex<Use>,
}

impl Budget {
    pub(super) fn new(bytes_max: u64, requests_max: u32, pool: Arc<Pool>) -> Arc<Self> {
        Arc::new(Self { bytes_max, requests_max, pool, used: Mutex::default() })
    }

    pub(super) fn held(&self) -> Held {
        let used = self.used.lock();
        Held {
            bytes: used.bytes - used.waiting_bytes,
            requests: u64::from(used.requests),
            peak_bytes: used.peak_bytes,
            peak_requests: u64::from(used.peak_requests),
        }
    }

    /// As [`Budget::acquire`], if there is room already.
    pub(super) fn acquire_at_once(self: &Arc<Self>, bytes: u64) -> Option<Ticket> {
        self.acquire(bytes).now_or_never()
    }

    /// Waits for room. One task at a time may wait: the connection's receiver.
    pub(super) async fn acquire(self: &Arc<Self>, bytes: u64) -> Ticket {
        assert!(bytes <= self.bytes_max, "no single request is larger than the budget");
        let from_reserve = poll_fn(|cx| {
            let mut used = self.used.lock();
            if used.requests < self.requests_max && used.bytes + bytes <= self.bytes_max {
                used.take(bytes);
                return Poll::Ready(used.take_reserve(bytes));
            }
            used.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        let mut ticket = Ticket { budget: self.clone(), bytes, source: Source::Reserve };
        if !from_reserve {
            ticket.source = Source::None;
            self.used.lock().waiting_bytes = bytes;
            self.pool.take(bytes).await;
            self.used.lock().waiting_bytes = 0;
            ticket.source = Source::Pool;
        }
        ticket
    }

    /// Whether its receiver waits for memory that others hold, not for its own room.
    pub(super) fn waits_for_others(&self) -> bool {
        self.used.lock().waiting_bytes > 0
    }

    /// Waits until every ticket is back: all requests answered, all answers sent or given up.
    pub(super) async fn drained(&self) {
        poll_fn(|cx| {
            let mut used = self.used.lock();
            if used.requests == 0 {
                return Poll::Ready(());
            }
            used.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn release(&self, bytes: u64, source: Source, requests: u32) {
        if source == Source::Pool {
            self.pool.give_back(bytes);
        }
        let waiting = {
            let mut used = self.used.lock();
            used.bytes -= bytes;
            used.reserve_bytes -= if source == Source::Reserve { bytes } else { 0 };
            used.requests -= requests;
            if source == Source::None {
                used.waiting_bytes = 0;
            }
            used.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Where a ticket's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The connection's own reserve.
    Reserve,
    /// The pool that all share.
    Pool,
    /// Still waited for.
    None,
}

/// One request's share, given back when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    budget: Arc<Budget>,
    bytes: u64,
    source: Source,
}

impl Ticket {
    /// Returns the bytes early: the data is written and its buffer free; only the reply has to be sent.
    pub(super) fn release_bytes(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.budget.release(bytes, self.source, 0);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.budget.release(self.bytes, self.source, 1);
    }
}
