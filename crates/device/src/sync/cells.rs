//! Which of a small number of cells is a thread's own.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The first threads of the process have cells of their own. Loom's threads are one to the standard library: none has.
const OWN: usize = if cfg!(feature = "loom") { 0 } else { 32 };
/// All others share these.
const SHARED: usize = if cfg!(feature = "loom") { 1 } else { 8 };
/// Cells.
pub(super) const CELLS: usize = OWN + SHARED;

/// Threads seen so far.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: usize = {
        let thread = THREADS.fetch_add(1, Relaxed);
        if thread < OWN { thread } else { OWN + thread % SHARED }
    };
}

/// This thread's cell, and whether no other thread writes to it.
#[inline]
pub(super) fn my_cell() -> (usize, bool) {
    let mine = MINE.with(|mine| *mine);
    (mine, mine < OWN)
}
