//! Everything about one array, as `mdadm --detail` has it.

use std::fmt::Write;
use stripewise_wire::ArrayStatus;

use super::{
    cache, members,
    parts::{has_chunks, job_line, mounted_text},
    warnings,
};
use crate::{printable::printable_status, sizes::format_size};

/// Everything about one array, in the shape of `mdadm --detail`.
pub(crate) fn detail(status: &ArrayStatus) -> String {
    let status = &printable_status(status);
    let mut text = format!("{}:\n", status.name);
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:>20} : {value}");
    };
    line("Name", status.full_name.clone());
    line("UUID", status.uuid.clone());
    line("Raid Level", format!("raid{}", status.level));
    line("Array Size", size_line(status.size_bytes));
    line("Used Dev Size", size_line(status.member_bytes));
    line("Raid Devices", status.raid_devices.to_string());
    line("State", status.state.clone());
    let count = |state: &str| status.members.iter().filter(|m| m.state == state).count().to_string();
    line("Active Devices", count("in sync"));
    line("Failed Devices", count("faulty"));
    line("Spare Devices", count("spare"));
    if has_chunks(status) {
        line("Chunk Size", format_size(status.chunk_bytes));
    }
    line("Logical Block", format_size(u64::from(status.logical_block_bytes)));
    if status.level >= 4 {
        line("Write Selection", status.selection.clone());
    }
    for (label, value) in status.cache.iter().flat_map(cache::lines) {
        line(label, value);
    }
    line("Consistency Policy", if status.bitmap.is_some() { "bitmap" } else { "none" }.to_owned());
    line("Events", status.events.to_string());
    for (label, job) in
        [("Job", &status.job), ("Last Job", &status.last_job), ("Last Scrub", &status.last_scrub)]
    {
        if let Some(job) = job {
            let outcome = job.outcome.as_ref().map(|outcome| format!(", {outcome}")).unwrap_or_default();
            line(label, job_line(job) + &outcome);
        }
    }
    for place in status.attached.iter().chain(&status.exports) {
        line("At", place.clone());
    }
    if let Some(mounted) = &status.mounted {
        line("File System", mounted_text(mounted));
    }
    for device in &status.left_out {
        line("Left Out", device.clone());
    }
    for device in &status.forced {
        line("Taken By Force", device.clone());
    }
    for advice in &status.advice {
        line("Advice", advice.clone());
    }
    let of_members = warnings::warnings(status);
    for warning in status.warnings.iter().cloned().chain(of_members) {
        line("Warning", warning);
    }
    if status.level >= 4 {
        line("Rows Written", rows_line(status));
        line("Stripe Writes", stripes_line(status));
        if let Some(filled) = filled_line(status) {
            line("Gaps Filled", filled);
        }
    }
    line("Clients Wrote", size_line(counter(status, "written_bytes")));
    if let Some(written) = members_wrote(status) {
        line("Members Wrote", written);
    }
    text + &members::tables(status)
}

fn counter(status: &ArrayStatus, name: &str) -> u64 {
    status.counters.get(name).copied().unwrap_or(0)
}

fn rows_line(status: &ArrayStatus) -> String {
    let rows = |cycle: &str| counter(status, &format!("rows_{cycle}"));
    let mut text = format!("{} full, {} RMW, {} RCW", rows("full"), rows("rmw"), rows("rcw"));
    if rows("recovered") > 0 {
        let _ = write!(text, ", {} recovered first", rows("recovered"));
    }
    text
}

fn stripes_line(status: &ArrayStatus) -> String {
    format!("{}, {} of them full", counter(status, "stripe_writes"), counter(status, "stripe_writes_full"))
}

/// What was read and written only to fill gaps, and the requests that this saved.
fn filled_line(status: &ArrayStatus) -> Option<String> {
    let (blocks, saved) = (counter(status, "blocks_filled"), counter(status, "requests_saved"));
    (blocks > 0).then(|| format!("{blocks} blocks, {saved} requests saved"))
}

/// How much was written to members: for clients, as metadata, and by background jobs.
fn members_wrote(status: &ArrayStatus) -> Option<String> {
    let for_clients = status.write_amplification.map(|times| format!("{times:.2} times that for clients"));
    let part = |bytes: u64, what: &str| (bytes > 0).then(|| format!("{} {what}", format_size(bytes)));
    let metadata = part(status.metadata_written_bytes, "of metadata");
    let for_jobs = part(status.job_written_bytes, "for background jobs");
    let all: Vec<_> = for_clients.into_iter().chain(metadata).chain(for_jobs).collect();
    let (last, others) = all.split_last()?;
    Some(if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) })
}

fn size_line(bytes: u64) -> String {
    format!("{bytes} ({})", format_size(bytes))
}
