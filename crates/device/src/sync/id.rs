//! Numbers unique in this process, for all its life. Not part of the seam: no order between threads depends
//! on them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that was never given before.
pub(super) fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
