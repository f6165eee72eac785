//! Decisions of write selection.

use stripewise::{
    Decision, TraceFilter, Traced,
    internals::plan::{Band, Cycle},
};
use stripewise_wire::{BandStatus, DecisionStatus, TraceChoice, TraceCycle, TracedStatus};

/// The filter for the decisions asked for.
pub(crate) fn trace_filter(choice: TraceChoice) -> TraceFilter {
    TraceFilter {
        cycles: choice.cycles.into_iter().map(cycle_of).collect(),
        stripes: choice.stripes.map(|(from, to)| from..to),
        chosen_only: choice.chosen_only,
        min_bytes: choice.min_bytes,
    }
}

fn cycle_of(cycle: TraceCycle) -> Cycle {
    match cycle {
        TraceCycle::Rmw => Cycle::Rmw,
        TraceCycle::Rcw => Cycle::Rcw,
        TraceCycle::Full => Cycle::Full,
    }
}

/// Decisions that were traced.
pub(crate) fn traced_status(traced: &Traced) -> TracedStatus {
    let decisions = traced.decisions.iter().map(decision_status).collect();
    TracedStatus { decisions, lost: traced.lost, next: traced.next }
}

fn decision_status(decision: &Decision) -> DecisionStatus {
    DecisionStatus {
        number: decision.number,
        at_ns: decision.at.0,
        stripe: decision.stripe,
        offset_bytes: decision.offset_bytes,
        len_bytes: decision.len_bytes,
        way: decision.way.text(),
        policy: decision.policy.to_owned(),
        bands: decision.bands.iter().map(band_status).collect(),
    }
}

/// Rows that are written alike.
pub(crate) fn band_status(band: &Band) -> BandStatus {
    BandStatus {
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

fn cycle_name(cycle: Cycle) -> &'static str {
    match cycle {
        Cycle::Direct => "direct",
        Cycle::Full => "full",
        Cycle::Rmw => "rmw",
        Cycle::Rcw => "rcw",
        Cycle::Recover => "recover",
    }
}
