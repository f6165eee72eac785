//! Numbers unique in this process, for all its life. Not part of the seam: no order between threads depends
//! on them.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering},
};

/// A number that was never given before.
pub(super) fn new_id() -> NonZeroU64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed))
}
