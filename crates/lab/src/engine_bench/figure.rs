//! Measured figures, for people and programs.

use std::{collections::BTreeMap, fmt};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{
    arrays::Variant,
    cache_name,
    case::{Case, Work},
    parts::Shares,
    turn::{Counts, Done},
};

/// One case's figures.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// [`Case::name`].
    pub case: String,
    /// The array's level.
    pub level: i32,
    /// [`BitmapMode::name`](super::BitmapMode::name).
    pub bitmap: &'static str,
    /// The write selection policy.
    pub policy: &'static str,
    /// The preset of locks, and its replaced settings.
    pub locking: String,
    /// [`cache_name`] of its cache.
    pub cache: &'static str,
    /// Worker threads.
    pub threads: usize,
    /// Operations under way for each thread.
    pub queue: usize,
    /// Members, for data and parity.
    pub raid_devices: usize,
    /// Bytes of an operation; of a job: the bytes of a member.
    pub bytes_per_operation: u64,
    /// Operations a second, all threads together: the median of the turns.
    pub engine_per_s: f64,
    /// Processor time of an operation, in nanoseconds.
    pub cpu_ns_per_operation: f64,
    /// The same of the bare loops; None if there is nothing to move.
    pub limit_per_s: Option<f64>,
    /// Median over the turns of engine / limit.
    pub ratio: Option<f64>,
    /// Median over the turns of engine / engine without a cache; None if that was not measured.
    pub of_uncached: Option<f64>,
    /// The share of rows that were written with all their data new; None if no row was written.
    pub rows_full: Option<f64>,
    /// Reads of members for each operation.
    pub member_reads: f64,
    /// None if it was not measured.
    pub latency_ns: Option<Latency>,
    /// The share of each part of the time of operations; empty without a sampler.
    pub parts: BTreeMap<&'static str, f64>,
    /// How often the sampler found a worker in an operation: the shares are made of so many looks.
    pub looks: u64,
    /// Each turn by itself; those of figures that took turns have the same order.
    pub turns: Vec<TurnFigure>,
}

/// One turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TurnFigure {
    /// Operations a second.
    pub per_s: f64,
    /// All but one of ten thousand operations were faster, in nanoseconds; None if it was not measured.
    pub p99_99_ns: Option<u64>,
}

/// Percentiles of the time of an operation, in nanoseconds, over all turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Half of the operations were faster.
    pub p50: u64,
    /// All but one of ten.
    pub p90: u64,
    /// All but one of a hundred.
    pub p99: u64,
    /// All but one of a thousand.
    pub p99_9: u64,
    /// All but one of ten thousand.
    pub p99_99: u64,
    /// The slowest.
    pub max: u64,
    /// The number of operations measured.
    pub operations: u64,
}

impl Latency {
    fn of(all: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| all.value_at_quantile(quantile);
        let [p50, p90, p99, p99_9, p99_99] = [0.5, 0.9, 0.99, 0.999, 0.9999].map(at);
        let (max, operations) = (all.max(), all.len());
        (!all.is_empty()).then_some(Self { p50, p90, p99, p99_9, p99_99, max, operations })
    }
}

/// The turns of one variant.
#[derive(Default)]
pub(super) struct Turns {
    each: Vec<TurnFigure>,
    cpu_ns: Vec<f64>,
    limit: Vec<f64>,
    latency: Option<Histogram<u64>>,
    parts: Shares,
    counts: Counts,
    operations: u64,
}

impl Turns {
    pub(super) fn add(&mut self, done: Done, limit: Option<f64>) {
        let p99_99_ns = Latency::of(&done.latency).map(|latency| latency.p99_99);
        self.each.push(TurnFigure { per_s: done.per_s, p99_99_ns });
        self.cpu_ns.push(done.cpu_ns);
        self.limit.extend(limit);
        self.parts.add(&done.parts);
        self.counts.add(&done.counts);
        self.operations += done.operations;
        match &mut self.latency {
            None => self.latency = Some(done.latency),
            Some(all) => all.add(done.latency).expect("histograms of one kind"),
        }
    }

    /// Operations a second, turn by turn.
    pub(super) fn rates(&self) -> impl Iterator<Item = f64> {
        self.each.iter().map(|turn| turn.per_s)
    }

    /// The median of this over that, turn by turn.
    fn ratio(&self, to: &[f64]) -> Option<f64> {
        median(self.rates().zip(to).map(|(engine, other)| engine / other).collect())
    }

    /// `uncached` are the rates without a cache.
    pub(super) fn figure(
        self,
        case: Case,
        variant: &Variant,
        (threads, queue): (usize, usize),
        uncached: Option<&[f64]>,
    ) -> Figure {
        let (ratio, of_uncached) = (self.ratio(&self.limit), uncached.and_then(|rates| self.ratio(rates)));
        let Counts { rows_full, rows, member_reads } = self.counts;
        let geometry = variant.array.geometry();
        let bytes_per_operation = match case.work(&geometry) {
            Work::Read { bytes, .. } | Work::Write { bytes, .. } => bytes as u64,
            Work::Check | Work::Rebuild => geometry.member_bytes(),
        };
        Figure {
            case: case.name().to_owned(),
            level: geometry.level().number(),
            bitmap: variant.bitmap.name(),
            policy: variant.policy.name,
            locking: variant.locks.name().to_owned(),
            cache: cache_name(variant.cache),
            threads,
            queue,
            raid_devices: geometry.members(),
            bytes_per_operation,
            engine_per_s: median(self.rates().collect()).unwrap_or(0.0),
            cpu_ns_per_operation: median(self.cpu_ns).unwrap_or(0.0),
            limit_per_s: median(self.limit),
            ratio,
            of_uncached,
            rows_full: (rows > 0).then(|| rows_full as f64 / rows as f64),
            member_reads: member_reads as f64 / self.operations.max(1) as f64,
            latency_ns: self.latency.as_ref().and_then(Latency::of),
            parts: self.parts.of_operations().collect(),
            looks: self.parts.looks(),
            turns: self.each,
        }
    }
}

/// The middle value; of an even number, the mean of the middle two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (lower, upper) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*lower, *upper))
}

impl Figure {
    /// What a cache does.
    fn write_cache(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  cache {}", self.cache)?;
        if let Some(ratio) = self.of_uncached {
            write!(f, " {ratio:.2} of none")?;
        }
        if let Some(share) = self.rows_full {
            write!(f, ", full rows {:.2} %", share * 100.0)?;
        }
        write!(f, ", member reads {:.3}", self.member_reads)
    }

    /// The data moved in a second at a rate of operations, in 10^9 bytes.
    pub fn gb_per_s(&self, per_s: f64) -> f64 {
        per_s * self.bytes_per_operation as f64 / 1e9
    }
}

/// Whole operations for large rates, fractions for small ones.
pub(super) fn rate(per_s: f64) -> String {
    if per_s < 100.0 { format!("{per_s:.2}") } else { format!("{per_s:.0}") }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, level, bitmap, policy, locking, threads, bytes_per_operation, .. } = self;
        let operations = rate(self.engine_per_s);
        let (members, queue) = (self.raid_devices, self.queue);
        write!(
            f,
            "{case:<17} level {level}, {members} members, bitmap {bitmap:<8} {policy:<9} {locking:<7} {threads:>2} threads, \
             queue {queue} {bytes_per_operation:>9} B  engine {operations:>10}/s {:>6.2} GB/s {:>6.0} ns of CPU",
            self.gb_per_s(self.engine_per_s),
            self.cpu_ns_per_operation
        )?;
        if let (Some(limit), Some(ratio)) = (self.limit_per_s, self.ratio) {
            write!(f, "  limit {:>10}/s {:>6.2} GB/s  ratio {ratio:.2}", rate(limit), self.gb_per_s(limit))?;
        }
        if self.cache != "none" {
            self.write_cache(f)?;
        }
        if let Some(Latency { p50, p99, p99_9, p99_99, max, .. }) = &self.latency_ns {
            write!(f, "  p50 {p50} p99 {p99} p99.9 {p99_9} p99.99 {p99_99} max {max} ns")?;
        }
        for (index, (part, share)) in self.parts.iter().enumerate() {
            write!(f, "{}{part} {:.1} %", if index == 0 { "  " } else { ", " }, share * 100.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }
}
