//! Contiguous against scattered access: msc-ct Fig. 1, 8 and 9.

use fastrand::Rng;
use stripewise_sim::model::{
    Asked, ClosedLoop, DiskModel, ModelOp, SECTOR_BYTES,
    hdd::{Hdd, HddParams, ReadAhead},
    ssd::{Ssd, SsdParams},
};

use super::{
    Effort,
    drives::{BLOCK, WRITE},
};
use crate::{
    parallel::{self, OnProgress},
    plot::{Axis, Plot, Series, Style},
    report::{Check, Expected, Section},
};

/// The workspace: 64 MiB from the disk's start.
const SPAN_BLOCKS: u64 = 16_384;
/// Requests under way, as in the paper (32 to 64).
const DEPTH: usize = 32;
/// Neighbouring blocks go out merged up to this, as the kernel's elevator does.
const MERGED_BLOCKS: u64 = 32;
/// msc-ct III-D: contiguity is worth its price where scattered access is slower than this.
const THRESHOLD: f64 = 1.2;
/// Fig. 1 limits strides to this.
const EXPONENTIAL_MAX: u64 = 32;

/// Disks with the cache policy that the paper has: data is acknowledged when it is on the medium.
#[derive(Debug, Clone)]
enum Disk {
    Hdd(HddParams),
    Ssd(SsdParams),
}

/// One curve.
#[derive(Debug, Clone)]
struct Subject {
    name: &'static str,
    disk: Disk,
    op: ModelOp,
}

fn subjects() -> Vec<Subject> {
    let through = |params: HddParams| Disk::Hdd(params.with_write_cache(false));
    let disks = [
        ("ST373454LC", through(HddParams::seagate_cheetah_15k4_73())),
        ("WD6401AALS, cache off", through(HddParams::wd_caviar_black_640())),
        ("ST18000NM000J, cache off", through(HddParams::seagate_exos_x18())),
        ("X25-E", Disk::Ssd(SsdParams::intel_x25e_64())),
    ];
    let named = |op| disks.clone().map(|(name, disk)| Subject { name, disk, op });
    [WRITE, ModelOp::Read].into_iter().flat_map(named).collect()
}

pub(super) fn section(effort: Effort, on_progress: OnProgress<'_>) -> Section {
    let subjects = subjects();
    let strides: Vec<u64> = effort.pick(vec![2, 3, 4, 8, 16, 32, 64], (2..=64).collect());
    let means: Vec<u64> = effort.pick(vec![2, 8], vec![2, 3, 4, 5, 6, 8, 10, 12, 16]);
    let normalised = parallel::map("strides", on_progress, &subjects, |subject| {
        let contiguous = pass_ns(subject, &every(1));
        let turnaround = |stride: &u64| (*stride as f64, pass_ns(subject, &every(*stride)) / contiguous);
        std::iter::once((1.0, 1.0)).chain(strides.iter().map(turnaround)).collect::<Vec<_>>()
    });
    let writes = &subjects[..subjects.len() / 2];
    let exponential = parallel::map("exponential strides", on_progress, writes, |subject| {
        let contiguous = pass_ns(subject, &every(1));
        let turnaround = |mean: &u64| pass_ns(subject, &exponential(*mean)) / contiguous;
        means.iter().map(|mean| (*mean as f64, turnaround(mean))).collect::<Vec<_>>()
    });
    let mut checks = fig_9_checks(&subjects, &normalised);
    checks.extend(fig_1_checks(writes, &exponential));
    checks.extend(equation_1_checks(&subjects[0], &normalised[0]));
    let half = writes.len();
    let mut write_plot = plot(
        "strides-write",
        "Writes of every S-th block (Fig. 9)",
        "stride S, blocks",
        writes,
        &normalised[..half],
    );
    if let Disk::Hdd(params) = &subjects[0].disk {
        let line = (2..=64).map(|stride| (stride as f64, equation_1(params, stride))).collect();
        write_plot.series.push(Series::new("msc-ct (1), ST373454LC", 0, Style::Dashed, line));
    }
    Section {
        name: "strides",
        title: "Scattered against contiguous access (msc-ct Fig. 1, 8, 9)".to_owned(),
        text: text(),
        checks,
        plots: vec![
            write_plot,
            plot(
                "strides-read",
                "Reads of every S-th block (Fig. 9)",
                "stride S, blocks",
                &subjects[half..],
                &normalised[half..],
            ),
            plot(
                "strides-exponential",
                "Writes with exponential strides up to 32 (Fig. 1)",
                "mean stride, blocks",
                writes,
                &exponential,
            ),
        ],
    }
}

fn text() -> Vec<String> {
    vec![
        format!(
            "Blocks of 4 KiB over the first 64 MiB, in ascending order, {DEPTH} under way; the turnaround time of the pass \
             over that of all blocks. Neighbours go out merged up to 128 KiB, as the kernel's elevator merges them. Above 1, \
             writing more would take less time: a sector that passes while the drive sets up its access comes again one \
             revolution later."
        ),
        "The paper's figures are pictures without numbers in its text; what the text says of them is checked. Fig. 9(a) and \
         the simulation in Fig. 1 are of the ST373454LC; it does not read ahead after scattered reads. S_max is the smallest \
         stride from which on the turnaround stays below 1.2 (msc-ct III-D). The paper had no SSD; of the ten dies of this \
         one, strides of 10, 20 and so on read a few only."
            .to_owned(),
    ]
}

fn plot(name: &'static str, title: &str, x: &str, subjects: &[Subject], lines: &[Vec<(f64, f64)>]) -> Plot {
    let named = subjects.iter().zip(lines).enumerate();
    let mut series: Vec<_> = named
        .map(|(hue, (subject, line))| Series::new(subject.name, hue, Style::Marked, line.clone()))
        .collect();
    let end = lines.iter().flatten().map(|(x, _)| *x).fold(1.0, f64::max);
    series.push(Series::new(
        "threshold of msc-ct, 1.2",
        6,
        Style::Dashed,
        vec![(1.0, THRESHOLD), (end, THRESHOLD)],
    ));
    let y = Axis::log10("turnaround time, contiguous = 1");
    Plot { name, title: title.to_owned(), x: Axis::log2(x), y, series }
}

/// Blocks of the workspace, `stride` from one to the next.
fn every(stride: u64) -> Vec<u64> {
    (0..SPAN_BLOCKS).step_by(stride as usize).collect()
}

/// Strides of a mean, geometrically distributed: what an exponential distribution is among whole blocks.
fn exponential(mean: u64) -> Vec<u64> {
    let mut rng = Rng::with_seed(mean);
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < SPAN_BLOCKS {
        blocks.push(at);
        at += loop {
            let stride =
                1 + std::iter::repeat_with(|| rng.u64(..mean)).take_while(|drawn| *drawn > 0).count() as u64;
            if stride <= EXPONENTIAL_MAX {
                break stride;
            }
        };
    }
    blocks
}

/// Requests for blocks in ascending order, neighbours merged.
fn merged(op: ModelOp, blocks: &[u64]) -> Vec<Asked> {
    let mut requests: Vec<Asked> = Vec::new();
    for block in blocks {
        match requests.last_mut() {
            Some((_, start, len)) if *start + *len == block * BLOCK && *len < MERGED_BLOCKS * BLOCK => {
                *len += BLOCK
            }
            _ => requests.push((op, block * BLOCK, BLOCK)),
        }
    }
    requests
}

/// How long a pass over these blocks takes.
fn pass_ns(subject: &Subject, blocks: &[u64]) -> f64 {
    let requests = merged(subject.op, blocks);
    match &subject.disk {
        Disk::Hdd(params) => elapsed_ns(Hdd::new(params.clone()), requests),
        Disk::Ssd(params) => {
            let mut model = Ssd::new(params.clone());
            model.fill(SPAN_BLOCKS as u32);
            elapsed_ns(model, requests)
        }
    }
}

fn elapsed_ns(model: impl DiskModel, requests: Vec<Asked>) -> f64 {
    ClosedLoop::new(model).run(DEPTH, requests).elapsed_ns as f64
}

/// msc-ct III-D: the smallest S from which on the turnaround stays below the threshold.
fn stride_max(line: &[(f64, f64)]) -> f64 {
    line.iter()
        .rev()
        .take_while(|(_, time)| *time < THRESHOLD)
        .last()
        .map_or(f64::INFINITY, |(stride, _)| *stride)
}

fn fig_9_checks(subjects: &[Subject], lines: &[Vec<(f64, f64)>]) -> Vec<Check> {
    let check = |(subject, line): (&Subject, &Vec<(f64, f64)>)| {
        let is_read = subject.op == ModelOp::Read;
        let what = if is_read { "S_max of reads" } else { "S_max of writes" };
        let check = Check::near(subject.name, what, "blocks", (1.0, 0.0), "", stride_max(line));
        match &subject.disk {
            Disk::Ssd(_) => {
                Check { source: "no rotation to miss".to_owned(), ..check }.expects(Expected::Below(1.5))
            }
            Disk::Hdd(params) if is_read && params.read_ahead == ReadAhead::Always => {
                Check { source: "msc-ct III-D: some disks have 1 for reads".to_owned(), ..check }
                    .expects(Expected::Below(1.5))
            }
            Disk::Hdd(_) => Check { source: "msc-ct III-D: a threshold in all disks".to_owned(), ..check }
                .expects(Expected::Above(2.0)),
        }
    };
    subjects.iter().zip(lines).map(check).collect()
}

fn fig_1_checks(subjects: &[Subject], lines: &[Vec<(f64, f64)>]) -> Vec<Check> {
    let hdds = subjects.iter().zip(lines).filter(|(subject, _)| matches!(subject.disk, Disk::Hdd(_)));
    let check = |(subject, line): (&Subject, &Vec<(f64, f64)>)| {
        let least = line.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let what = "least turnaround of writes, exponential strides";
        Check::near(subject.name, what, "", (1.0, 0.0), "msc-ct I-C: always higher than 1", least)
            .expects(Expected::Above(1.0))
    };
    hdds.map(check).collect()
}

/// What msc-ct (1) makes of a stride: the contiguous pass's time, and a revolution for each rotation that is missed. The
/// drive needs its set-up time before the next access; what passes meanwhile waits for another revolution. Where set-up
/// and block take as long as k strides, each track takes k revolutions instead of one, and there is one skew for each.
fn equation_1(params: &HddParams, stride: u64) -> f64 {
    let (revolution_ns, skew_ns) = (f64::from(params.revolution_ns), f64::from(params.track_skew_ns));
    let block_ns = revolution_ns * (BLOCK / SECTOR_BYTES) as f64 / f64::from(params.outer_track_sectors);
    let revolutions = ((f64::from(params.setup_ns) + block_ns) / (stride as f64 * block_ns)).ceil();
    1.0 + (revolutions - 1.0) * revolution_ns / (revolution_ns + skew_ns)
}

fn equation_1_checks(subject: &Subject, line: &[(f64, f64)]) -> Vec<Check> {
    let Disk::Hdd(params) = &subject.disk else { return Vec::new() };
    let check = |stride: u64| {
        let measured = line.iter().find(|(at, _)| *at == stride as f64).map_or(f64::NAN, |(_, time)| *time);
        let what = format!("turnaround of writes at stride {stride}");
        let source = "msc-ct (1): t_c + t_r N_r, N_r from the set-up time";
        Check::near(subject.name, what, "", (equation_1(params, stride), 0.15), source, measured).note(
            "The equation's count takes it that a track is written in as few revolutions as the set-up time allows. The \
             modelled drive orders by positioning time and takes more, for a reason not looked into; deeper queues do not change it \
             (tried up to 512).",
        )
    };
    [2, 3, 4, 8].map(check).to_vec()
}
