//! msc-ct IV-E, Table II. What is measured is in `msc_bulk_rows`.

use super::{
    Effort, Experiment, Points, Results,
    msc::{self, AUTO, CACHES, CT, Cache, OURS, PBGC, PBGC_BACK, SC},
    msc_bulk_rows::{ROWS, Row, SOURCES},
};
use crate::{
    findings::{Claim, Findings, Judged},
    plot::{Axis, Plot, Series, Style},
    point::{Outcome, Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "msc-bulk",
    title: "Sequential and bulky loads",
    source: "msc-ct IV-E, Table II",
    setting: &[
        "The paper: files are read from an ext3 and written to another directory of it (self-copy): a video of 2.13 GB, 154 pieces \
         of music of 682 MB, and 25,628 sources and objects of 458 MB; an ext3 is made; a large file is read and written in \
         sequence and in bulky pieces at random; and so are stripes of 512 KiB of the array, without a file system. Level 5 of \
         five ST373454LC, caches of 512 MiB.",
        "The file system is a model of the ext3 of Linux 2.6.11, the paper's kernel (docs/experiments.md), on the whole array. All is \
         measured from empty caches to the end of a last flush, with metadata and journal. What is copied is read by read-ahead, \
         in two windows of 32 blocks, while the page cache writes what was read before.",
        "Left open by the paper, and here: 25 sources in a directory, and one half of them shorter than a third of the mean; the \
         pieces of the large file are stripes, too, and they are as much as the file has in all; 32 requests under way in \
         sequence without a file system, as in the paper's I-C, and one at random. The page cache writes back 40 % of about 450 \
         MB at a time, 128 writes of a block under way. The drives' write caches are off. PBGC is the paper's md: a write is \
         acknowledged when members have it.",
        "The text of the paper has SC 117 % ahead of PBGC in the copy of sources; the table, whose figures are judged, has 29.3 s and \
         15.2 s, which is 1.93 times. It is MSC-CT that is 2.17 times as fast there; section V says 2.7. A figure within half of \
         the paper's gain, and within a fifth, counts. A quick run has an eighth of the caches and of all amounts.",
    ],
    points: Points::Modelled(points),
    findings,
};

fn point(effort: Effort, cache: Cache, row: &Row) -> Point {
    msc::scripted(effort, cache, WriteLoad::script((row.script)(effort), msc::WRITES_UNDER_WAY))
}

fn points(effort: Effort) -> Vec<Point> {
    let of = |cache: Cache| ROWS.iter().map(move |row| point(effort, cache, row));
    let kept = [SC, CT].map(|cache| point(effort, cache, &SOURCES.with_windows_kept()));
    CACHES.into_iter().flat_map(of).chain(kept).collect()
}

fn findings(results: &Results) -> Findings {
    let mut claims: Vec<_> = ROWS.iter().map(|row| sc_over_pbgc(results, row)).collect();
    claims.extend([sources(results), alike(results), ours(results)]);
    let of = |cache, index: u64| point(results.effort, cache, &ROWS[index as usize]);
    let rows: Vec<_> = (0..).zip(&ROWS).map(|(index, row)| (index, row.name.to_owned())).collect();
    let caches = &CACHES;
    let rate =
        |point: &Point, outcome: &Outcome| point.load.pass_bytes as f64 * 1e3 / outcome.pass_ns[0] as f64;
    let seconds = |_: &Point, outcome: &Outcome| outcome.pass_ns[0] as f64 / 1e9;
    Findings {
        claims,
        plots: vec![plot(results)],
        tables: vec![
            msc::table_of(caches, "MB/s of data", "load", &rows, results, of, rate),
            msc::table_of(caches, "seconds", "load", &rows, results, of, seconds),
            msc::table_of(
                caches,
                "requests to members for each",
                "load",
                &rows,
                results,
                of,
                |_, outcome| msc::requests(outcome),
            ),
        ],
    }
}

/// How much faster than PBGC each cache is, here and in the paper.
fn plot(results: &Results) -> Plot {
    let over = |cache: Cache, row: &Row| {
        let of = |cache| point(results.effort, cache, row);
        results.speed_up(&of(cache), &of(PBGC))
    };
    let bars = |cache: Cache| {
        let values = ROWS.iter().enumerate();
        values.filter_map(|(index, row)| Some((index as f64, over(cache, row)?))).collect()
    };
    let hues = CACHES.iter().enumerate();
    let mut series: Vec<_> =
        hues.map(|(hue, cache)| Series::new(cache.name, hue, Style::Beside, bars(*cache))).collect();
    let paper = ROWS.iter().enumerate().map(|(index, row)| (index as f64, row.sc_over_pbgc)).collect();
    series.push(Series::new("SC, paper", CACHES.len(), Style::Rings, paper));
    Plot {
        name: "msc-bulk-gain".into(),
        title: "Bulky loads, times as fast as PBGC (through)".to_owned(),
        x: Axis::names(
            "load (r reads, w writes; rr and rw at random; fs through a file)",
            ROWS.iter().map(|row| row.short.to_owned()).collect(),
        ),
        y: Axis::from_zero("times as fast"),
        series,
    }
}

fn work(results: &Results, row: &Row, caches: [Cache; 2]) -> String {
    msc::work(results, caches.map(|cache| (cache.name.to_owned(), point(results.effort, cache, row))))
}

/// Whether two points did the same, to the nanosecond and whatever the seed.
fn same(results: &Results, one: &Point, other: &Point) -> bool {
    let of = |point| results.of(point).map(|outcome| (&outcome.pass_ns, &outcome.members));
    of(one) == of(other)
}

/// As in " Rows written whole: 0 % and 99 %."; nothing, if none was written.
fn whole_rows(results: &Results, points: [&Point; 2]) -> String {
    let share = |point: &Point| {
        let outcome = results.of(point)?;
        let all = outcome.rows_full + outcome.rows_rmw + outcome.rows_rcw;
        (all > 0).then(|| 100.0 * outcome.rows_full as f64 / all as f64)
    };
    let [one, other] = points.map(share);
    let text =
        one.zip(other).map(|(one, other)| format!(" Rows written whole: {one:.0} % and {other:.0} %."));
    text.unwrap_or_default()
}

fn sc_over_pbgc(results: &Results, row: &Row) -> Claim {
    let (paper, tolerance) = (row.sc_over_pbgc, msc::tolerance(row.sc_over_pbgc));
    let of = |cache| point(results.effort, cache, row);
    let over = |cache| results.speed_up(&of(SC), &of(cache));
    let judged = over(PBGC).zip(over(PBGC_BACK)).map(|(ratio, back)| {
        let judged = Judged::near(ratio, paper, tolerance, format!("{ratio:.2}x"));
        let judged = if same(results, &of(SC), &of(PBGC)) { judged.exact() } else { judged };
        let rows = whole_rows(results, [&of(PBGC), &of(SC)]);
        judged.because(format!("{}{rows} Over PBGC (back): {back:.2}x.", work(results, row, [PBGC, SC])))
    });
    let percent = 100.0 * tolerance;
    let statement = format!("{}: SC is {paper}x as fast as PBGC (within {percent:.0} %).", row.name);
    Claim::new(statement, row.paper, judged)
}

/// MSC-CT over SC where sources are copied, and the same with windows that stay empty.
fn sources(results: &Results) -> Claim {
    const PAPER: f64 = 1.13;
    let of = |cache, row: &Row| point(results.effort, cache, row);
    let ratio = |row: &Row| results.speed_up(&of(CT, row), &of(SC, row));
    let judged = ratio(&SOURCES).zip(ratio(&SOURCES.with_windows_kept())).map(|(ratio, kept)| {
        let judged = Judged::near(ratio, PAPER, msc::tolerance(PAPER), format!("{ratio:.2}x"));
        judged.because(format!(
            "The paper explains the gain by blocks that are set aside for a file and stay unused. In Linux 2.6.11 a file that is closed \
             gives them up. If they stay empty, the ratio is {kept:.2}x. {}",
            work(results, &SOURCES, [SC, CT])
        ))
    });
    let percent = 100.0 * msc::tolerance(PAPER);
    let statement = format!("{}: MSC-CT is {PAPER}x as fast as SC (within {percent:.0} %).", SOURCES.name);
    Claim::new(statement, "Table II: 15.2 s and 13.5 s", judged)
}

/// Where the paper sees nothing fragmented. The load that differs most is told.
fn alike(results: &Results) -> Claim {
    let judged = |row: &Row| {
        let of = |cache| point(results.effort, cache, row);
        let ratio = results.speed_up(&of(CT), &of(SC))?;
        let judged = Judged::near(ratio, 1.0, 0.03, format!("{ratio:.2}x: {}", row.name));
        Some(judged.because(work(results, row, [SC, CT])))
    };
    let all = ROWS.iter().filter(|row| row.name != SOURCES.name).map(judged).collect::<Option<Vec<_>>>();
    let judged = all.and_then(Judged::of_all);
    Claim::new("MSC-CT and SC are alike in all other loads (within 3 %).", "Table II", judged)
}

fn ours(results: &Results) -> Claim {
    let judged = |row: &Row| {
        let rate = |cache: &Cache| results.mb_per_s(&point(results.effort, *cache, row));
        let others = [PBGC, PBGC_BACK, SC, CT, OURS].iter().map(rate).collect::<Option<Vec<_>>>()?;
        let ratio = rate(&AUTO)? / others.into_iter().fold(0.0, f64::max);
        let judged = Judged::above(ratio, 0.97, format!("{ratio:.2}x: {}", row.name));
        Some(judged.because(work(results, row, [CT, AUTO])))
    };
    let judged = ROWS.iter().map(judged).collect::<Option<Vec<_>>>().and_then(Judged::of_all);
    Claim::new(
        "auto, the default on disks, is never slower than the best of the others (within 3 %).",
        "",
        judged,
    )
}
