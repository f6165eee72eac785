//! Strides on the modelled drives: what the engine's stride benchmark finds on each (msc-ct III-D, Fig. 9), and single
//! passes over scattered blocks, which it does not make (Fig. 1 and 15).

use fastrand::Rng;
use stripewise_engine::{StrideRecords, Touch, measure_strides};
use stripewise_format::extension::StrideRecord;
use stripewise_load::exponential_stride;
use stripewise_sim::{
    World,
    model::{
        Asked, ClosedLoop, Contents, DiskModel, DiskOptions, ModelOp, SECTOR_BYTES,
        hdd::{Hdd, HddParams, Spindle},
        ssd::{Ssd, SsdParams},
    },
};

use crate::{
    plot::{Axis, Plot, Series, Style},
    validate::drives::{BLOCK, hdds, ssds},
};

/// A gap is worth filling if to skip it takes longer than this, by what all blocks take (msc-ct III-D).
pub(crate) const THRESHOLD: f64 = 1.2;
/// The workspace of a single pass: 64 MiB, of a hard disk from the middle on, where the benchmark measures, too.
pub(crate) const SPAN_BLOCKS: u64 = 16_384;
/// Requests under way in it, as in the paper (32 to 64).
pub(crate) const DEPTH: usize = 32;
/// The SSDs are halved so many times.
const SSD_HALVINGS: u32 = 4;
/// Neighbouring blocks of a pass are merged up to this size, as the kernel's elevator does.
const MERGED_BLOCKS: u64 = 32;

/// A modelled drive.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    /// Its name in tables and plots.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What a drive is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A hard disk.
    Hdd(HddParams),
    /// Flash.
    Ssd(SsdParams),
}

/// All drives that are modelled. Hard disks acknowledge writes that are on the medium: the paper's cache policy.
pub(crate) fn disks() -> Vec<Disk> {
    let through = |params: HddParams| {
        let off = if params.write_cache { ", cache off" } else { "" };
        Disk { name: format!("{}{off}", params.name), kind: Kind::Hdd(params.with_write_cache(false)) }
    };
    let flash = |params: SsdParams| Disk { name: params.name.to_owned(), kind: Kind::Ssd(params) };
    hdds().into_iter().map(through).chain(ssds().into_iter().map(flash)).collect()
}

impl Disk {
    /// Whether blocks pass under a head.
    pub(crate) fn rotates(&self) -> bool {
        matches!(self.kind, Kind::Hdd(_))
    }

    /// What the engine's benchmark finds on it: on all of a hard disk, on a part of an SSD, whose places are alike.
    pub(crate) fn strides(&self) -> StrideRecords {
        let options = DiskOptions { contents: Contents::None, ..DiskOptions::default() };
        let mut world = World::new(1);
        let disk = match &self.kind {
            Kind::Hdd(params) => world.add_hdd(&*self.name, params.clone(), options),
            Kind::Ssd(params) => {
                let size_bytes = Some(SPAN_BLOCKS * BLOCK);
                world.add_disk(&*self.name, written(params), DiskOptions { size_bytes, ..options })
            }
        };
        let env = world.env();
        let found = world.run(async move { measure_strides(&*env, &*disk, Touch::WriteBack).await });
        found.expect("a modelled disk has no errors")
    }

    /// Where the workspace of a pass begins.
    fn start_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Hdd(params) => params.sectors / 2 * SECTOR_BYTES / BLOCK * BLOCK,
            Kind::Ssd(_) => 0,
        }
    }

    /// How long a pass over runs of blocks takes, in nanoseconds.
    pub(crate) fn pass_ns(&self, op: ModelOp, runs: &[Run]) -> f64 {
        let requests = requests(op, self.start_bytes(), runs);
        match &self.kind {
            Kind::Hdd(params) => elapsed_ns(Hdd::new(params.clone(), Spindle::NOMINAL), requests),
            Kind::Ssd(params) => elapsed_ns(written(params), requests),
        }
    }
}

/// A drive whose workspace was written before.
fn written(params: &SsdParams) -> Ssd {
    // Only the first 64 MiB are in use: a drive of the same dies with fewer blocks needs less memory.
    let mut ssd = Ssd::new(params.clone().scaled(SSD_HALVINGS));
    ssd.fill(SPAN_BLOCKS as u32);
    ssd
}

fn elapsed_ns(model: impl DiskModel, requests: Vec<Asked>) -> f64 {
    ClosedLoop::new(model).run(DEPTH, requests).elapsed_ns as f64
}

/// A curve of the benchmark: strides in blocks, and the time over that of all blocks.
pub(crate) fn curve(record: &StrideRecord) -> Vec<(f64, f64)> {
    let times = (1_u32..).zip(record.times).filter(|(_, time)| *time > 0);
    times.map(|(stride, time)| (f64::from(stride), f64::from(time) / 1000.0)).collect()
}

/// Lines of all drives over strides, and the threshold.
pub(crate) fn plot(
    (name, title): (&'static str, &str),
    x: &str,
    disks: &[Disk],
    lines: &[Vec<(f64, f64)>],
) -> Plot {
    let named = disks.iter().zip(lines).enumerate();
    let mut series: Vec<_> = named
        .map(|(hue, (disk, line))| Series::new(disk.name.as_str(), hue, Style::Marked, line.clone()))
        .collect();
    let end = lines.iter().flatten().map(|(x, _)| *x).fold(1.0, f64::max);
    let threshold = vec![(1.0, THRESHOLD), (end, THRESHOLD)];
    series.push(Series::new("threshold of msc-ct, 1.2", disks.len(), Style::Dashed, threshold));
    let y = Axis::log10("turnaround time, contiguous = 1");
    Plot { name: name.into(), title: title.to_owned(), x: Axis::log2(x), y, series }
}

/// Neighbouring blocks: the first of them, and how many.
pub(crate) type Run = (u64, u64);

/// All blocks of the workspace.
pub(crate) fn contiguous() -> Vec<Run> {
    vec![(0, SPAN_BLOCKS)]
}

/// Blocks of the workspace with exponentially distributed strides, at most `max`. The mean comes out lower: with 32, 11
/// instead of 16.
pub(crate) fn exponential(mean: u64, max: u64) -> Vec<Run> {
    let mut rng = Rng::with_seed(mean);
    let mut runs = Vec::new();
    let mut at = 0;
    while at < SPAN_BLOCKS {
        runs.push((at, 1));
        at += exponential_stride(&mut rng, mean, max);
    }
    runs
}

/// The mean stride between the first blocks of runs.
pub(crate) fn mean_stride(runs: &[Run]) -> f64 {
    (runs[runs.len() - 1].0 - runs[0].0) as f64 / (runs.len() - 1) as f64
}

/// The same runs with every gap filled whose stride is below a limit, as the contiguity transform does (msc-ct (9)).
pub(crate) fn filled(runs: &[Run], stride_max: u64) -> Vec<Run> {
    let mut all: Vec<Run> = Vec::new();
    for (first, count) in runs {
        match all.last_mut() {
            Some((start, len)) if first - (*start + *len - 1) < stride_max => *len = first + count - *start,
            _ => all.push((*first, *count)),
        }
    }
    all
}

/// Requests for runs in ascending order; neighbours are merged, long runs cut.
fn requests(op: ModelOp, start_bytes: u64, runs: &[Run]) -> Vec<Asked> {
    let neighbours = filled(runs, 2);
    let cut = |(first, count): Run| {
        let starts = (first..first + count).step_by(MERGED_BLOCKS as usize);
        starts.map(move |at| (op, start_bytes + at * BLOCK, (first + count - at).min(MERGED_BLOCKS) * BLOCK))
    };
    neighbours.into_iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_measured_by_the_engines_benchmark() {
        let disks = disks();
        let found = disks.iter().find(|disk| disk.name == "ST373454LC").unwrap().strides();
        for record in [found.read, found.write] {
            let curve = curve(&record);
            assert_eq!(curve[0], (1.0, 1.0));
            let later: Vec<_> =
                curve.iter().filter(|(stride, _)| *stride >= f64::from(record.s_max)).collect();
            assert!(record.s_max > 2 && later.iter().all(|(_, time)| *time < THRESHOLD), "{curve:?}");
        }
    }

    #[test]
    fn strides_have_the_mean_that_is_drawn() {
        assert!((mean_stride(&exponential(2, 32)) - 2.0).abs() < 0.1);
        let runs = exponential(16, 32);
        assert!(runs.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 32));
        assert!((10.5..12.0).contains(&mean_stride(&runs)), "{}", mean_stride(&runs));
    }

    #[test]
    fn gaps_below_the_limit_are_filled() {
        let runs = [(0, 1), (1, 1), (4, 1), (12, 2)];
        assert_eq!(filled(&runs, 1), runs);
        assert_eq!(filled(&runs, 2), [(0, 2), (4, 1), (12, 2)]);
        assert_eq!(filled(&runs, 4), [(0, 5), (12, 2)]);
        assert_eq!(filled(&runs, 9), [(0, 14)]);
    }

    #[test]
    fn long_runs_go_out_in_requests_of_128_kib() {
        let asked = requests(ModelOp::Read, 2 * BLOCK, &[(0, 40), (50, 1)]);
        let lens: Vec<_> = asked.iter().map(|(_, at, len)| (at / BLOCK, len / BLOCK)).collect();
        assert_eq!(lens, [(2, 32), (34, 8), (52, 1)]);
    }

    #[test]
    fn the_curve_has_what_was_measured() {
        let mut record = StrideRecord::default();
        (record.times[0], record.times[3]) = (1000, 1250);
        assert_eq!(curve(&record), [(1.0, 1.0), (4.0, 1.25)]);
    }
}
