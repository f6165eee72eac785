//! How many I/Os of a modelled SSD alone are simulated in a second of real time, on one core: random reads,
//! random writes to a fresh drive and to one in its steady state, 4 KiB, 32 under way.
//!
//! `cargo run --release -p stripewise-sim --example ssd_rate [requests]`

use std::time::Instant;

use fastrand::Rng;
use stripewise_sim::model::{
    Asked, ClosedLoop, ModelOp,
    ssd::{Ssd, SsdParams, UNIT_BYTES},
};

fn main() {
    let requests =
        std::env::args().nth(1).map_or(2_000_000, |text| text.parse().expect("a number of requests"));
    let drives = [SsdParams::intel_x25e_64(), SsdParams::intel_535_120(), SsdParams::samsung_980_pro_1tb()];
    for params in drives.map(|params| params.scaled(8)) {
        let units = params.sectors * 512 / UNIT_BYTES;
        let mut host = ClosedLoop::new(Ssd::new(params.clone()));
        let write = ModelOp::Write { fua: false };
        for (what, op) in [("fresh writes", write), ("steady writes", write), ("reads", ModelOp::Read)] {
            let (start, begin) = (Instant::now(), host.now());
            host.run(32, random(op, requests, units));
            let virtual_s = host.now().since(begin).as_secs_f64();
            let per_s = requests as f64 / start.elapsed().as_secs_f64();
            println!(
                "{}: {what}: {per_s:.0} simulated a second; {virtual_s:.1} s of the drive's time",
                params.name
            );
        }
        println!("  {}", stripewise_sim::model::DiskModel::counters(&host.model));
    }
}

fn random(op: ModelOp, count: usize, units: u64) -> impl Iterator<Item = Asked> {
    let mut rng = Rng::with_seed(7);
    (0..count).map(move |_| (op, rng.u64(..units) * UNIT_BYTES, UNIT_BYTES))
}
