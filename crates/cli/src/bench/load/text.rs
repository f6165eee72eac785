//! A load's figures, for people.

use std::fmt;

use stripewise_wire::{Ended, LoadFigures, LoadSpec, OpFigures};

use crate::{sizes::format_size, times::format_nanoseconds};

/// Figures as people read them.
pub(super) struct Text<'a>(pub(super) &'a LoadFigures);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(figures) = self;
        let LoadSpec { rw, block_bytes, iodepth, numjobs, size_bytes, seed, .. } = &figures.load;
        let rw = rw.name();
        let bs = format_size(*block_bytes);
        let region = size_bytes.map_or_else(String::new, |size| format!("size {}, ", format_size(size)));
        writeln!(
            f,
            "{rw}, bs {bs}, {region}iodepth {iodepth}, numjobs {numjobs}, seed {seed}: {:.2} s",
            figures.elapsed_s
        )?;
        if let Some(how_far) = cut_short(figures) {
            writeln!(f, "cut short: {how_far}")?;
        }
        if !figures.jobs.is_empty() {
            let jobs = figures.jobs.join(" and ");
            writeln!(f, "     jobs: {jobs} under way meanwhile: without, figures would be others")?;
        }
        for (name, op) in [("read", &figures.read), ("write", &figures.write)] {
            if let Some(op) = op {
                writeln!(f, "{name:>9}: {}", op_text(op))?;
            }
        }
        let Some(counters) = &figures.counters else { return Ok(()) };
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        let [full, rmw, rcw] = ["rows_full", "rows_rmw", "rows_rcw"].map(count);
        // Levels 0 and 1 have no such rows.
        if full + rmw + rcw > 0 {
            writeln!(f, "     rows: {full} full, {rmw} RMW, {rcw} RCW")?;
            let (all, full) = (count("stripe_writes"), count("stripe_writes_full"));
            writeln!(f, "  stripes: {all} written, {full} of them full")?;
        }
        Ok(())
    }
}

fn op_text(op: &OpFigures) -> String {
    let rates = format!(
        "{:.0} requests/s, {}/s; {} requests, {}",
        op.requests_per_s,
        format_size(op.bytes_per_s as u64),
        op.requests,
        format_size(op.bytes)
    );
    let failed = if op.errors > 0 { format!(", {} failed", op.errors) } else { String::new() };
    let all = [
        ("mean", op.mean_ns as u64),
        ("p50", op.p50_ns),
        ("p90", op.p90_ns),
        ("p99", op.p99_ns),
        ("p99.9", op.p99_9_ns),
        ("p99.99", op.p99_99_ns),
        ("max", op.max_ns),
    ];
    let shown = all.map(|(name, ns)| format!("{name} {}", format_nanoseconds(ns)));
    format!("{rates}{failed}\n{:>11}{}", "", shown.join(", "))
}

/// How far a load got that was cut short, and why.
fn cut_short(figures: &LoadFigures) -> Option<String> {
    let why = match figures.ended {
        Ended::Complete => return None,
        Ended::Interrupted => "interrupted",
        Ended::Failed => figures.failure.as_deref().unwrap_or("a request failed"),
    };
    let done = format_size(figures.done_bytes);
    Some(match (figures.load.total_bytes(), figures.load.runtime_ms) {
        (Some(bytes), _) => format!("after {done} of {}: {why}", format_size(bytes)),
        (None, time) => {
            let time_s = time.unwrap_or(0) as f64 / 1e3;
            format!("after {:.2} s of {time_s} s, {done}: {why}", figures.elapsed_s)
        }
    })
}
