//! What one connection may have under way: requests, and bytes of their data.
//!
//! The receiver takes a ticket before it takes a request's data or starts it, and the ticket is held until the reply
//! is sent. A client that reads no replies therefore is not read from any more once its budget is used up.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use parking_lot::Mutex;

/// What a connection holds, and has held at most.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) peak_bytes: u64,
    pub(super) peak_requests: u64,
}

impl Held {
    /// The higher peaks of two connections, of which neither holds anything any more.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            bytes: 0,
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            peak_requests: self.peak_requests.max(other.peak_requests),
        }
    }
}

#[derive(Debug, Default)]
struct Use {
    bytes: u64,
    requests: u32,
    peak_bytes: u64,
    peak_requests: u32,
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
}

/// The budget of one connection.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    requests_max: u32,
    used: Mutex<Use>,
}

impl Budget {
    pub(super) fn new(bytes_max: u64, requests_max: u32) -> Arc<Self> {
        Arc::new(Self { bytes_max, requests_max, used: Mutex::default() })
    }

    pub(super) fn held(&self) -> Held {
        let used = self.used.lock();
        Held { bytes: used.bytes, peak_bytes: used.peak_bytes, peak_requests: u64::from(used.peak_requests) }
    }

    /// Waits for room. One task at a time may wait: the connection's receiver.
    pub(super) async fn acquire(self: &Arc<Self>, bytes: u64) -> Ticket {
        assert!(bytes <= self.bytes_max, "no single request is larger than the budget");
        poll_fn(|cx| {
            let mut used = self.used.lock();
            if used.requests < self.requests_max && used.bytes + bytes <= self.bytes_max {
                used.take(bytes);
                return Poll::Ready(());
            }
            used.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Ticket { budget: self.clone(), bytes }
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

    fn release(&self, bytes: u64, requests: u32) {
        let waiting = {
            let mut used = self.used.lock();
            used.bytes -= bytes;
            used.requests -= requests;
            used.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// One request's share, given back when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Ticket {
    /// Gives the bytes back early: the data is written and its buffer free; only the reply is to be sent.
    pub(super) fn release_bytes(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.budget.release(bytes, 0);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.budget.release(self.bytes, 1);
    }
}
