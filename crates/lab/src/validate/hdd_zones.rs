//! Sequential rate from the first sector to the last.

use stripewise_sim::model::{
    ClosedLoop, ModelOp, SECTOR_BYTES,
    hdd::{Hdd, HddParams, Spindle},
};

use super::{
    Effort,
    drives::{hdds, sequential},
};
use crate::{
    parallel::{self, OnProgress},
    plot::{Axis, Plot, Series, Style},
    report::{Check, Section},
};

const REQUEST_BYTES: u64 = 256 << 10;
/// Requests at each place: 100 MiB, over many tracks.
const REQUESTS: usize = 400;

pub(super) fn section(effort: Effort, on_progress: OnProgress<'_>) -> Section {
    let steps = effort.pick(4, 40);
    let drives = hdds();
    let points: Vec<_> =
        (0..drives.len()).flat_map(|drive| (0..=steps).map(move |step| (drive, step))).collect();
    let rates = parallel::map("sequential rate by zone", on_progress, &points, |(drive, step)| {
        rate(&drives[*drive], *step as f64 / f64::from(steps))
    });
    let by_drive: Vec<&[f64]> = rates.chunks(steps as usize + 1).collect();
    let line = |rates: &[f64]| -> Vec<_> {
        let share = |step: usize| step as f64 * 100.0 / f64::from(steps);
        rates.iter().enumerate().map(|(step, rate)| (share(step), *rate)).collect()
    };
    let measured = drives.iter().zip(&by_drive).enumerate();
    let mut series: Vec<_> = measured
        .map(|(hue, (drive, rates))| Series::new(drive.name, hue, Style::Line, line(rates)))
        .collect();
    series.extend([
        Series::new("published, WD6401AALS", 0, Style::Rings, vec![(0.0, 106.0)]),
        Series::new("published, ST373454LC", 1, Style::Rings, vec![(0.0, 96.0), (100.0, 58.0)]),
        Series::new("published, ST18000NM000J", 2, Style::Rings, vec![(0.0, 270.0)]),
    ]);
    Section {
        name: "hdd-zones",
        title: "Hard disks: sequential rate by zone".to_owned(),
        text: vec![
            "Reads of 256 KiB one after another, eight under way, from places between the first sector and the last. \
             Sectors per track were derived from the published rates."
                .to_owned(),
        ],
        checks: checks(&by_drive),
        plots: vec![Plot {
            name: "hdd-zones".into(),
            title: "Sequential read rate".to_owned(),
            x: Axis::linear("place on the disk, % of its sectors"),
            y: Axis::from_zero("MB/s"),
            series,
        }],
    }
}

/// MB/s from a place on, 0 to 1.
fn rate(drive: &HddParams, place: f64) -> f64 {
    let span_bytes = REQUESTS as u64 * REQUEST_BYTES;
    let last = drive.sectors * SECTOR_BYTES - span_bytes;
    let start_bytes = (last as f64 * place) as u64 / REQUEST_BYTES * REQUEST_BYTES;
    let mut host = ClosedLoop::new(Hdd::new(drive.clone(), Spindle::NOMINAL));
    let reads = sequential(ModelOp::Read, start_bytes, REQUEST_BYTES).take(REQUESTS);
    host.run(8, reads).bytes_per_s() / 1e6
}

fn checks(by_drive: &[&[f64]]) -> Vec<Check> {
    let check = |drive: usize, name, what, at: usize, expected, source| {
        Check::near(name, what, "MB/s", (expected, 0.03), source, by_drive[drive][at]).given()
    };
    let last = by_drive[1].len() - 1;
    vec![
        check(0, "WD6401AALS", "sequential read, outer edge", 0, 106.0, "specification sheet"),
        check(1, "ST373454LC", "sequential read, outer edge", 0, 96.0, "manual"),
        check(1, "ST373454LC", "sequential read, inner edge", last, 58.0, "manual"),
        check(2, "ST18000NM000J", "sequential read, outer edge", 0, 270.0, "manual"),
    ]
}
