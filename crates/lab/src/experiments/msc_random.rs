//! msc-ct IV-B, Fig. 11.

use super::{
    Effort, Experiment, Points, Results,
    msc::{self, AUTO, CT, Cache, NONE, OURS, PBGC, PBGC_BACK, SC, WEIGHED},
    msc_variants::Varied,
    pick,
};
use crate::{
    findings::{Claim, Findings, Judged},
    plot::Axis,
    point::{Outcome, Point},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "msc-random",
    title: "Random writes in workspaces of 1 to 16 GB",
    source: "msc-ct IV-B, Fig. 11",
    setting: &[
        "The paper: Tiobench, 160,000 writes of 4 KiB at uniformly random places, a thread for each gigabyte; level 5 of five \
         ST373454LC, caches of 512 MiB, destaged from 95 % dirty until below 85 %, what was written longest ago first.",
        "The paper's Tiobench writes into the page cache, which its machine had beside the driver's 512 MiB. So the array sees \
         what is written back: of 40 % (vm.dirty_ratio) of about 450 MiB at a time, each page once, in ascending order. Left open by \
         the paper, and here: chunks of 128 KiB; 128 writes under way; the drives' write caches off; from an empty cache to \
         the end of a last flush. PBGC is the paper's md: a write is acknowledged when members have it.",
        "In the smallest workspace PBGC, SC and MSC-CT also run with chunks of 64 and of 256 KiB, with one write under way (one a \
         thread) and with 32, and MSC-CT with an S_max of 16 blocks: the paper's is in a picture only. S_max is what the stride benchmark finds on the modelled drive. A quick run has an eighth of the caches, of the \
         workspace and of the writes.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// All caches, and the paper's with gaps that are weighed.
const SHOWN: [Cache; 8] = [NONE, PBGC, PBGC_BACK, SC, CT, WEIGHED, OURS, AUTO];
const GB: u64 = 1 << 30;
/// The workspace that is also run with other settings; the paper has a thread for each gigabyte.
const VARIED_GB: u64 = 1;

fn spans(effort: Effort) -> Vec<u64> {
    let all = [1, 2, 4, 8, 16];
    all.into_iter().filter(|gb| pick(effort, [1, 8].contains(gb), true)).collect()
}

fn point(effort: Effort, cache: Cache, gb: u64) -> Point {
    msc::point(effort, cache, gb * GB, msc::RANDOM_WRITES, msc::WRITES_UNDER_WAY)
}

fn points(effort: Effort) -> Vec<Point> {
    let of = |cache: Cache| spans(effort).into_iter().map(move |gb| point(effort, cache, gb));
    let varied = Varied { threads: VARIED_GB as u32, point: &|cache| point(effort, cache, VARIED_GB) };
    SHOWN.into_iter().flat_map(of).chain(varied.points()).collect()
}

fn findings(results: &Results) -> Findings {
    let (effort, spans) = (results.effort, spans(results.effort));
    let of = |cache, gb| point(effort, cache, gb);
    let rows: Vec<_> = spans.iter().map(|gb| (*gb, gb.to_string())).collect();
    let axes = || (Axis::log2("workspace, GiB"), Axis::from_zero("MB/s"));
    Findings {
        claims: vec![
            times(results, (&CT, &SC), 1, 2.7),
            times(results, (&CT, &PBGC), 1, 3.2),
            times(results, (&CT, &SC), 8, 2.08),
            times(results, (&SC, &PBGC), 8, 1.1),
            never_behind(results, "MSC-CT is never slower than SC (within 2 %).", "Fig. 11", CT, &[SC]),
            never_behind(
                results,
                "With gaps that are weighed MSC-CT is never slower than by its thresholds (within 2 %).",
                "",
                WEIGHED,
                &[CT],
            ),
            never_behind(
                results,
                "auto, the default on disks, is never slower than the best of the others (within 3 %).",
                "",
                AUTO,
                &[NONE, PBGC, PBGC_BACK, SC, CT, OURS],
            ),
        ],
        plots: vec![
            msc::plot(
                ("msc-random-throughput", "Random writes of 4 KiB"),
                axes(),
                &spans,
                results,
                of,
                Outcome::mb_per_s,
            ),
            msc::plot(
                ("msc-random-requests", "Requests to members for a write"),
                (Axis::log2("workspace, GiB"), Axis::from_zero("requests")),
                &spans,
                results,
                of,
                msc::requests,
            ),
        ],
        tables: vec![
            msc::table_of(&SHOWN, "MB/s", "GiB", &rows, results, of, |_, outcome| outcome.mb_per_s()),
            msc::table("requests to members for a write", "GiB", &rows, results, of, msc::requests),
            Varied { threads: VARIED_GB as u32, point: &|cache| of(cache, VARIED_GB) }
                .table(results, &format!("{VARIED_GB} GB")),
        ],
    }
}

fn times(results: &Results, (of, over): (&Cache, &Cache), gb: u64, paper: f64) -> Claim {
    let tolerance = msc::tolerance(paper);
    let point = |cache: &Cache| point(results.effort, *cache, gb);
    let judged = results.speed_up(&point(of), &point(over)).map(|ratio| {
        let judged = Judged::near(ratio, paper, tolerance, format!("{ratio:.2}x"));
        let judged =
            judged.because(msc::work(results, [of, over].map(|cache| (cache.name.to_owned(), point(cache)))));
        if gb != VARIED_GB {
            return judged;
        }
        let varied = Varied { threads: VARIED_GB as u32, point: &|cache| point(&cache) };
        varied.told(judged, results, (*of, *over), (paper, tolerance))
    });
    let percent = 100.0 * tolerance;
    let statement =
        format!("In {gb} GB {} is {paper}x as fast as {} (within {percent:.0} %).", of.name, over.name);
    Claim::new(statement, "Fig. 11", judged)
}

fn never_behind(
    results: &Results,
    statement: &'static str,
    paper: &'static str,
    of: Cache,
    others: &[Cache],
) -> Claim {
    let at = |gb: &u64| {
        let rate = |cache: &Cache| results.mb_per_s(&point(results.effort, *cache, *gb));
        let best = others.iter().map(rate).collect::<Option<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
        Some((*gb, rate(&of)? / best))
    };
    let bound = if others.len() == 1 { 0.98 } else { 0.97 };
    let ratios = spans(results.effort).iter().map(at).collect::<Option<Vec<_>>>();
    let judged = ratios.and_then(|ratios| {
        let text = |(gb, ratio): &(u64, f64)| format!("{ratio:.2}x at {gb} GB");
        let all: Vec<_> = ratios.iter().map(text).collect();
        let judged = |(_, ratio): &(u64, f64)| Judged::above(*ratio, bound, all.join(", "));
        Judged::of_all(ratios.iter().map(judged))
    });
    Claim::new(statement, paper, judged)
}
