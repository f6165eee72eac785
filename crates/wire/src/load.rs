//! Load that a daemon puts on its array, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Pattern;

/// A load. It ends after its time, or when each job has read and written its size; one of them is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadSpec {
    /// What is done.
    pub rw: Pattern,
    /// Bytes of each request.
    pub block_bytes: u64,
    /// Requests that each job keeps under way.
    pub iodepth: u32,
    /// Clients that each do all of it.
    pub numjobs: u32,
    /// Of each job; also the region from the device's begin in which all work. The whole device, if none.
    pub size_bytes: Option<u64>,
    /// How long, however much that is.
    pub runtime_ms: Option<u64>,
    /// Of a hundred requests of `rw` and `randrw`, how many read.
    pub read_percent: u8,
    /// What places and contents follow from.
    pub seed: u64,
}

impl LoadSpec {
    /// Of a hundred requests, how many read.
    pub fn reads_of_hundred(&self) -> u8 {
        match self.rw {
            Pattern::Read | Pattern::RandRead => 100,
            Pattern::Write | Pattern::RandWrite => 0,
            Pattern::Rw | Pattern::RandRw => self.read_percent,
        }
    }

    /// Whether anything is overwritten.
    pub fn writes(&self) -> bool {
        self.reads_of_hundred() < 100
    }

    /// How much all jobs read and write together, if that ends it.
    pub fn total_bytes(&self) -> Option<u64> {
        let size = self.size_bytes.filter(|_| self.runtime_ms.is_none())?;
        let whole = (size / self.block_bytes.max(1)).saturating_mul(self.block_bytes);
        Some(whole.saturating_mul(self.numjobs.into()))
    }
}

/// How a load stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadStatus {
    /// Read and written so far.
    pub done_bytes: u64,
    /// Once it is over.
    pub figures: Option<Box<LoadFigures>>,
}

/// A load's figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadFigures {
    /// The load.
    pub load: LoadSpec,
    /// How it ended.
    pub ended: Ended,
    /// Of a load that failed: what did.
    pub failure: Option<String>,
    /// From the first request to the last one's end.
    pub elapsed_s: f64,
    /// Read and written.
    pub done_bytes: u64,
    /// None if nothing was read.
    pub read: Option<OpFigures>,
    /// None if nothing was written.
    pub write: Option<OpFigures>,
    /// What an array's counters grew by; of other devices, none.
    pub counters: Option<BTreeMap<String, u64>>,
    /// The kinds of an array's background jobs that were under way meanwhile.
    pub jobs: Vec<String>,
}

/// How a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All of it was done.
    Complete,
    /// Somebody ended it before.
    Interrupted,
    /// A request failed, which ended it.
    Failed,
}

/// Requests of one kind. Times are from the call to the end of the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpFigures {
    /// Requests that ended well.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed; they are in nothing else here.
    pub errors: u64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// The mean time.
    pub mean_ns: f64,
    /// Half take no longer.
    pub p50_ns: u64,
    /// 90 % take no longer.
    pub p90_ns: u64,
    /// 99 % take no longer.
    pub p99_ns: u64,
    /// 99.9 % take no longer.
    pub p99_9_ns: u64,
    /// 99.99 % take no longer.
    pub p99_99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}
