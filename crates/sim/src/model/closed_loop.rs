//! A disk model alone under a host that keeps a number of requests under way: no executor, no device, no
//! engine.
//!
//! For what concerns the model only: its tests, its validation. It is several times as fast as a
//! [`World`](crate::World).

use slab::Slab;
use stripewise_device::Timestamp;

use super::{DiskModel, ModelOp, ModelRequest};

/// One request: what, offset and length in bytes.
pub type Asked = (ModelOp, u64, u64);

/// A host and its disk.
pub struct ClosedLoop<M> {
    /// The disk.
    pub model: M,
    now: Timestamp,
    /// Requests under way, by id: when they were sent, and their bytes.
    under_way: Slab<(Timestamp, u64)>,
    done: Vec<(u64, Timestamp)>,
}

/// What completed within some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it took.
    pub elapsed_ns: u64,
    /// Sum of the requests' latencies.
    pub latency_ns_sum: u64,
    /// The longest latency.
    pub latency_ns_max: u64,
}

impl Window {
    /// Requests a second.
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 * 1e9 / self.elapsed_ns as f64
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.elapsed_ns as f64
    }

    /// Mean latency of a request.
    pub fn latency_ns(&self) -> f64 {
        self.latency_ns_sum as f64 / self.requests as f64
    }
}

impl<M: DiskModel> ClosedLoop<M> {
    /// Nothing is under way, at time 0.
    pub fn new(model: M) -> Self {
        Self { model, now: Timestamp(0), under_way: Slab::new(), done: Vec::new() }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Sends one request now.
    pub fn send(&mut self, (op, offset_bytes, len_bytes): Asked) {
        let id = self.under_way.insert((self.now, len_bytes)) as u64;
        self.model.submit(self.now, ModelRequest { id, op, offset_bytes, len_bytes });
    }

    /// Lets the disk come to its next completions, and counts them.
    ///
    /// # Panics
    /// If nothing is under way.
    pub fn wait(&mut self, window: &mut Window) {
        while self.done.is_empty() {
            self.now = self.model.next_event().expect("requests under way come to an end");
            self.model.advance(self.now, &mut self.done);
        }
        for (id, at) in self.done.drain(..) {
            let (sent, bytes) = self.under_way.remove(id as usize);
            let latency_ns = at.0 - sent.0;
            window.requests += 1;
            window.bytes += bytes;
            window.latency_ns_sum += latency_ns;
            window.latency_ns_max = window.latency_ns_max.max(latency_ns);
        }
    }

    /// Sends requests from `asked`, `depth` at a time, for a time or until there are no more. What is under
    /// way then stays so.
    pub fn run_for(&mut self, time_ns: u64, depth: usize, asked: &mut impl Iterator<Item = Asked>) -> Window {
        let begin = self.now.0;
        let mut window = Window::default();
        while self.now.0 - begin < time_ns {
            while self.under_way.len() < depth {
                match asked.next() {
                    Some(one) => self.send(one),
                    None => break,
                }
            }
            if self.under_way.is_empty() {
                break;
            }
            self.wait(&mut window);
        }
        window.elapsed_ns = self.now.0 - begin;
        window
    }

    /// Sends all of `asked`, `depth` at a time, and waits for the last.
    pub fn run(&mut self, depth: usize, asked: impl IntoIterator<Item = Asked>) -> Window {
        self.run_for(u64::MAX, depth, &mut asked.into_iter())
    }

    /// Lets everything that the disk does by itself come to an end.
    pub fn settle(&mut self) {
        while let Some(next) = self.model.next_event() {
            self.now = next;
            self.model.advance(next, &mut self.done);
        }
        for (id, _) in self.done.drain(..) {
            self.under_way.remove(id as usize);
        }
    }
}
