//! Arrays as people read them: /proc/mdstat's shape, and mdadm's.

mod cache;
mod detail;
mod members;
mod parts;
mod warnings;

use std::fmt::Write;

use stripewise_wire::{ArrayStatus, MemberStatus};

use self::parts::{has_chunks, short};
pub(crate) use self::{
    cache::{settings as cache_settings, way_text},
    detail::detail,
    members::{no_forecast_lines, time_texts},
    parts::{duration, job_line, progress_line, rows_text},
};
use crate::{printable::printable_status, sizes::format_size};

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
    if let Some(line) = cache::line(status) {
        let _ = writeln!(text, "      {line}");
    }
    for place in status.attached.iter().chain(&status.exports) {
        let _ = writeln!(text, "      at {place}");
    }
    if let Some(mounted) = &status.mounted {
        let _ = writeln!(text, "      {}", parts::mounted_text(mounted));
    }
    let of_members = warnings::warnings(status);
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

/// The commands that make file systems which suit an array's stripes, if it has stripes: a write of whole
/// stripes reads nothing.
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

/// mdstat's mark behind a member: (F)aulty, (S)pare, (R)eplacement.
fn mark(member: &MemberStatus) -> &'static str {
    match member.state.as_str() {
        "faulty" => "(F)",
        "spare" => "(S)",
        "replacing" => "(R)",
        _ => "",
    }
}
