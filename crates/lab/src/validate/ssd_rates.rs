//! Latencies and sequential rates of SSDs.

use stripewise_sim::model::{
    Asked, ClosedLoop, ModelOp,
    ssd::{Ssd, SsdParams},
};

use super::{
    Effort,
    drives::{BLOCK, WRITE, place_of, random, sequential, smaller_ssds, units},
};
use crate::{
    parallel::{self, OnProgress},
    plot::{Axis, Plot, Series, Style},
    report::{Check, Section},
};

/// Sizes of requests, and how many are under way.
const SIZES: [u64; 6] = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];
const DEPTH: usize = 16;
const UNCOMPRESSED: &str = "The controller compresses, and the sheet's data compresses well. Eight dies to which \
                            32 KiB come in 0.2 ms and that program them in 1.5 ms write 155 MB/s of what does not.";

pub(super) fn section(effort: Effort, on_progress: OnProgress<'_>) -> Section {
    let drives = smaller_ssds(effort.pick(8, 5));
    let bytes = effort.pick(192 << 20, 1 << 30);
    let points: Vec<_> = (0..drives.len())
        .flat_map(|drive| [ModelOp::Read, WRITE].into_iter().map(move |op| (drive, op)))
        .flat_map(|(drive, op)| SIZES.map(|size| (drive, op, size)))
        .collect();
    let rates = parallel::map("sequential rates of SSDs", on_progress, &points, |(drive, op, size)| {
        let requests = sequential(*op, 0, *size).take((bytes / *size as usize).min(20_000));
        run(&drives[*drive], *op, DEPTH, requests).bytes_per_s() / 1e6
    });
    let latencies = parallel::map("latencies of SSDs", on_progress, &drives, |drive| {
        let blocks = u64::from(units(drive));
        [ModelOp::Read, WRITE]
            .map(|op| run(drive, op, 1, random(op, blocks, 4).take(2000)).latency_ns() / 1e3)
    });
    let line = |drive, op| -> Vec<(f64, f64)> {
        let of = points.iter().zip(&rates).filter(|((at, what, _), _)| (*at, *what) == (drive, op));
        of.map(|((_, _, size), rate)| (*size as f64 / 1024.0, *rate)).collect()
    };
    let mut series = Vec::new();
    for (hue, drive) in drives.iter().enumerate() {
        let name = |what| format!("{}, {what}", drive.name);
        series.push(Series::new(name("read"), hue, Style::Marked, line(hue, ModelOp::Read)));
        series.push(Series::new(name("write"), hue, Style::Dashed, line(hue, WRITE)));
    }
    let place = |name: &str| place_of(drives.iter().map(|drive| drive.name), name);
    let best = |name: &str, op| line(place(name), op).last().map_or(f64::NAN, |(_, rate)| *rate);
    let latency = |name: &str, op: usize| latencies[place(name)][op];
    Section {
        name: "ssd-rates",
        title: "SSDs: sequential rates and latencies".to_owned(),
        text: vec![format!(
            "Requests one after another over a fresh (writes) or filled drive (reads), {DEPTH} under way; and 4 KiB at \
             random, one at a time. Sequential reads of 4 KiB are slower than random ones at the same depth: neighbours lie in one \
             die, which senses one at a time, and the model does not read ahead."
        )],
        checks: checks(best, latency),
        plots: vec![Plot {
            name: "ssd-rates".into(),
            title: format!("Sequential rates by size of request, {DEPTH} under way"),
            x: Axis::log2("size of request, KiB"),
            y: Axis::log10("MB/s"),
            series,
        }],
    }
}

fn run(
    params: &SsdParams,
    op: ModelOp,
    depth: usize,
    asked: impl Iterator<Item = Asked>,
) -> stripewise_sim::model::Window {
    let mut host = ClosedLoop::new(Ssd::new(params.clone()));
    if op == ModelOp::Read {
        host.model.fill(units(params));
    }
    let end_bytes = u64::from(units(params)) * BLOCK;
    host.run(depth, asked.map_while(|one| (one.1 + one.2 <= end_bytes).then_some(one)))
}

fn checks(best: impl Fn(&str, ModelOp) -> f64, latency: impl Fn(&str, usize) -> f64) -> Vec<Check> {
    let rate = |name: &str, op, expected, tolerance, source| {
        let what = if op == ModelOp::Read { "sequential read" } else { "sequential write" };
        Check::near(name, what, "MB/s", (expected, tolerance), source, best(name, op))
    };
    let latency = |name: &str, op: usize, expected| {
        let what = ["latency of a read", "latency of a write"][op];
        Check::near(name, what, "us", (expected, 0.15), "sheet", latency(name, op))
    };
    vec![
        rate("X25-E", ModelOp::Read, 250.0, 0.1, "manual").note(
            "The model has the wire's 300 MB/s; the rest is the protocol's share of the wire, which is not modelled.",
        ),
        rate("X25-E", WRITE, 170.0, 0.15, "manual").given(),
        latency("X25-E", 0, 75.0).note(
            "4 KiB take 102 us on a channel of 40 MB/s alone, so the manual's latency cannot be of random reads of 4 KiB over \
             such a channel: it is of something shorter, or read ahead. The model does not read ahead.",
        ),
        latency("X25-E", 1, 85.0)
            .note("Complete in the buffer. The firmware's time is derived from reads; that of writes is not known."),
        rate("Intel 535", ModelOp::Read, 540.0, 0.12, "sheet")
            .note("The model has the wire's 600 MB/s without the protocol's share of it."),
        rate("Intel 535", WRITE, 490.0, 0.15, "sheet").note(UNCOMPRESSED),
        rate("980 PRO", ModelOp::Read, 7000.0, 0.12, "sheet")
            .note("The model has the wire's 7877 MB/s without the protocol's share of it."),
        rate("980 PRO", WRITE, 2000.0, 0.15, "sheet, beyond the TurboWrite cache")
            .note("82 MB/s a die, published for the generation, and 32 dies. What limits the real drive is not known."),
        rate("980 PRO", WRITE, 5000.0, 0.15, "sheet, into the TurboWrite cache")
            .note("Cells used for one bit as a cache are not modelled; the model writes as the drive does beyond it."),
        latency("980 PRO", 1, 1e6 / 60e3).note(
            "The sheet's 60,000 writes a second at depth 1 include the host's software, which is not part of the drive.",
        ),
    ]
}
