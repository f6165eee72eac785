//! What one connection may have under way: requests, and bytes of their data.
//!
//! The receiver takes a ticket before it takes a request's data or starts it, and the ticket is held until the reply
//! is sent. A client that reads no replies therefore is not read from any more once its budget is used up.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
};

use parking_lot::Mutex;

/// Highest and current use, over all connections; for statistics.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    pub(super) bytes: AtomicU64,
    pub(super) connection_peak_bytes: AtomicU64,
    pub(super) connection_peak_requests: AtomicU64,
}

#[derive(Debug, Default)]
struct Use {
    bytes: u64,
    requests: u32,
    /// The receiver, waiting for room or for the end of all.
    waiting: Option<Waker>,
}

/// The budget of one connection.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    requests_max: u32,
    used: Mutex<Use>,
    gauge: Arc<Gauge>,
}

impl Budget {
    pub(super) fn new(bytes_max: u64, requests_max: u32, gauge: Arc<Gauge>) -> Arc<Self> {
        Arc::new(Self { bytes_max, requests_max, used: Mutex::default(), gauge })
    }

    /// Waits for room. One task at a time may wait: the connection's receiver.
    pub(super) async fn acquire(self: &Arc<Self>, bytes: u64) -> Ticket {
        assert!(bytes <= self.bytes_max, "no single request is larger than the budget");
        poll_fn(|cx| {
            let mut used = self.used.lock();
            if used.requests < self.requests_max && used.bytes + bytes <= self.bytes_max {
                used.requests += 1;
                used.bytes += bytes;
                self.note(&used, bytes);
                return Poll::Ready(());
            }
            used.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Ticket { budget: self.clone(), bytes }
    }

    fn note(&self, used: &Use, bytes: u64) {
        self.gauge.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.gauge.connection_peak_bytes.fetch_max(used.bytes, Ordering::Relaxed);
        self.gauge.connection_peak_requests.fetch_max(u64::from(used.requests), Ordering::Relaxed);
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
        self.gauge.bytes.fetch_sub(bytes, Ordering::Relaxed);
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
