//! Whether the stride benchmark is under way: it takes long enough for a program to show that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The stride benchmarks of some devices, which run at the same time. Clones tell of the same ones.
#[derive(Debug, Clone, Default)]
pub struct StrideBenches(Arc<AtomicUsize>);

impl StrideBenches {
    /// About the longest that a benchmark takes.
    pub const TIME: Duration = Duration::from_secs(15);

    /// Whether one is under way.
    pub fn are_under_way(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Counts one, until what this returns is dropped.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }
}

/// A benchmark that is counted.
pub(crate) struct UnderWay<'a>(&'a StrideBenches);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
