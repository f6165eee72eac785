//! Disks on which every request takes as long as on a real one, in virtual time.
//!
//! A [`DiskModel`] is a pure state machine: it knows neither contents nor engine nor executor, only requests
//! and time. [`ModelledDisk`] puts one under the `Device` trait. No model is fitted to a figure that the
//! laboratory claims to reproduce; each parameter names its source.

mod closed_loop;
mod contents;
mod device;
mod drive;
mod epochs;
mod hasher;
pub mod hdd;
mod host;
mod requests;
pub mod ssd;

use std::fmt;

pub use closed_loop::{Asked, ClosedLoop, Window};
pub use contents::Contents;
pub use device::{DiskOptions, ModelledDisk};
use stripewise_device::{MediaKind, Timestamp};

/// Bytes of a sector, the grain of requests.
pub const SECTOR_BYTES: u64 = 512;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelOp {
    /// Bytes to the host.
    Read,
    /// Bytes from the host.
    Write {
        /// Complete only when the data is on the medium.
        fua: bool,
    },
    /// Complete when everything that was complete before is on the medium. Offset and length mean nothing.
    Flush,
    /// The range's content is no longer needed.
    Discard,
}

/// One request to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelRequest {
    /// The caller's name for it, unique among those under way.
    pub id: u64,
    /// What is asked.
    pub op: ModelOp,
    /// Where, in bytes from the disk's start; a multiple of 512.
    pub offset_bytes: u64,
    /// How much, in bytes; a multiple of 512.
    pub len_bytes: u64,
}

/// A disk as a state machine over virtual time.
///
/// Calls come in the order of time: `now` never goes back, neither in `submit` nor in `advance`. `advance` is
/// called for each event that `next_event` has announced, before time passes it.
pub trait DiskModel: Send + 'static {
    /// Usable size in bytes.
    fn capacity_bytes(&self) -> u64;

    /// The medium that operating systems report.
    fn media(&self) -> MediaKind {
        MediaKind::Unknown
    }

    /// A request arrives.
    fn submit(&mut self, now: Timestamp, request: ModelRequest);

    /// When something happens next, if anything is under way.
    fn next_event(&self) -> Option<Timestamp>;

    /// Lets time pass to `now`; the ids of completed requests are appended in completion order, with their
    /// times.
    fn advance(&mut self, now: Timestamp, done: &mut Vec<(u64, Timestamp)>);

    /// What the disk has done so far.
    fn counters(&self) -> ModelCounters;
}

/// What a modelled disk has done: names with values, such as `("seeks", 12)`. Durations are in nanoseconds
/// and say so in the name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelCounters(pub Vec<(&'static str, u64)>);

impl ModelCounters {
    /// The value under a name, if the model counts it.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }
}

impl fmt::Display for ModelCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}
