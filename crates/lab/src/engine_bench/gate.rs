//! Where clients wait for each other, so that they all run at the same time.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

use stripewise_device::sync::yield_now;

/// Closed at first.
#[derive(Debug, Default)]
pub(super) struct Gate {
    arrived: AtomicUsize,
    is_open: AtomicBool,
}

impl Gate {
    /// A client arrives, and continues when the gate is open.
    pub(super) async fn pass(&self) {
        self.arrived.fetch_add(1, Relaxed);
        while !self.is_open.load(Relaxed) {
            yield_now().await;
        }
    }

    /// Blocks this thread until so many have arrived.
    pub(super) fn wait_for(&self, count: usize) {
        while self.arrived.load(Relaxed) < count {
            thread::yield_now();
        }
    }

    /// Lets all clients continue.
    pub(super) fn open(&self) {
        self.is_open.store(true, Relaxed);
    }
}
