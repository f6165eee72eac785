//! Keeping memory reclaim from waiting for itself.
//!
//! When memory is short, an allocation may make its thread write dirty pages out. If these belong to the
//! block device that the thread itself serves, the thread waits for itself. PR_SET_IO_FLUSHER tells the
//! kernel that a thread is part of such a path: its allocations start no I/O, and it is not throttled for the
//! dirty pages of others.

use std::{sync::Once, thread};

use stripewise_device::uring::Runtime;

/// Marks the calling thread, and the threads it will start.
fn mark_thread() {
    static WARNED: Once = Once::new();
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        WARNED.call_once(|| {
            tracing::warn!(%error, "cannot mark threads as part of the I/O path: when memory runs out the attached \
                            device may stall; give the process CAP_SYS_RESOURCE");
        });
    }
}

/// Marks every worker of the runtime. They stay so.
pub fn mark_workers(runtime: &Runtime) {
    (0..runtime.workers()).for_each(|worker| runtime.spawn_on(worker, Box::pin(async { mark_thread() })));
}

/// Runs `start` on a marked thread, so that the threads it starts are marked too.
pub fn on_flusher_thread<T: Send>(start: impl FnOnce() -> T + Send) -> T {
    let marked = move || {
        mark_thread();
        start()
    };
    match thread::scope(|scope| scope.spawn(marked).join()) {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
