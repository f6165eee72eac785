//! The outcome of a real-time point: whole numbers, so that a file gives back exactly what was written to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine_bench::{Figure, median};

/// The outcome of a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealTimeOutcome {
    /// Bytes of a write.
    pub bytes_per_operation: u64,
    /// The rate of bare loops with the same memory traffic: the median of their turns.
    pub limit_bytes_per_s: u64,
    /// The arrays, in the order of their turns.
    pub presets: Vec<PresetOutcome>,
}

/// One array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresetOutcome {
    /// The name of its locks.
    pub name: String,
    /// The rate of each turn. The n-th turns of all arrays followed one another.
    pub turn_bytes_per_s: Vec<u64>,
    /// The 99.99th percentile of each turn, in nanoseconds; empty if no times were measured.
    pub turn_p99_99_ns: Vec<u64>,
    /// Processor time of a write, in nanoseconds.
    pub cpu_ns: u64,
    /// 50, 90, 99, 99.9 and 99.99 % of the writes of all turns were at most as slow, in nanoseconds; zeroes
    /// if no times were measured.
    pub percentiles_ns: [u64; 5],
    /// The slowest write.
    pub max_ns: u64,
    /// Writes whose time was measured.
    pub operations: u64,
    /// The share of each part of the time of writes, in millionths; empty without a sampler.
    pub parts_ppm: BTreeMap<String, u64>,
    /// The number of samples.
    pub looks: u64,
}

impl RealTimeOutcome {
    /// The outcome from figures of one shape, case and count of threads.
    pub(super) fn of(figures: &[Figure]) -> Self {
        let first = figures.first();
        let bytes = first.map_or(0, |figure| figure.bytes_per_operation);
        let limit = first.and_then(|figure| figure.limit_per_s).unwrap_or(0.0);
        Self {
            bytes_per_operation: bytes,
            limit_bytes_per_s: (limit * bytes as f64) as u64,
            presets: figures.iter().map(PresetOutcome::of).collect(),
        }
    }

    /// The outcome of the array with these locks.
    pub fn preset(&self, name: &str) -> Option<&PresetOutcome> {
        self.presets.iter().find(|preset| preset.name == name)
    }

    /// A made-up outcome in which all arrays are alike except for their throughput and their locks' share of
    /// the time.
    #[cfg(test)]
    pub(crate) fn made_up(point: &super::RealTimePoint, of: impl Fn(&str) -> MadeUp) -> Self {
        let preset = |name: &str| {
            let MadeUp { bytes_per_s, p99_99_ns, locks_ppm } = of(name);
            let timed = |value: u64| if point.parts { 0 } else { value };
            let parts = [
                ("stripe lock", locks_ppm / 2),
                ("counter lock", locks_ppm - locks_ppm / 2),
                ("copy", 1_000_000 - locks_ppm),
            ];
            let parts = parts.into_iter().filter(|_| point.parts);
            PresetOutcome {
                name: name.to_owned(),
                turn_bytes_per_s: vec![bytes_per_s; point.turns],
                turn_p99_99_ns: if point.parts { vec![] } else { vec![p99_99_ns; point.turns] },
                cpu_ns: 1000,
                percentiles_ns: [1000, 2000, 3000, 4000, p99_99_ns].map(timed),
                max_ns: timed(2 * p99_99_ns),
                operations: timed(1_000_000),
                parts_ppm: parts.map(|(part, ppm)| (part.to_owned(), ppm)).collect(),
                looks: if point.parts { 10_000 } else { 0 },
            }
        };
        Self {
            bytes_per_operation: u64::from(point.chunk_bytes) * (point.raid_devices as u64 - 1),
            limit_bytes_per_s: 20_000_000_000,
            presets: super::COMPARED.map(preset).to_vec(),
        }
    }
}

/// A made-up array.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(crate) struct MadeUp {
    pub(crate) bytes_per_s: u64,
    pub(crate) p99_99_ns: u64,
    pub(crate) locks_ppm: u64,
}

impl PresetOutcome {
    fn of(figure: &Figure) -> Self {
        let bytes = figure.bytes_per_operation as f64;
        let latency = figure.latency_ns;
        let percentiles = latency.map(|of| [of.p50, of.p90, of.p99, of.p99_9, of.p99_99]);
        let part = |(name, share): (&&'static str, &f64)| ((*name).to_owned(), (share * 1e6).round() as u64);
        Self {
            name: figure.locking.clone(),
            turn_bytes_per_s: figure.turns.iter().map(|turn| (turn.per_s * bytes) as u64).collect(),
            turn_p99_99_ns: figure.turns.iter().filter_map(|turn| turn.p99_99_ns).collect(),
            cpu_ns: figure.cpu_ns_per_operation as u64,
            percentiles_ns: percentiles.unwrap_or_default(),
            max_ns: latency.map_or(0, |of| of.max),
            operations: latency.map_or(0, |of| of.operations),
            parts_ppm: figure.parts.iter().map(part).collect(),
            looks: figure.looks,
        }
    }

    /// The median of the turns.
    pub fn bytes_per_s(&self) -> f64 {
        median(self.turn_bytes_per_s.iter().map(|rate| *rate as f64).collect()).unwrap_or(0.0)
    }

    /// The share of both kinds of locks, 0 to 1; none without a sampler.
    pub fn locks(&self) -> Option<f64> {
        let of = |part: &str| self.parts_ppm.get(part).copied();
        Some((of("stripe lock")? + of("counter lock")?) as f64 / 1e6)
    }
}
