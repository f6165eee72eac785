//! Decisions of write selection as programs read them, and which of them are asked for.

use serde::{Deserialize, Serialize};
use stripewise::{
    Decision, TraceFilter, Traced,
    plan::{Band, Cycle},
};

/// A cycle that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TraceCycle {
    /// Read-modify-write.
    Rmw,
    /// Reconstruct-write.
    Rcw,
    /// All data of the row is new.
    Full,
}

/// Which decisions are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TraceChoice {
    /// Only with rows of these; empty for all.
    pub(crate) cycles: Vec<TraceCycle>,
    /// From the first to before the second.
    pub(crate) stripes: Option<(u64, u64)>,
    pub(crate) chosen_only: bool,
    pub(crate) min_bytes: u64,
}

/// Decisions from a number on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TracedStatus {
    pub(crate) decisions: Vec<DecisionStatus>,
    /// Decisions that were dropped before they were asked for.
    pub(crate) lost: u64,
    pub(crate) next: u64,
}

/// A stripe write as it was planned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DecisionStatus {
    pub(crate) number: u64,
    /// On the daemon's own clock.
    pub(crate) at_ns: u64,
    pub(crate) stripe: u64,
    pub(crate) offset_bytes: u64,
    pub(crate) len_bytes: u64,
    pub(crate) policy: String,
    pub(crate) bands: Vec<BandStatus>,
}

/// Rows that are written alike.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BandStatus {
    /// Runs of rows, from the first to before the second.
    pub(crate) rows: Vec<(usize, usize)>,
    pub(crate) cycle: String,
    pub(crate) rmw: u32,
    pub(crate) rcw: u32,
    /// Whether the policy had a choice.
    pub(crate) free: bool,
    /// Whether a block is overwritten in part.
    pub(crate) partial: bool,
    /// What the policy estimated, if it does.
    pub(crate) rmw_ns: Option<u64>,
    pub(crate) rcw_ns: Option<u64>,
}

impl BandStatus {
    /// Whether the cycle chosen is estimated to cost more than the other, which is cheaper by less than the policy's margin.
    pub(crate) fn is_by_margin(&self) -> bool {
        match self.cycle.as_str() {
            "rmw" => self.rmw_ns > self.rcw_ns,
            "rcw" => self.rcw_ns > self.rmw_ns,
            _ => false,
        }
    }
}

impl From<TraceCycle> for Cycle {
    fn from(cycle: TraceCycle) -> Self {
        match cycle {
            TraceCycle::Rmw => Self::Rmw,
            TraceCycle::Rcw => Self::Rcw,
            TraceCycle::Full => Self::Full,
        }
    }
}

impl From<TraceChoice> for TraceFilter {
    fn from(choice: TraceChoice) -> Self {
        Self {
            cycles: choice.cycles.into_iter().map(Cycle::from).collect(),
            stripes: choice.stripes.map(|(from, to)| from..to),
            chosen_only: choice.chosen_only,
            min_bytes: choice.min_bytes,
        }
    }
}

impl From<Traced> for TracedStatus {
    fn from(traced: Traced) -> Self {
        let decisions = traced.decisions.iter().map(DecisionStatus::from).collect();
        Self { decisions, lost: traced.lost, next: traced.next }
    }
}

impl From<&Decision> for DecisionStatus {
    fn from(decision: &Decision) -> Self {
        Self {
            number: decision.number,
            at_ns: decision.at.0,
            stripe: decision.stripe,
            offset_bytes: decision.offset_bytes,
            len_bytes: decision.len_bytes,
            policy: decision.policy.to_owned(),
            bands: decision.bands.iter().map(BandStatus::from).collect(),
        }
    }
}

impl From<&Band> for BandStatus {
    fn from(band: &Band) -> Self {
        Self {
            rows: band.rows.runs().map(|run| (run.start, run.end)).collect(),
            cycle: cycle_name(band.cycle).to_owned(),
            rmw: band.rmw,
            rcw: band.rcw,
            free: band.free,
            partial: band.partial,
            rmw_ns: band.estimate.map(|estimate| estimate.rmw_ns),
            rcw_ns: band.estimate.map(|estimate| estimate.rcw_ns),
        }
    }
}

fn cycle_name(cycle: Cycle) -> &'static str {
    match cycle {
        Cycle::Direct => "direct",
        Cycle::Full => "full",
        Cycle::Rmw => "rmw",
        Cycle::Rcw => "rcw",
        Cycle::Recover => "recover",
    }
}
