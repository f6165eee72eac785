//! The results of a load.

use std::{fmt, time::Duration};

use hdrhistogram::Histogram;

/// Relative precision of latencies: three digits.
const DIGITS: u8 = 3;

/// Requests of one kind.
#[derive(Debug, Clone)]
pub struct OpReport {
    /// Requests that succeeded.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed; they count nowhere else here.
    pub errors: u64,
    /// From call to end, in nanoseconds.
    pub latency_ns: Histogram<u64>,
}

impl Default for OpReport {
    fn default() -> Self {
        let latency_ns = Histogram::new(DIGITS).expect("three digits are within the histogram's limits");
        Self { requests: 0, bytes: 0, errors: 0, latency_ns }
    }
}

impl OpReport {
    pub(super) fn record(&mut self, bytes: u64, latency: Duration) {
        self.requests += 1;
        self.bytes += bytes;
        self.latency_ns.record(latency.as_nanos() as u64).expect("it grows as needed");
    }

    /// Adds another report's requests.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency_ns.add(&other.latency_ns).expect("both grow as needed");
    }
}

/// A whole load.
#[derive(Debug, Clone, Default)]
pub struct LoadReport {
    /// Reads.
    pub reads: OpReport,
    /// Writes.
    pub writes: OpReport,
    /// Flushes.
    pub flushes: OpReport,
    /// From the first counted request to the end of the last one.
    pub elapsed: Duration,
}

impl LoadReport {
    /// Reads and writes a second.
    pub fn requests_per_s(&self) -> f64 {
        (self.reads.requests + self.writes.requests) as f64 / self.elapsed.as_secs_f64()
    }

    /// Bytes read and written a second.
    pub fn bytes_per_s(&self) -> f64 {
        (self.reads.bytes + self.writes.bytes) as f64 / self.elapsed.as_secs_f64()
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.flushes.add(&other.flushes);
        self.elapsed = self.elapsed.max(other.elapsed);
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} requests/s, {:.2} MB/s", self.requests_per_s(), self.bytes_per_s() / 1e6)?;
        for (name, op) in [("read", &self.reads), ("write", &self.writes), ("flush", &self.flushes)] {
            if op.requests + op.errors > 0 {
                let us = |quantile| op.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
                let mean = op.latency_ns.mean() / 1e3;
                write!(
                    f,
                    "; {name} us: mean {mean:.0}, p50 {:.0}, p99 {:.0}, p99.99 {:.0}",
                    us(0.5),
                    us(0.99),
                    us(0.9999)
                )?;
                if op.errors > 0 {
                    write!(f, ", {} failed", op.errors)?;
                }
            }
        }
        Ok(())
    }
}
