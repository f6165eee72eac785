//! The same loads in real time.

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use stripewise_device::{
    memory::MemoryDevice,
    uring::{Runtime, RuntimeOptions},
    wrap::Delay,
};
use stripewise_load::{Extent, Load, Offsets, Pace, Step, Stop, run_steps};

#[test]
fn a_load_runs_on_real_workers() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let env = runtime.env();
    let device = Delay::new(MemoryDevice::new("memory", 1 << 20), env.clone(), Duration::from_millis(2));
    let load = Load {
        clients: 2,
        depth: 4,
        offsets: Offsets::Sequential,
        read_percent: 50,
        stop: Stop::Requests(100),
        ..Load::default()
    };
    let report = runtime.block_on(async move { stripewise_load::run(env, Arc::new(device), load).await });
    assert_eq!(report.reads.requests + report.writes.requests, 100);
    assert!(report.reads.latency_ns.min() >= 2_000_000, "{report}");
    assert!(report.elapsed >= Duration::from_millis(2 * 100 / 8), "{report}");
}

#[test]
fn steps_come_one_after_another_and_reads_beside_writes() {
    const REQUEST: Duration = Duration::from_millis(2);
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let env = runtime.env();
    let device = Delay::new(MemoryDevice::new("memory", 1 << 20), env.clone(), REQUEST);
    let extents = |count: u64| {
        (0..count).map(|at| Extent { offset_bytes: at * 4096, len_bytes: 4096 }).collect::<Vec<_>>()
    };
    let steps = vec![
        Step { reads: extents(3), writes: extents(8) },
        Step::default(),
        Step { reads: Vec::new(), writes: extents(1) },
    ];
    let pace = Pace { reads: 1, writes: 4, fua: false };
    let report = runtime.block_on(async move { run_steps(env, Arc::new(device), steps, pace).await });
    assert_eq!((report.reads.requests, report.writes.requests), (3, 9));
    assert!(report.elapsed >= 4 * REQUEST, "three reads, one by one, and a write after them: {report}");
    assert!(report.writes.latency_ns.min() >= 2_000_000, "{report}");
}
