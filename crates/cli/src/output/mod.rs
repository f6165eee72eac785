//! Arrays as people read them: /proc/mdstat's shape, and mdadm's.

mod detail;
mod members;

use std::fmt::Write;

pub(crate) use detail::detail;
pub(crate) use members::{no_forecast_lines, time_texts};
use stripewise_wire::{ArrayStatus, JobStatus, MemberStatus};

use crate::{printable::printable_status, sizes::format_size};

/// Cells of the bar in `status`, as in /proc/mdstat.
const BAR_CELLS: u64 = 20;

/// One array in /proc/mdstat's shape.
pub(crate) fn mdstat(status: &ArrayStatus) -> String {
    let status = &printable_status(status);
    let mut text = format!("{} : {} raid{}", status.name, status.state, status.level);
    if status.read_only {
        text += " (read-only)";
    }
    for member in &status.members {
        let _ = write!(text, " {}[{}]{}", short(&member.device), member.number, mark(member));
    }
    let _ = write!(text, "\n      {} usable", format_size(status.size_bytes));
    if has_chunks(status) {
        let _ = write!(text, ", {} chunk", format_size(status.chunk_bytes));
    }
    let up = status.in_sync.iter().filter(|in_sync| **in_sync).count();
    let map: String = status.in_sync.iter().map(|in_sync| if *in_sync { 'U' } else { '_' }).collect();
    let _ = writeln!(text, " [{}/{up}] [{map}]", status.raid_devices);
    for line in [members::classes_line(status), members::times_line(status)].into_iter().flatten() {
        let _ = writeln!(text, "      {line}");
    }
    if let Some(job) = &status.job {
        let _ = writeln!(text, "      {}", job_line(job));
    }
    if let Some(bitmap) = &status.bitmap {
        let region = format_size(bitmap.region_bytes);
        let _ = writeln!(
            text,
            "      bitmap: {}/{} {} regions marked, {region} each",
            bitmap.marked, bitmap.regions, bitmap.map
        );
    }
    for place in status.attached.iter().chain(&status.exports) {
        let _ = writeln!(text, "      at {place}");
    }
    let of_members = members::bad_block_warnings(status).chain(members::wear_warnings(status));
    for warning in status.warnings.iter().cloned().chain(of_members) {
        let _ = writeln!(text, "      {warning}");
    }
    for line in no_forecast_lines(&status.name, &status.members) {
        let _ = writeln!(text, "      {line}");
    }
    for device in &status.left_out {
        let _ = writeln!(text, "      left out: {device}");
    }
    for device in &status.forced {
        let _ = writeln!(text, "      taken by force: {device}");
    }
    text
}

/// How file systems are made that suit an array's stripes, if it has some: a write of whole stripes reads nothing.
pub(crate) fn mkfs_lines(status: &ArrayStatus, device: &str) -> Vec<String> {
    const EXT4_BLOCK_BYTES: u64 = 4096;
    let columns = status.raid_devices.saturating_sub(status.parity_devices) as u64;
    if !has_chunks(status) || columns < 2 || status.chunk_bytes < EXT4_BLOCK_BYTES {
        return Vec::new();
    }
    let stride = status.chunk_bytes / EXT4_BLOCK_BYTES;
    vec![
        format!("mkfs.ext4 -E stride={stride},stripe_width={} {device}", stride * columns),
        format!("mkfs.xfs -d su={}k,sw={columns} {device}", status.chunk_bytes / 1024),
    ]
}

/// Whether data is spread over members: the copies of level 1 know no chunks.
fn has_chunks(status: &ArrayStatus) -> bool {
    status.level != 1
}

fn short(device: &str) -> &str {
    device.strip_prefix("/dev/").unwrap_or_else(|| device.rsplit('/').next().unwrap_or(device))
}

/// mdstat's mark behind a member: (F)aulty, (S)pare, (R)eplacement.
fn mark(member: &MemberStatus) -> &'static str {
    match member.state.as_str() {
        "faulty" => "(F)",
        "spare" => "(S)",
        "replacing" => "(R)",
        _ => "",
    }
}

/// A job as a bar with percentage, rate and time to go, and what it found.
pub(crate) fn job_line(job: &JobStatus) -> String {
    let mut line = progress_line(job);
    if job.mismatch_count > 0 {
        let _ = write!(line, " mismatch_cnt={}", job.mismatch_count);
    }
    line
}

/// A job as a bar with percentage, rate and time to go.
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

/// A time to go, as /proc/mdstat has it.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
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
