//! The write-intent bitmap: which regions may disagree, durable before the first data write of a region.
//!
//! In memory a region is one atomic word, so that a write to a region already marked pays two atomic
//! additions, one when it begins and one when it is through. The first write to a clean region waits for the
//! page to be durable; all that wait at the same time share one page write. Bits are cleared lazily, after a
//! flush of the members, by [`Intent::clear_idle`].
//!
//! A marked region implies a superblock that says so (`resync_offset` 0), written before the page: other md
//! implementations know nothing of our pages and must not take the array for clean.

pub(crate) mod counters;
pub mod locking;
mod marks;
mod pages;

pub(crate) use marks::{Intent, IntentDisk, IntentGuard, KeptIntent};
pub(crate) use pages::{Holder, Pages};
