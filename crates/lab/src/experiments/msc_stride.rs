//! msc-ct III-D and IV-F, Fig. 1, 9 and 15.

use std::sync::OnceLock;

use stripewise_engine::StrideRecords;
use stripewise_sim::model::ModelOp;

use super::{Effort, Experiment, Points, Results, msc_stride_limits as limits};
use crate::{
    findings::{Claim, Findings, Judged, Table},
    parallel,
    plot::Plot,
    point::Point,
    strides::{self, Disk},
    validate::drives::{BLOCK, WRITE},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "msc-stride",
    title: "Strides: which gaps are worth filling",
    source: "msc-ct I-C, III-D and IV-F, Fig. 1, 9 and 15",
    setting: &[
        "The paper: every S-th block of 4 KiB from one place to another (Fig. 9), and blocks at exponentially distributed strides of \
         at most 32 (Fig. 1), on disks that acknowledge what is on the medium; 32 to 64 requests under way. S_max is the smallest \
         stride from which on the time is below 1.2 times that of all blocks. With strides of a mean of 10, at most 64, the \
         measured S_max is the fastest of all (Fig. 15, ST373454LC).",
        "Fig. 9 is measured by the engine's own stride benchmark, on every drive that is modelled, SSDs too, which the paper had \
         none of. It is the one that measures members when an array is created. Fig. 1 and Fig. 15 of a drive alone are single \
         passes over the start of the drive's model.",
        "The paper's Fig. 15 has chunks \"of 128 KiB (= 64 blocks with the 4 KiB block)\", which is 32 blocks; the array here has chunks \
         of 64 blocks, 256 KiB, so that strides of 64 exist. It is that of the other experiments of this paper, with stripe+ct; \
         single blocks are written in ascending order at such strides, once, and flushed. Gaps of reads and of writes have the same \
         S_max, while the paper varied it for each; that is shown for the drive alone. A quick run has an eighth of the cache \
         and of the writes.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// Fig. 1 limits strides to this.
const FIG_1_MAX: u64 = 32;
const FIG_1_MEANS: [u64; 9] = [2, 3, 4, 5, 6, 8, 10, 12, 16];
/// Strides of the table.
const SHOWN: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// What was measured of drives alone.
struct Found {
    disks: Vec<Disk>,
    strides: Vec<StrideRecords>,
    /// Of writes: mean strides, and the time over that of all blocks.
    exponential: Vec<Vec<(f64, f64)>>,
}

/// It depends on no run, and is measured once.
fn found() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| {
        let (disks, silent) = (strides::disks(), |_: &str, _: usize, _: usize| ());
        let exponential = parallel::map("", &silent, &disks, |disk| {
            let whole = disk.pass_ns(WRITE, &strides::contiguous());
            let runs = FIG_1_MEANS.iter().map(|mean| strides::exponential(*mean, FIG_1_MAX));
            runs.map(|runs| (strides::mean_stride(&runs), disk.pass_ns(WRITE, &runs) / whole)).collect()
        });
        Found { strides: parallel::map("", &silent, &disks, Disk::strides), exponential, disks }
    })
}

fn points(effort: Effort) -> Vec<Point> {
    limits::points(effort)
}

fn findings(results: &Results) -> Findings {
    let found = found();
    let mut claims = vec![writes(found), reads(found), flash(found), always_above_one(found)];
    claims.extend(limits::claims(results));
    let mut plots = vec![
        curves(found, ("msc-stride-reads", "Reads of every S-th block (Fig. 9)"), true),
        curves(found, ("msc-stride-writes", "Writes of every S-th block (Fig. 9)"), false),
        strides::plot(
            ("msc-stride-exponential", "Writes at exponential strides up to 32 (Fig. 1)"),
            "mean stride, blocks",
            &found.disks,
            &found.exponential,
        ),
    ];
    plots.extend(limits::plots(results));
    let table = limits::table(results);
    Findings { claims, plots, tables: vec![s_max_table(found), times_table(found), table] }
}

fn curves(found: &Found, named: (&'static str, &str), is_read: bool) -> Plot {
    let of = |found: &StrideRecords| strides::curve(if is_read { &found.read } else { &found.write });
    let lines: Vec<_> = found.strides.iter().map(of).collect();
    strides::plot(named, "stride S, blocks", &found.disks, &lines)
}

/// S_max of drives, by name.
fn s_max(found: &Found, of: impl Fn(&Disk, &StrideRecords) -> Option<u32>) -> Vec<(&str, u32)> {
    let both = found.disks.iter().zip(&found.strides);
    both.filter_map(|(disk, strides)| Some((&*disk.name, of(disk, strides)?))).collect()
}

fn text(s_max: &[(&str, u32)]) -> String {
    s_max.iter().map(|(name, s_max)| format!("{name} {s_max}")).collect::<Vec<_>>().join("; ")
}

fn writes(found: &Found) -> Claim {
    let all = s_max(found, |disk, strides| disk.rotates().then_some(strides.write.s_max));
    let judged = Judged::new(all.iter().all(|(_, s_max)| *s_max > 1), text(&all));
    Claim::analytic("On every hard disk S_max of writes is above 1.", "Fig. 9", judged)
}

fn reads(found: &Found) -> Claim {
    let all = s_max(found, |disk, strides| disk.rotates().then_some(strides.read.s_max));
    let one = all.iter().filter(|(_, s_max)| *s_max == 1).count();
    let judged = Judged::new(one > 0 && one < all.len(), text(&all));
    Claim::analytic("On some hard disks, not on all, S_max of reads is 1.", "III-D, Fig. 9(b), 9(c)", judged)
}

fn flash(found: &Found) -> Claim {
    let most = |strides: &StrideRecords| strides.read.s_max.max(strides.write.s_max);
    let all = s_max(found, |disk, strides| (!disk.rotates()).then(|| most(strides)));
    let slow =
        found.disks.iter().zip(&found.strides).filter(|(disk, strides)| !disk.rotates() && most(strides) > 1);
    let told: Vec<_> = slow.map(|(disk, _)| scattered(disk)).collect();
    let judged = Judged::new(all.iter().all(|(_, s_max)| *s_max == 1), text(&all));
    let judged = judged.else_because(format!(
        "{}. A member that is known as flash is not measured when an array is created, and nothing is filled there.",
        told.join("; ")
    ));
    Claim::analytic("On SSDs S_max of reads and of writes is 1: nothing is filled.", "", judged)
}

/// What a drive reads of every second block, and of all of them.
fn scattered(disk: &Disk) -> String {
    let every_second: Vec<_> = (0..strides::SPAN_BLOCKS).step_by(2).map(|block| (block, 1)).collect();
    let rate = |runs: &[strides::Run]| {
        let blocks: u64 = runs.iter().map(|(_, count)| count).sum();
        (blocks * BLOCK) as f64 * 1e3 / disk.pass_ns(ModelOp::Read, runs)
    };
    format!(
        "{}: {:.0} MB/s of every second block in reads of 4 KiB, {:.0} MB/s of all in reads of 128 KiB, {} under way",
        disk.name,
        rate(&every_second),
        rate(&strides::contiguous()),
        strides::DEPTH
    )
}

fn always_above_one(found: &Found) -> Claim {
    let disks = found.disks.iter().zip(&found.exponential).filter(|(disk, _)| disk.rotates());
    let least: Vec<_> = disks
        .map(|(disk, line)| (&*disk.name, line.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min)))
        .collect();
    let told: Vec<_> = least.iter().map(|(name, time)| format!("{name} {time:.2}")).collect();
    let judged = Judged::new(least.iter().all(|(_, time)| *time > 1.0), format!("least {}", told.join("; ")));
    let statement =
        "Writes at exponentially distributed strides of at most 32 always take longer than all blocks.";
    Claim::analytic(statement, "I-C, Fig. 1", judged)
}

fn s_max_table(found: &Found) -> Table {
    let headings = ["drive", "S_max, reads", "excepted", "S_max, writes", "excepted"];
    let mut table = Table::new("S_max by the stride benchmark, blocks", &headings);
    let excepted = |regions: &[[u8; 2]]| {
        let real = regions.iter().filter(|[first, _]| *first > 0);
        real.map(|[first, last]| format!("{first}-{last}")).collect::<Vec<_>>().join(", ")
    };
    for (disk, StrideRecords { read, write }) in found.disks.iter().zip(&found.strides) {
        let of = [read, write].map(|record| [record.s_max.to_string(), excepted(&record.except)]);
        table.rows.push(std::iter::once(disk.name.clone()).chain(of.into_iter().flatten()).collect());
    }
    table
}

fn times_table(found: &Found) -> Table {
    let strides: Vec<_> = SHOWN.iter().map(|stride| format!("S={stride}")).collect();
    let headings: Vec<_> = std::iter::once("drive").chain(strides.iter().map(String::as_str)).collect();
    let mut table = Table::new("time of reads, then of writes, at stride S; all blocks = 1", &headings);
    for (disk, StrideRecords { read, write }) in found.disks.iter().zip(&found.strides) {
        for (word, record) in [("reads", read), ("writes", write)] {
            let cell = |stride: &usize| match record.times[stride - 1] {
                0 => String::new(),
                time => format!("{:.2}", f64::from(time) / 1000.0),
            };
            let name = format!("{}, {word}", disk.name);
            table.rows.push(std::iter::once(name).chain(SHOWN.iter().map(cell)).collect());
        }
    }
    table
}
