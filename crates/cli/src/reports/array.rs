//! Words for an array as a whole.

use stripewise::{ArrayReport, internals::format::extension::MapKind};

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
