//! Random reads, one at a time: seek, half a revolution, transfer and overhead.

use stripewise_sim::model::{
    ClosedLoop, ModelOp, SECTOR_BYTES,
    hdd::{Hdd, HddParams, Spindle},
};

use super::{
    Effort,
    drives::{BLOCK, hdds, random},
};
use crate::{
    parallel::{self, OnProgress},
    plot::{Axis, Plot, Series, Style},
    report::{Check, Section},
};

pub(super) fn section(effort: Effort, on_progress: OnProgress<'_>) -> Section {
    let drives = hdds();
    let count = effort.pick(1000, 20_000);
    let latencies =
        parallel::map("random reads of hard disks", on_progress, &drives, |drive| latencies(drive, count));
    let checks = drives.iter().zip(&latencies).map(|(drive, sorted)| check(drive, sorted)).collect();
    let series = drives.iter().zip(&latencies).enumerate();
    let series = series
        .map(|(hue, (drive, sorted))| Series::new(drive.name, hue, Style::Line, distribution(sorted)))
        .collect();
    Section {
        name: "hdd-latency",
        title: "Hard disks: latency of random reads".to_owned(),
        text: vec![
            "4 KiB anywhere on the disk, one at a time. Expected is the average seek and half a revolution, both of them \
             parameters: what is checked is that curve and angles give them together, not that they are the drive's. A \
             read takes transfer and the drive's overhead (0.1 to 0.3 ms) beside, and random addresses lie a little \
             closer together than random cylinders, because outer cylinders hold more."
                .to_owned(),
        ],
        checks,
        plots: vec![Plot {
            name: "hdd-latency".into(),
            title: "Latency of random 4 KiB reads, queue depth 1".to_owned(),
            x: Axis::from_zero("latency, ms"),
            y: Axis::linear("share of reads, %"),
            series,
        }],
    }
}

/// Sorted latencies in milliseconds.
fn latencies(drive: &HddParams, count: usize) -> Vec<f64> {
    let mut host = ClosedLoop::new(Hdd::new(drive.clone(), Spindle::NOMINAL));
    let blocks = drive.sectors * SECTOR_BYTES / BLOCK;
    let reads = random(ModelOp::Read, blocks, 1).take(count);
    let mut all: Vec<_> = reads.map(|read| host.run(1, [read]).latency_ns() / 1e6).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn check(drive: &HddParams, sorted: &[f64]) -> Check {
    let expected = f64::from(drive.read_seek.average_ns + drive.revolution_ns / 2) / 1e6;
    let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    let source = "average seek + half a revolution";
    Check::near(drive.name, "mean latency of a random read", "ms", (expected, 0.05), source, mean).given()
}

/// A hundred points of the cumulative distribution.
fn distribution(sorted: &[f64]) -> Vec<(f64, f64)> {
    (0..=100).map(|percent| (sorted[(sorted.len() - 1) * percent / 100], percent as f64)).collect()
}
