//! Random reads by queue depth.

use stripewise_sim::model::{
    ClosedLoop, ModelOp, SECTOR_BYTES,
    hdd::{Hdd, Spindle},
    ssd::{Ssd, SsdParams},
};

use super::{
    Effort,
    drives::{BLOCK, hdds, place_of, random, smaller_ssds, units},
};
use crate::{
    parallel::{self, OnProgress},
    plot::{Axis, Plot, Series, Style},
    report::{Check, Section},
};

/// At most this much of a drive is filled for reads of flash: more makes no difference to them, only to
/// memory.
const FILLED_UNITS_MAX: u32 = 4 << 20;
const DEPTHS: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Hard disks take no more commands than the last of these depths.
const HDD_DEPTHS: usize = 6;

pub(super) fn section(effort: Effort, on_progress: OnProgress<'_>) -> Section {
    let (hdds, ssds) = (hdds(), smaller_ssds(effort.pick(8, 4)));
    let drives = hdds.len() + ssds.len();
    let depths = |drive| if drive < hdds.len() { &DEPTHS[..HDD_DEPTHS] } else { &DEPTHS[..] };
    let points: Vec<_> =
        (0..drives).flat_map(|drive| depths(drive).iter().map(move |depth| (drive, *depth))).collect();
    let rates =
        parallel::map("random reads by queue depth", on_progress, &points, |(drive, depth)| {
            match hdds.get(*drive) {
                Some(hdd) => {
                    let mut host = ClosedLoop::new(Hdd::new(hdd.clone(), Spindle::NOMINAL));
                    let blocks = hdd.sectors * SECTOR_BYTES / BLOCK;
                    let reads = random(ModelOp::Read, blocks, 2).take(effort.pick(500, 10_000));
                    host.run(*depth, reads).requests_per_s()
                }
                None => ssd_rate(&ssds[*drive - hdds.len()], *depth, effort.pick(5000, 200_000)),
            }
        });
    let rate_of = |drive, depth| {
        let index = points.iter().position(|point| *point == (drive, depth)).expect("a point that was run");
        rates[index]
    };
    let line = |drive| depths(drive).iter().map(|depth| (*depth as f64, rate_of(drive, *depth))).collect();
    let series_of = |first: usize, names: &[&'static str]| -> Vec<Series> {
        let named = names.iter().enumerate();
        named.map(|(hue, name)| Series::new(*name, hue, Style::Marked, line(first + hue))).collect()
    };
    let hdd_names: Vec<_> = hdds.iter().map(|drive| drive.name).collect();
    let ssd_names: Vec<_> = ssds.iter().map(|drive| drive.name).collect();
    let published = |names: &[&'static str], drive: &str, points| {
        let hue = place_of(names.iter().copied(), drive);
        Series::new(format!("published, {drive}"), hue, Style::Rings, points)
    };
    let mut of_hdds = series_of(0, &hdd_names);
    of_hdds.push(published(&hdd_names, "ST18000NM000J", vec![(16.0, 170.0)]));
    let mut of_ssds = series_of(hdds.len(), &ssd_names);
    of_ssds.extend([
        published(&ssd_names, "X25-E", vec![(32.0, 35e3)]),
        published(&ssd_names, "Intel 535", vec![(32.0, 45e3)]),
        published(&ssd_names, "980 PRO", vec![(1.0, 22e3), (512.0, 1e6)]),
    ]);
    let rate =
        |drive: &str, depth| rate_of(place_of(hdd_names.iter().chain(&ssd_names).copied(), drive), depth);
    Section {
        name: "queue-depth",
        title: "Random reads by queue depth".to_owned(),
        text: vec![
            "4 KiB anywhere on the disk; SSDs are smaller ones of the same ratios, filled. Hard disks order commands by \
             themselves, SSDs spread them over dies until firmware, channels or dies are busy. The firmware's time for a \
             command was derived from the SSDs' published rates at full depth; the rates at depth 1 follow from the \
             flash. Published are single rates, shown as rings, and no whole curves; of the papers' two hard disks not even \
             these were found, so that their curves rest on the latency at depth 1 above and on the ordering alone."
                .to_owned(),
        ],
        checks: vec![
            Check::near("ST18000NM000J", "random reads, depth 16", "/s", (170.0, 0.05), "manual", rate("ST18000NM000J", 16)),
            Check::near("X25-E", "random reads, depth 32", "/s", (35e3, 0.05), "manual", rate("X25-E", 32)).given(),
            Check::near("Intel 535", "random reads, depth 32", "/s", (45e3, 0.05), "sheet", rate("Intel 535", 32))
                .given(),
            Check::near("980 PRO", "random reads, depth 1", "/s", (22e3, 0.1), "sheet", rate("980 PRO", 1)).note(
                "45 us of sensing are what was published for dies of the generation; the drive's own are not.",
            ),
            Check::near("980 PRO", "random reads, depth 32 x 16", "/s", (1e6, 0.05), "sheet", rate("980 PRO", 512))
                .given()
                .note("32 dies of two planes that work as one give 32 / 48 us = 0.66 million reads at most. The real \
                       drive needs planes that read independently; in the model planes are folded into pages."),
        ],
        plots: vec![
            Plot {
                name: "queue-depth-hdd".into(),
                title: "Hard disks: random 4 KiB reads".to_owned(),
                x: Axis::log2("queue depth"),
                y: Axis::from_zero("reads/s"),
                series: of_hdds,
            },
            Plot {
                name: "queue-depth-ssd".into(),
                title: "SSDs: random 4 KiB reads".to_owned(),
                x: Axis::log2("queue depth"),
                y: Axis::log10("reads/s"),
                series: of_ssds,
            },
        ],
    }
}

fn ssd_rate(params: &SsdParams, depth: usize, requests: usize) -> f64 {
    let mut host = ClosedLoop::new(Ssd::new(params.clone()));
    let filled = units(params).min(FILLED_UNITS_MAX);
    host.model.fill(filled);
    host.run(depth, random(ModelOp::Read, u64::from(filled), 3).take(requests)).requests_per_s()
}
