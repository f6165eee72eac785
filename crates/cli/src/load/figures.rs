//! The figures of a load.

use std::time::Duration;

use stripewise_load::{Control, LoadReport, OpReport};
use stripewise_wire::{Ended, LoadFigures, LoadSpec, OpFigures};

/// The figures of a load on any device. The control's owner has not ended the load after it was over.
pub(crate) fn figures_of(load: LoadSpec, report: &LoadReport, control: &Control) -> LoadFigures {
    let elapsed_s = report.elapsed.as_secs_f64();
    let failure = control.failure();
    let ended = match control.is_ended() {
        _ if failure.is_some() => Ended::Failed,
        true if !is_reached(&load, report) => Ended::Interrupted,
        _ => Ended::Complete,
    };
    let of = |op: &OpReport| (op.requests + op.errors > 0).then(|| op_figures(op, elapsed_s));
    LoadFigures {
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

/// Whether a load has done all that was asked of it.
fn is_reached(load: &LoadSpec, report: &LoadReport) -> bool {
    match load.total_bytes() {
        Some(bytes) => report.reads.bytes + report.writes.bytes >= bytes,
        None => report.elapsed >= Duration::from_millis(load.runtime_ms.unwrap_or(0)),
    }
}

fn op_figures(op: &OpReport, elapsed_s: f64) -> OpFigures {
    let at = |quantile| op.latency_ns.value_at_quantile(quantile);
    let per_s = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
    OpFigures {
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
