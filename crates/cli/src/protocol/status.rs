//! An array as programs read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stripewise::{ArrayReport, format::extension::MapKind};

use super::{JobStatus, MemberStatus};
use crate::printable::printable;

/// An array at one moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ArrayStatus {
    pub(crate) name: String,
    /// The name in the superblocks.
    pub(crate) full_name: String,
    pub(crate) uuid: String,
    pub(crate) level: i32,
    pub(crate) state: String,
    pub(crate) size_bytes: u64,
    pub(crate) member_bytes: u64,
    pub(crate) chunk_bytes: u64,
    pub(crate) logical_block_bytes: u32,
    pub(crate) raid_devices: usize,
    pub(crate) parity_devices: usize,
    pub(crate) in_sync: Vec<bool>,
    pub(crate) failed: bool,
    pub(crate) dirty: bool,
    pub(crate) read_only: bool,
    pub(crate) selection: String,
    pub(crate) events: u64,
    pub(crate) members: Vec<MemberStatus>,
    pub(crate) bitmap: Option<BitmapStatus>,
    pub(crate) job: Option<JobStatus>,
    pub(crate) last_job: Option<JobStatus>,
    pub(crate) last_scrub: Option<JobStatus>,
    pub(crate) speed_min_bytes_per_s: u64,
    /// None for no limit.
    pub(crate) speed_max_bytes_per_s: Option<u64>,
    /// Devices that were given and take no part, with the reason.
    pub(crate) left_out: Vec<String>,
    /// Members that `assemble --force` took although they are not current, with the reason.
    pub(crate) forced: Vec<String>,
    pub(crate) attached: Option<String>,
    pub(crate) exports: Vec<String>,
    pub(crate) counters: BTreeMap<String, u64>,
    /// Bytes that background jobs wrote to members' data areas.
    pub(crate) job_written_bytes: u64,
    /// Bytes of superblocks, extension headers and bitmap pages that members were written.
    pub(crate) metadata_written_bytes: u64,
    /// Bytes written to members' data areas for each byte that clients wrote, without those that background jobs wrote;
    /// none before clients have written.
    pub(crate) write_amplification: Option<f64>,
    /// What is worth saying about its shape.
    pub(crate) advice: Vec<String>,
    /// What is not as it was meant.
    pub(crate) warnings: Vec<String>,
    pub(crate) pid: u32,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BitmapStatus {
    pub(crate) region_bytes: u64,
    /// "linear" or "distributed".
    pub(crate) map: String,
    pub(crate) regions: usize,
    pub(crate) marked: usize,
}

impl ArrayStatus {
    /// Whether it tells which roles have a member in sync. An array that did not answer yet, or a daemon of another release, may
    /// not have told it.
    pub(crate) fn is_known(&self) -> bool {
        self.raid_devices > 0 && self.in_sync.len() == self.raid_devices
    }

    /// The same for a terminal: names and paths that others chose cannot do harm there.
    pub(crate) fn printable(&self) -> Self {
        let all = |texts: &[String]| texts.iter().map(|text| printable(text)).collect();
        let members = self
            .members
            .iter()
            .map(|member| MemberStatus { device: printable(&member.device), ..member.clone() });
        Self {
            name: printable(&self.name),
            full_name: printable(&self.full_name),
            state: printable(&self.state),
            selection: printable(&self.selection),
            members: members.collect(),
            left_out: all(&self.left_out),
            forced: all(&self.forced),
            attached: self.attached.as_deref().map(printable),
            exports: all(&self.exports),
            advice: all(&self.advice),
            warnings: all(&self.warnings),
            ..self.clone()
        }
    }
}

/// What a map of regions is called.
pub(crate) fn map_name(kind: MapKind) -> &'static str {
    match kind {
        MapKind::Linear => "linear",
        MapKind::Distributed => "distributed",
    }
}

/// The array's state in mdadm's words.
pub(crate) fn state_name(report: &ArrayReport) -> String {
    if report.failed {
        return "failed".to_owned();
    }
    let mut words = vec![if report.dirty { "active" } else { "clean" }];
    if report.degraded() > 0 {
        words.push("degraded");
    }
    if let Some(job) = &report.job {
        words.push(match job.kind.name() {
            "resync" => "resyncing",
            "rebuild" | "replace" => "recovering",
            _ => "checking",
        });
    }
    words.join(", ")
}
