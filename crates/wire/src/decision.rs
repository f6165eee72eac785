//! Decisions of write selection as programs read them, and which of them are asked for.

use serde::{Deserialize, Serialize};

use crate::TraceCycle;

/// Which decisions are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TraceChoice {
    /// Only with rows of these; empty for all.
    pub cycles: Vec<TraceCycle>,
    /// From the first to before the second.
    pub stripes: Option<(u64, u64)>,
    /// Only those in which the policy had a choice.
    pub chosen_only: bool,
    /// Only of at least so many bytes in the stripe.
    pub min_bytes: u64,
}

/// Decisions from a number on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TracedStatus {
    /// In the order in which they were made.
    pub decisions: Vec<DecisionStatus>,
    /// Decisions that were dropped before they were asked for.
    pub lost: u64,
    /// The number to ask from next.
    pub next: u64,
}

/// A stripe write as it was planned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DecisionStatus {
    /// Counted from 0 since the trace began, of those that were asked for.
    pub number: u64,
    /// On the daemon's own clock.
    pub at_ns: u64,
    /// The stripe's number.
    pub stripe: u64,
    /// The first byte written, in the array.
    pub offset_bytes: u64,
    /// How much.
    pub len_bytes: u64,
    /// Which way it came, by the cache or past it, and why; none without a cache.
    #[serde(default)]
    pub way: Option<String>,
    /// The policy that decided.
    pub policy: String,
    /// How its rows are written.
    pub bands: Vec<BandStatus>,
}

/// Rows that are written alike.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BandStatus {
    /// Runs of rows, from the first to before the second.
    pub rows: Vec<(usize, usize)>,
    /// `direct`, `full`, `rmw`, `rcw` or `recover`.
    pub cycle: String,
    /// Blocks of each row that read-modify-write would read.
    pub rmw: u32,
    /// Blocks of each row that reconstruct-write would read.
    pub rcw: u32,
    /// Whether the policy had a choice.
    pub free: bool,
    /// Whether a block is overwritten in part.
    pub partial: bool,
    /// What the policy estimated read-modify-write to take, if it estimates.
    pub rmw_ns: Option<u64>,
    /// The same of reconstruct-write.
    pub rcw_ns: Option<u64>,
}

impl BandStatus {
    /// Whether the cycle chosen is estimated to cost more than the other, which is cheaper by less than the
    /// policy's margin.
    pub fn is_by_margin(&self) -> bool {
        match self.cycle.as_str() {
            "rmw" => self.rmw_ns > self.rcw_ns,
            "rcw" => self.rcw_ns > self.rmw_ns,
            _ => false,
        }
    }
}
