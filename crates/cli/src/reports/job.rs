//! Background jobs.

use stripewise::{JobOutcome, JobReport};
use stripewise_wire::JobStatus;

/// Sectors in a row of 4 KiB blocks: the unit of md's `mismatch_cnt`.
const SECTORS_PER_ROW: u64 = 8;

/// A job, under way or ended.
pub(crate) fn job_status(job: &JobReport) -> JobStatus {
    let (done_bytes, total_bytes) = (job.done_stripes * job.chunk_bytes, job.total_stripes * job.chunk_bytes);
    let eta_s = (job.bytes_per_s > 0 && !job.paused && job.outcome.is_none())
        .then(|| total_bytes.saturating_sub(done_bytes) / job.bytes_per_s);
    JobStatus {
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
        outcome: job.outcome.as_ref().map(outcome_text),
    }
}

fn outcome_text(outcome: &JobOutcome) -> String {
    match outcome {
        JobOutcome::Done => "done".to_owned(),
        JobOutcome::Stopped => "stopped".to_owned(),
        JobOutcome::Failed(reason) => reason.clone(),
    }
}
