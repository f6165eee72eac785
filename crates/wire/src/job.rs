//! Background jobs as programs read them.

use serde::{Deserialize, Serialize};

/// A job at one moment, or as it ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobStatus {
    /// `resync`, `rebuild`, `replace`, `check` or `repair`.
    pub kind: String,
    /// The role that it fills, if it fills one.
    pub role: Option<usize>,
    /// When it began, on the daemon's own clock: tells one job from another.
    pub started_ns: u64,
    /// Bytes of each member that it has passed.
    pub done_bytes: u64,
    /// Bytes of each member that it is to pass.
    pub total_bytes: u64,
    /// How fast it passes them.
    pub bytes_per_s: u64,
    /// How long it will take, at that speed.
    pub eta_s: Option<u64>,
    /// Whether it waits for somebody to let it go on.
    pub paused: bool,
    /// As md counts them: 512-byte sectors of each member in rows that disagreed.
    pub mismatch_count: u64,
    /// The first stripes that disagreed.
    pub mismatched_stripes: Vec<u64>,
    /// `done`, `stopped`, or why it failed; none while it runs.
    pub outcome: Option<String>,
}
