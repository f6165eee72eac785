//! Parts of the text about an array: jobs, rows and times.

use std::fmt::Write;

use stripewise_wire::{ArrayStatus, JobStatus, MountedStatus};

use crate::{printable::printable, sizes::format_size};

/// Cells of the bar in `status`, as in /proc/mdstat.
const BAR_CELLS: u64 = 20;

/// Whether data is spread over members: the copies of level 1 have no chunks.
pub(super) fn has_chunks(status: &ArrayStatus) -> bool {
    status.level != 1
}

/// A device without its folder.
pub(super) fn short(device: &str) -> &str {
    device.strip_prefix("/dev/").unwrap_or_else(|| device.rsplit('/').next().unwrap_or(device))
}

/// A job as a bar with percentage, rate and time left, and what it found.
pub(crate) fn job_line(job: &JobStatus) -> String {
    let mut line = progress_line(job);
    if job.mismatch_count > 0 {
        let _ = write!(line, " mismatch_cnt={}", job.mismatch_count);
    }
    line
}

/// A job as a bar with percentage, rate and time left.
pub(crate) fn progress_line(job: &JobStatus) -> String {
    let filled = (job.done_bytes * BAR_CELLS).checked_div(job.total_bytes).unwrap_or(BAR_CELLS);
    let bar: String = (0..BAR_CELLS).map(|cell| if cell < filled { '=' } else { '.' }).collect();
    let percent =
        if job.total_bytes == 0 { 100.0 } else { job.done_bytes as f64 * 100.0 / job.total_bytes as f64 };
    let mut line = format!(
        "[{bar}] {} = {percent:.1}% ({}/{})",
        job.kind,
        format_size(job.done_bytes),
        format_size(job.total_bytes)
    );
    if job.paused && job.outcome.is_none() {
        line += " paused";
    }
    if let Some(eta) = job.eta_s {
        let _ = write!(line, " finish={} speed={}/s", duration(eta), format_size(job.bytes_per_s));
    }
    line
}

/// Runs of rows, each from the first to before the second.
pub(crate) fn rows_text(runs: &[(usize, usize)]) -> String {
    let run = |(from, end): &(usize, usize)| match end - from {
        1 => from.to_string(),
        _ => format!("{from}-{}", end - 1),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// The time left, as /proc/mdstat shows it.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The array's mounted file system.
pub(super) fn mounted_text(mounted: &MountedStatus) -> String {
    let label =
        if mounted.label.is_empty() { String::new() } else { format!(" \"{}\"", printable(&mounted.label)) };
    let point = printable(&mounted.point.display().to_string());
    let how = if mounted.is_read_only { " (read-only)" } else { "" };
    format!("RAFS{label} mounted on {point}{how}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobStatus {
        JobStatus {
            kind: "rebuild".into(),
            role: Some(2),
            started_ns: 0,
            done_bytes: 25 << 20,
            total_bytes: 100 << 20,
            bytes_per_s: 5 << 20,
            eta_s: Some(75),
            paused: false,
            mismatch_count: 0,
            mismatched_stripes: vec![],
            outcome: None,
        }
    }

    #[test]
    fn a_job_reads_as_in_mdstat() {
        let line = job_line(&job());
        assert_eq!(
            line,
            "[=====...............] rebuild = 25.0% (25 MiB/100 MiB) finish=1m15s speed=5 MiB/s"
        );
    }

    #[test]
    fn an_empty_job_does_not_divide_by_zero() {
        assert!(
            job_line(&JobStatus { total_bytes: 0, done_bytes: 0, eta_s: None, ..job() }).contains("100.0%")
        );
    }
}
