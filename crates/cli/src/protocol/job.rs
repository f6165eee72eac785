//! Background jobs as programs read them.

use serde::{Deserialize, Serialize};
use stripewise::{JobOutcome, JobReport};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobStatus {
    pub(crate) kind: String,
    pub(crate) role: Option<usize>,
    /// When it began, on the daemon's own clock: tells one job from another.
    pub(crate) started_ns: u64,
    /// Bytes of each member.
    pub(crate) done_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) bytes_per_s: u64,
    pub(crate) eta_s: Option<u64>,
    pub(crate) paused: bool,
    /// As md counts them: 512-byte sectors of each member in rows that disagreed.
    pub(crate) mismatch_count: u64,
    pub(crate) mismatched_stripes: Vec<u64>,
    /// `done`, `stopped`, or why it failed; none while it runs.
    pub(crate) outcome: Option<String>,
}

/// Sectors in a row of 4 KiB blocks: the unit of md's `mismatch_cnt`.
const SECTORS_PER_ROW: u64 = 8;

impl From<&JobReport> for JobStatus {
    fn from(job: &JobReport) -> Self {
        let (done_bytes, total_bytes) =
            (job.done_stripes * job.chunk_bytes, job.total_stripes * job.chunk_bytes);
        let eta_s = (job.bytes_per_s > 0 && !job.paused && job.outcome.is_none())
            .then(|| total_bytes.saturating_sub(done_bytes) / job.bytes_per_s);
        Self {
            kind: job.kind.name().to_owned(),
            role: job.slot.map(|slot| slot.0),
            started_ns: job.started.0,
            done_bytes,
            total_bytes,
            bytes_per_s: job.bytes_per_s,
            eta_s,
            paused: job.paused,
            mismatch_count: job.mismatched_rows * SECTORS_PER_ROW,
            mismatched_stripes: job.mismatches.iter().map(|m| m.stripe).collect(),
            outcome: job.outcome.as_ref().map(|outcome| match outcome {
                JobOutcome::Done => "done".to_owned(),
                JobOutcome::Stopped => "stopped".to_owned(),
                JobOutcome::Failed(reason) => reason.clone(),
            }),
        }
    }
}
