//! What was measured, as people and programs read it.

use std::{collections::BTreeMap, fmt};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{
    arrays::Variant,
    case::{Case, Work},
    parts::Shares,
    turn::Done,
};
use crate::bench::median;

/// One case's figures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    case: String,
    level: i32,
    bitmap: &'static str,
    policy: &'static str,
    locking: &'static str,
    threads: usize,
    raid_devices: usize,
    /// Of a job: the bytes of a member.
    bytes_per_operation: u64,
    engine_per_s: f64,
    /// Processor time of an operation, in nanoseconds.
    cpu_ns_per_operation: f64,
    /// None where there is nothing to move.
    limit_per_s: Option<f64>,
    /// Median over the turns of engine / limit.
    ratio: Option<f64>,
    /// None where it was not taken.
    latency_ns: Option<Latency>,
    /// The share of each part of the time of operations; empty, where nobody looked.
    parts: BTreeMap<&'static str, f64>,
}

/// Percentiles of the time of an operation, in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Latency {
    p50: u64,
    p99: u64,
    p99_9: u64,
    p99_99: u64,
    max: u64,
}

impl Latency {
    fn of(all: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| all.value_at_quantile(quantile);
        let [p50, p99, p99_9, p99_99] = [0.5, 0.99, 0.999, 0.9999].map(at);
        (!all.is_empty()).then(|| Self { p50, p99, p99_9, p99_99, max: all.max() })
    }
}

/// The turns of one variant.
#[derive(Default)]
pub(super) struct Turns {
    engine: Vec<f64>,
    cpu_ns: Vec<f64>,
    limit: Vec<f64>,
    latency: Option<Histogram<u64>>,
    parts: Shares,
}

impl Turns {
    pub(super) fn add(&mut self, done: Done, limit: Option<f64>) {
        self.engine.push(done.per_s);
        self.cpu_ns.push(done.cpu_ns);
        self.limit.extend(limit);
        self.parts.add(&done.parts);
        match &mut self.latency {
            None => self.latency = Some(done.latency),
            Some(all) => all.add(done.latency).expect("histograms of one kind"),
        }
    }

    pub(super) fn figure(self, case: Case, variant: &Variant, threads: usize) -> Figure {
        let ratios = self.engine.iter().zip(&self.limit).map(|(engine, limit)| engine / limit).collect();
        let geometry = variant.array.geometry();
        let bytes_per_operation = match case.work(geometry) {
            Work::Read { bytes, .. } | Work::Write { bytes, .. } => bytes as u64,
            Work::Check | Work::Rebuild => geometry.member_bytes(),
        };
        Figure {
            case: case.name(),
            level: geometry.level().number(),
            bitmap: variant.bitmap.name(),
            policy: variant.policy.name,
            locking: variant.preset.name,
            threads,
            raid_devices: geometry.members(),
            bytes_per_operation,
            engine_per_s: median(self.engine).unwrap_or(0.0),
            cpu_ns_per_operation: median(self.cpu_ns).unwrap_or(0.0),
            limit_per_s: median(self.limit),
            ratio: median(ratios),
            latency_ns: self.latency.as_ref().and_then(Latency::of),
            parts: self.parts.of_operations().collect(),
        }
    }
}

/// Whole operations where there are many, parts of one where there are few.
fn rate(per_s: f64) -> String {
    if per_s < 100.0 { format!("{per_s:.2}") } else { format!("{per_s:.0}") }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = |per_s: f64| per_s * self.bytes_per_operation as f64 / 1e9;
        let Self { case, level, bitmap, policy, locking, threads, bytes_per_operation, .. } = self;
        let operations = rate(self.engine_per_s);
        write!(
            f,
            "{case:<17} level {level}, bitmap {bitmap:<8} {policy:<9} {locking:<7} {threads:>2} threads \
             {bytes_per_operation:>9} B  engine {operations:>10}/s {:>6.2} GB/s {:>6.0} ns of CPU",
            gb(self.engine_per_s),
            self.cpu_ns_per_operation
        )?;
        if let (Some(limit), Some(ratio)) = (self.limit_per_s, self.ratio) {
            write!(f, "  limit {:>10}/s {:>6.2} GB/s  ratio {ratio:.2}", rate(limit), gb(limit))?;
        }
        if let Some(Latency { p50, p99, p99_9, p99_99, max }) = &self.latency_ns {
            write!(f, "  p50 {p50} p99 {p99} p99.9 {p99_9} p99.99 {p99_99} max {max} ns")?;
        }
        for (index, (part, share)) in self.parts.iter().enumerate() {
            write!(f, "{}{part} {:.1} %", if index == 0 { "  " } else { ", " }, share * 100.0)?;
        }
        Ok(())
    }
}
