//! The same loads in real time.

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use stripewise_device::{
    memory::MemoryDevice,
    uring::{Runtime, RuntimeOptions},
    wrap::Delay,
};
use stripewise_load::{Load, Offsets, Stop};

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
