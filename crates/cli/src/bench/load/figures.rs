//! What a load came to.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use stripewise_load::{Control, LoadReport, OpReport};

use super::LoadSpec;
use crate::{sizes::format_size, times::format_nanoseconds};

/// A load's figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LoadFigures {
    pub(crate) load: LoadSpec,
    pub(crate) ended: Ended,
    /// Of a load that failed: what did.
    pub(crate) failure: Option<String>,
    pub(crate) elapsed_s: f64,
    pub(crate) done_bytes: u64,
    /// None if nothing was read.
    pub(crate) read: Option<OpFigures>,
    pub(crate) write: Option<OpFigures>,
    /// What an array's counters grew by; of other devices, none.
    pub(crate) counters: Option<BTreeMap<String, u64>>,
    /// The kinds of an array's background jobs that were under way meanwhile.
    pub(crate) jobs: Vec<String>,
}

/// How a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ended {
    /// All of it was done.
    Complete,
    /// Somebody ended it before.
    Interrupted,
    /// A request failed, which ended it.
    Failed,
}

/// Requests of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpFigures {
    requests: u64,
    bytes: u64,
    errors: u64,
    requests_per_s: f64,
    bytes_per_s: f64,
    mean_ns: f64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    p99_99_ns: u64,
    max_ns: u64,
}

impl LoadFigures {
    /// Of any device. Who owns the control has not ended the load since it was over.
    pub(crate) fn new(load: LoadSpec, report: &LoadReport, control: &Control) -> Self {
        let elapsed_s = report.elapsed.as_secs_f64();
        let failure = control.failure();
        let ended = match control.is_ended() {
            _ if failure.is_some() => Ended::Failed,
            true if !is_reached(&load, report) => Ended::Interrupted,
            _ => Ended::Complete,
        };
        let of = |op: &OpReport| (op.requests + op.errors > 0).then(|| OpFigures::new(op, elapsed_s));
        Self {
            load,
            ended,
            failure: failure.map(|failure| failure.to_string()),
            elapsed_s,
            done_bytes: control.done_bytes(),
            read: of(&report.reads),
            write: of(&report.writes),
            counters: None,
            jobs: Vec::new(),
        }
    }

    /// How far a load came that was cut short.
    fn cut_short(&self) -> Option<String> {
        let why = match self.ended {
            Ended::Complete => return None,
            Ended::Interrupted => "interrupted",
            Ended::Failed => self.failure.as_deref().unwrap_or("a request failed"),
        };
        let done = format_size(self.done_bytes);
        Some(match (self.load.total_bytes(), self.load.runtime_ms) {
            (Some(bytes), _) => format!("after {done} of {}: {why}", format_size(bytes)),
            (None, time) => {
                let time_s = time.unwrap_or(0) as f64 / 1e3;
                format!("after {:.2} s of {time_s} s, {done}: {why}", self.elapsed_s)
            }
        })
    }
}

/// Whether a load has done all that it was to do.
fn is_reached(load: &LoadSpec, report: &LoadReport) -> bool {
    match load.total_bytes() {
        Some(bytes) => report.reads.bytes + report.writes.bytes >= bytes,
        None => report.elapsed >= Duration::from_millis(load.runtime_ms.unwrap_or(0)),
    }
}

impl OpFigures {
    fn new(op: &OpReport, elapsed_s: f64) -> Self {
        let at = |quantile| op.latency_ns.value_at_quantile(quantile);
        let per_s = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        Self {
            requests: op.requests,
            bytes: op.bytes,
            errors: op.errors,
            requests_per_s: per_s(op.requests),
            bytes_per_s: per_s(op.bytes),
            mean_ns: op.latency_ns.mean(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            p99_99_ns: at(0.9999),
            max_ns: op.latency_ns.max(),
        }
    }
}

impl fmt::Display for LoadFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadSpec { rw, block_bytes, iodepth, numjobs, size_bytes, seed, .. } = &self.load;
        let rw = format!("{rw:?}").to_lowercase();
        let bs = format_size(*block_bytes);
        let region = size_bytes.map_or_else(String::new, |size| format!("size {}, ", format_size(size)));
        writeln!(
            f,
            "{rw}, bs {bs}, {region}iodepth {iodepth}, numjobs {numjobs}, seed {seed}: {:.2} s",
            self.elapsed_s
        )?;
        if let Some(how_far) = self.cut_short() {
            writeln!(f, "cut short: {how_far}")?;
        }
        if !self.jobs.is_empty() {
            let jobs = self.jobs.join(" and ");
            writeln!(f, "     jobs: {jobs} under way meanwhile: without, figures would be others")?;
        }
        for (name, op) in [("read", &self.read), ("write", &self.write)] {
            if let Some(op) = op {
                writeln!(f, "{name:>9}: {op}")?;
            }
        }
        let Some(counters) = &self.counters else { return Ok(()) };
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        let [full, rmw, rcw] = ["rows_full", "rows_rmw", "rows_rcw"].map(count);
        // Levels 0 and 1 know no such rows.
        if full + rmw + rcw > 0 {
            writeln!(f, "     rows: {full} full, {rmw} RMW, {rcw} RCW")?;
            let (all, full) = (count("stripe_writes"), count("stripe_writes_full"));
            writeln!(f, "  stripes: {all} written, {full} of them full")?;
        }
        Ok(())
    }
}

impl fmt::Display for OpFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} requests/s, {}/s; {} requests, {}",
            self.requests_per_s,
            format_size(self.bytes_per_s as u64),
            self.requests,
            format_size(self.bytes)
        )?;
        if self.errors > 0 {
            write!(f, ", {} failed", self.errors)?;
        }
        let all = [
            ("mean", self.mean_ns as u64),
            ("p50", self.p50_ns),
            ("p90", self.p90_ns),
            ("p99", self.p99_ns),
            ("p99.9", self.p99_9_ns),
            ("p99.99", self.p99_99_ns),
            ("max", self.max_ns),
        ];
        let shown = all.map(|(name, ns)| format!("{name} {}", format_nanoseconds(ns)));
        write!(f, "\n{:>11}{}", "", shown.join(", "))
    }
}
