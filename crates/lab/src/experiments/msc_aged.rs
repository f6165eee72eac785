//! msc-ct IV-D, Fig. 14.

use super::{
    Effort, Experiment, Points, Results,
    msc::{self, CACHES, CT, Cache, SC},
    pick,
};
use crate::{
    ext3::{Aging, Made},
    findings::{Claim, Findings, Judged},
    plot::Axis,
    point::{Outcome, Point, Script, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "msc-aged",
    title: "Writes to an aged file system",
    source: "msc-ct IV-D, Fig. 14",
    setting: &[
        "The paper: an ext3 of 10 GB on level 5 of five ST373454LC, caches of 512 MiB. Files of normally distributed sizes, with a \
         quarter of the mean as their deviation, fill it to 90 %; then 20 % of them are deleted at random and new ones fill it \
         again, up to 50 times.",
        "The file system is a model of the ext3 of Linux 2.6.11, the paper's kernel (docs/experiments.md). What is measured is the \
         writing in a cycle: from empty caches, with metadata and journal, to the end of a last flush. The throughput is that of \
         the files' data. Cycle 0 fills the new file system; the first cycle is the first that deletes. The deletions are \
         written before. Metadata that are read lie in the page cache.",
        "Left open by the paper, and here: 100 files in a directory, and directories in the root; new files go where files lack, \
         directory after directory. A transaction ends when the page cache holds 40 % (vm.dirty_ratio) of about 450 MB; 128 \
         writes of a block are under way. Chunks of 128 KiB; the drives' write caches off; PBGC is the paper's md: a write is \
         acknowledged when members have it.",
        "The section V of the paper gives 180 % for what IV-D says is 2.3 times; IV-D is judged. Its figures are not at one either: \
         if SC lost 86 % and MSC-CT 17 %, from about the same throughput in cycle 1, MSC-CT would be six times as fast in cycle 20. \
         Read as time, 1.86 and 1.17 times as much, it would be 1.6 times as fast. The loss is judged as written, and the times \
         stand beside it. A quick run has an eighth of the caches, of the file system and of its journal; the files are as large \
         as in a full one.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// msc-ct IV-D.
const FILE_SYSTEM_BYTES: u64 = 10 << 30;
const CYCLES: u32 = 50;
/// The mean file sizes of the paper's claims, in KiB, and others between them.
const SMALL: u64 = 16;
const LARGE: u64 = 2048;
/// How far what is left after a loss may be off.
const TOLERANCE: f64 = 0.2;

fn sizes(effort: Effort) -> Vec<u64> {
    pick(effort, vec![SMALL, 128, LARGE], vec![SMALL, 32, 64, 128, 256, 512, 1024, LARGE])
}

fn cycles(effort: Effort) -> Vec<u64> {
    pick(effort, vec![1, 5, 20, CYCLES.into()], vec![0, 1, 2, 5, 10, 20, 30, 40, CYCLES.into()])
}

fn point(effort: Effort, cache: Cache, mean_kib: u64, cycle: u64) -> Point {
    let made = Made {
        size_bytes: msc::part(effort, FILE_SYSTEM_BYTES),
        journal_blocks: msc::part(effort, msc::JOURNAL_BLOCKS),
        dirty_blocks: msc::part(effort, msc::DIRTY_BLOCKS),
    };
    let aging = Aging { made, mean_bytes: mean_kib << 10, cycle: cycle as u32 };
    msc::scripted(effort, cache, WriteLoad::script(Script::Aging(aging), msc::WRITES_UNDER_WAY))
}

fn points(effort: Effort) -> Vec<Point> {
    let sizes = sizes(effort).into_iter().map(|kib| (kib, u64::from(CYCLES)));
    let cycles = cycles(effort).into_iter().map(|cycle| (SMALL, cycle));
    let mut all: Vec<_> = sizes.chain(cycles).collect();
    all.sort_unstable();
    all.dedup();
    let of = |cache: Cache| all.iter().map(move |(kib, cycle)| point(effort, cache, *kib, *cycle));
    CACHES.into_iter().flat_map(of).collect()
}

/// Throughput of the files' data, in 10^6 bytes a second.
fn rate(point: &Point, outcome: &Outcome) -> f64 {
    point.load.pass_bytes as f64 * 1e3 / outcome.pass_ns[0] as f64
}

fn findings(results: &Results) -> Findings {
    let effort = results.effort;
    let by_size = |cache, kib| point(effort, cache, kib, CYCLES.into());
    let by_cycle = |cache, cycle| point(effort, cache, SMALL, cycle);
    let (sizes, cycles) = (sizes(effort), cycles(effort));
    let size_rows: Vec<_> = sizes.iter().map(|kib| (*kib, kib.to_string())).collect();
    let cycle_rows: Vec<_> = cycles.iter().map(|cycle| (*cycle, cycle.to_string())).collect();
    let caches = &CACHES;
    Findings {
        claims: vec![
            times(results, SMALL, 2.3),
            times(results, LARGE, 1.06),
            loss(results, SC, 0.86),
            loss(results, CT, 0.17),
        ],
        plots: vec![
            msc::plot_of(
                caches,
                ("msc-aged-sizes", "Writes in cycle 50, by the files' mean size"),
                (Axis::log2("mean file size, KiB"), Axis::from_zero("MB/s")),
                &sizes,
                results,
                by_size,
                rate,
            ),
            msc::plot_of(
                caches,
                ("msc-aged-cycles", "Writes of files of 16 KiB, by cycle"),
                (Axis::linear("cycle"), Axis::from_zero("MB/s")),
                &cycles,
                results,
                by_cycle,
                rate,
            ),
        ],
        tables: vec![
            msc::table_of(caches, "MB/s in cycle 50", "KiB", &size_rows, results, by_size, rate),
            msc::table_of(caches, "MB/s, files of 16 KiB", "cycle", &cycle_rows, results, by_cycle, rate),
            msc::table_of(
                caches,
                "requests to members for a block",
                "cycle",
                &cycle_rows,
                results,
                by_cycle,
                |_, outcome| msc::requests(outcome),
            ),
        ],
    }
}

/// MSC-CT over SC after all cycles.
fn times(results: &Results, kib: u64, paper: f64) -> Claim {
    let tolerance = msc::tolerance(paper);
    let point = |cache| point(results.effort, cache, kib, CYCLES.into());
    let judged = results.speed_up(&point(CT), &point(SC)).map(|ratio| {
        let judged = Judged::near(ratio, paper, tolerance, format!("{ratio:.2}x"));
        judged.because(msc::work(results, [&SC, &CT].map(|cache| (cache.name.to_owned(), point(*cache)))))
    });
    let percent = tolerance * 100.0;
    let statement = format!(
        "After {CYCLES} cycles of files of {kib} KiB MSC-CT is {paper}x as fast as SC (within {percent:.0} %)."
    );
    Claim::new(statement, "Fig. 14(a)", judged)
}

/// What a cache loses from the first to the twentieth cycle.
fn loss(results: &Results, cache: Cache, paper: f64) -> Claim {
    let point = |cycle| point(results.effort, cache, SMALL, cycle);
    let rate = |cycle| results.of(&point(cycle)).map(|outcome| rate(&point(cycle), outcome));
    let judged = rate(1).zip(rate(20)).map(|(first, later)| {
        let (left, lost) = (later / first, 100.0 * (1.0 - later / first));
        let measured =
            format!("{lost:.0} % ({first:.1} and {later:.1} MB/s: {:.2}x the time)", first / later);
        let judged = Judged::near(left, 1.0 - paper, TOLERANCE, measured);
        judged.because(msc::work(results, [1, 20].map(|cycle| (format!("cycle {cycle}"), point(cycle)))))
    });
    let statement = format!(
        "From cycle 1 to 20 of files of {SMALL} KiB {} loses {:.0} % of its throughput (what is left, within a fifth).",
        cache.name,
        100.0 * paper
    );
    Claim::new(statement, "Fig. 14(b)", judged)
}
