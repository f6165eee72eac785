//! What a mounted file system tells of itself, and what of it can be changed. Its root has an extended attribute for it, which no listing
//! shows: so every user who can look into the mount can ask, and no socket is needed.

mod activity;
mod buffer;
mod look;

use std::time::Duration;

pub use activity::{Activity, ParityReport, StripesReport, WrittenReport};
pub use buffer::{BufferReport, ListReport};
pub use look::{BEGIN_LOOK_ATTRIBUTE, LOOK_ATTRIBUTE, Look, LookFound, LookStep};
use serde::{Deserialize, Serialize};
use stripewise_format::rafs::superblock::{SlotOrder, Superblock};
use stripewise_rafs::{
    fs::{Counters, Pace, Stripes, Usage},
    shape::BLOCK_BYTES,
};

/// The root's attribute. Its value is a [`Report`] in JSON. What is set is a [`PaceChange`] in JSON, by root or by the user whose
/// process serves the mount.
pub const ATTRIBUTE: &str = "system.stripewise";

/// Another one of the root, for which each entry of the buffer is looked at. Its value is a [`BufferReport`] in JSON.
pub const BUFFER_ATTRIBUTE: &str = "system.stripewise.buffer";

/// Which file system it is, and which process serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The device or file that it lies on.
    pub target: String,
    /// Its UUID.
    pub uuid: String,
    /// Its label.
    pub label: String,
    /// Data columns of a stripe.
    pub data_columns: u32,
    /// Bytes of a chunk: what a column has of a stripe.
    pub chunk_bytes: u64,
    /// Whether slots are numbered row by row.
    pub by_rows: bool,
    /// The process that serves it.
    pub pid: u32,
    /// The array in whose daemon it is served; none of a device's or a file's.
    #[serde(default)]
    pub array: Option<String>,
}

impl Identity {
    /// That of a file system that this process serves.
    #[must_use]
    pub fn new(target: String, superblock: &Superblock) -> Self {
        Self {
            target,
            uuid: superblock.uuid.to_string(),
            label: superblock.label.clone(),
            data_columns: superblock.data_columns,
            chunk_bytes: u64::from(superblock.rows) * BLOCK_BYTES as u64,
            by_rows: superblock.order == SlotOrder::Rows,
            pid: std::process::id(),
            array: None,
        }
    }
}

/// What a file system tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Who it is.
    #[serde(flatten)]
    pub identity: Identity,
    /// Room for files and metadata, in bytes.
    pub size_bytes: u64,
    /// What files may still take, in bytes.
    pub free_bytes: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// What clients have written and is not written out yet, in bytes.
    pub buffered_bytes: u64,
    /// T_f: it is written out if less of the buffer is free, in percent.
    #[serde(default)]
    pub free_percent: u8,
    /// T_t: what waits for longer is written out, in milliseconds.
    #[serde(default)]
    pub age_ms: u64,
    /// What was done since it was mounted; none if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// How stripes were written since, and how full they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripes: Option<StripesReport>,
}

impl Report {
    /// The same with what was done.
    #[must_use]
    pub fn with(mut self, counters: &Counters, stripes: &Stripes) -> Self {
        self.activity = Some(Activity::of(counters));
        self.stripes = Some(StripesReport::of(counters, stripes));
        self
    }

    /// Of a file system that is this full.
    #[must_use]
    pub fn of(identity: &Identity, usage: &Usage, pace: Pace) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_BYTES as u64);
        Self {
            identity: identity.clone(),
            size_bytes: bytes(usage.blocks),
            free_bytes: bytes(usage.free_blocks),
            inodes: usage.inodes,
            buffered_bytes: bytes(usage.buffered_blocks),
            free_percent: pace.free_percent,
            age_ms: u64::try_from(pace.age.as_millis()).unwrap_or(u64::MAX),
            activity: None,
            stripes: None,
        }
    }
}

/// The most that T_f may be, in percent.
pub const FREE_PERCENT_MAX: u8 = 90;

/// What of a mount is changed. What is none stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaceChange {
    /// T_f, in percent.
    pub free_percent: Option<u8>,
    /// T_t, in milliseconds.
    pub age_ms: Option<u64>,
}

impl PaceChange {
    /// The pace with what is changed; none if that is out of bounds.
    #[must_use]
    pub fn of(self, now: Pace) -> Option<Pace> {
        let free_percent = self.free_percent.unwrap_or(now.free_percent);
        let age = self.age_ms.map_or(now.age, Duration::from_millis);
        (free_percent <= FREE_PERCENT_MAX).then_some(Pace { free_percent, age })
    }
}
