//! Which of a small number of cells is a thread's own.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Cells. Each of the first threads of the process has one of its own; all others share the last.
pub(super) const CELLS: usize = if cfg!(feature = "loom") { 1 } else { 32 };

/// Threads seen so far.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: usize = THREADS.fetch_add(1, Relaxed).min(CELLS - 1);
}

/// This thread's cell, and whether no other thread writes to it.
#[inline]
pub(super) fn my_cell() -> (usize, bool) {
    // Loom's threads are one to the standard library.
    let mine = if cfg!(feature = "loom") { CELLS - 1 } else { MINE.with(|mine| *mine) };
    (mine, mine < CELLS - 1)
}
