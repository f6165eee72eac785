//! The write-intent bitmap: which regions may disagree. A mark is durable before the region's first data
//! write.
//!
//! In memory a region is one atomic word. A write to a marked region costs two atomic additions: one when it
//! begins, one when it ends. The first write to a clean region waits until the page is durable. All writes
//! that wait at the same time share one page write. [`Intent::clear_idle`] clears bits lazily, after a flush
//! of the members.
//!
//! A marked region implies a superblock that says so (`resync_offset` 0), written before the page: other md
//! implementations do not know our pages and must not take the array for clean.

pub(crate) mod counters;
pub mod locking;
mod marks;
mod pages;

pub(crate) use marks::{Intent, IntentDisk, IntentGuard, KeptIntent};
pub(crate) use pages::{Holder, Pages};
