//! scalaraid Fig. 2a and 4a: how throughput grows with threads.

use super::{
    Effort, Experiment, Points, Results,
    scalaraid::{
        self, DEFAULT, HEMI, ORIG, Ratio, SATURATED, SCALA, array, by_threads, most_scatter, of_the_paper,
        of_threads, speed_up, threads,
    },
};
use crate::{
    engine_bench::threads_text,
    findings::{Claim, Findings, Judged, Table},
    machine::Machine,
    plot::{Axis, Plot, Series, Style},
    realtime::{COMPARED, PresetOutcome, RealTimeOutcome, RealTimePoint},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "scalaraid-threads",
    title: "Finer locks let throughput grow with threads",
    source: "scalaraid IV, Fig. 4a, and II, Fig. 2a",
    setting: &[
        "The paper: Linux 5.11 with md as it is (OrigRAID), with 128 stripe locks (HemiRAID), and with a lock for each counter and \
         distributed blocks as well (ScalaRAID), on Samsung 980 Pro SSDs and a processor of 52 threads; fio writes whole stripes in \
         sequence, 32 under way for each thread.",
        "Here the same locks are settings of one engine, `orig`, `hemi` and `scala`, beside its own `default`; 2+1 members in memory, \
         regions of 1 MiB. md takes its locks for each 4 KiB of a member, and this engine for each stripe: chunks of 4 KiB make it \
         as many for a byte. Chunks of 64 KiB, this engine's usual, stand beside them. Threads are as many as there are cores, one \
         core each, and each writes its own part of the array in sequence.",
    ],
    points: Points::RealTime(points),
    findings,
};

/// Fig. 2: "RAID that consists of three SSDs".
const MEMBERS: usize = 3;
const CHUNKS: [u32; 2] = [scalaraid::UNIT_BYTES, 64 << 10];

/// HemiRAID over OrigRAID, by threads (IV).
const HEMI_OVER_ORIG: [(usize, f64, &str); 2] =
    [(17, 1.308, "30.8 % at 17 threads"), (33, 1.399, "39.9 % at 33 threads")];
/// ScalaRAID over HemiRAID, on average (IV), and over OrigRAID (I).
const SCALA_OVER_HEMI: f64 = 1.348;
const SCALA_OVER_ORIG: f64 = 1.894;
/// The tolerance of the paper's ratios.
const NEAR: f64 = 0.1;
/// The gain that "saturates" still allows.
const SATURATES: f64 = 1.1;
/// How far ours must be ahead of OrigRAID, and how far it may be behind ScalaRAID.
const AHEAD: f64 = 1.9;
const LEVEL: f64 = 0.95;
/// Threads from which on ours must be ahead: with fewer, threads seldom wait for locks that are held for
/// nanoseconds.
const AHEAD_FROM: usize = 16;
/// The first count of threads at which the paper's arrays differ.
const TOLD_APART: usize = HEMI_OVER_ORIG[0].0;

fn point(effort: Effort, chunk_bytes: u32, threads: usize) -> RealTimePoint {
    RealTimePoint { chunk_bytes, ..scalaraid::point(effort, MEMBERS, threads) }
}

fn points(effort: Effort, machine: &Machine) -> Vec<RealTimePoint> {
    CHUNKS
        .iter()
        .flat_map(|chunk| threads(machine).into_iter().map(|count| point(effort, *chunk, count)))
        .collect()
}

fn findings(results: &Results) -> Findings {
    let mut claims: Vec<_> = HEMI_OVER_ORIG.iter().map(|paper| hemi_over_orig(results, *paper)).collect();
    claims.extend([
        scala_over_hemi(results),
        scala_over_orig(results),
        saturation(results),
        ahead(results),
        level(results),
    ]);
    let tables = CHUNKS.iter().map(|chunk| table(results, *chunk)).collect();
    Findings { claims, plots: plots(results), tables }
}

/// A point with md's unit.
fn of_unit(results: &Results, threads: usize) -> RealTimePoint {
    point(results.effort, CHUNKS[0], threads)
}

fn ratio(results: &Results, threads: usize, of: &str, over: &str) -> Option<Ratio> {
    speed_up(results, &of_unit(results, threads), of, over)
}

/// As in "1.02x with 2 threads", with as many as there are cores.
fn at_most_threads(results: &Results, of: &str, over: &str) -> Option<String> {
    let most = results.machine.cores;
    let found = ratio(results, most, of, over)?;
    Some(format!("{} with {}", found.text(), threads_text(most)))
}

fn hemi_over_orig(results: &Results, (needed, expected, paper): (usize, f64, &str)) -> Claim {
    let statement = format!(
        "With {needed} threads HemiRAID is faster than OrigRAID by as much as in the paper (its ratio within 10 %)."
    );
    of_threads(results, needed, (&statement, paper), at_most_threads(results, HEMI, ORIG), || {
        let found = ratio(results, needed, HEMI, ORIG)?;
        Some(Judged::near(found.median, expected, NEAR, found.text()).scattering(found.scatter))
    })
}

/// Counts of threads at which the paper's arrays differ, as far as there are cores.
fn many(results: &Results) -> Vec<usize> {
    threads(&results.machine).into_iter().filter(|count| *count >= TOLD_APART).collect()
}

fn scala_over_hemi(results: &Results) -> Claim {
    let statement = "ScalaRAID is faster than HemiRAID by as much as in the paper, on average from 17 threads on (its ratio within 10 %).";
    of_threads(
        results,
        TOLD_APART,
        (statement, "34.8 % on average"),
        at_most_threads(results, SCALA, HEMI),
        || {
            let found: Vec<_> = many(results)
                .iter()
                .map(|count| ratio(results, *count, SCALA, HEMI))
                .collect::<Option<_>>()?;
            let mean = found.iter().map(|ratio| ratio.median).sum::<f64>() / found.len() as f64;
            let text = format!("{mean:.2}x");
            Some(Judged::near(mean, SCALA_OVER_HEMI, NEAR, text).scattering(most_scatter(&found)))
        },
    )
}

fn scala_over_orig(results: &Results) -> Claim {
    let statement = "ScalaRAID is faster than OrigRAID by as much as in the paper where it is most (its ratio within 10 %).";
    of_threads(
        results,
        TOLD_APART,
        (statement, "up to 89.4 %"),
        at_most_threads(results, SCALA, ORIG),
        || {
            let at = |count: &usize| Some((*count, ratio(results, *count, SCALA, ORIG)?));
            let found: Vec<_> = many(results).iter().map(at).collect::<Option<_>>()?;
            let (count, best) = found.into_iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
            let text = format!("{} with {count} threads", best.text());
            Some(Judged::near(best.median, SCALA_OVER_ORIG, NEAR, text).scattering(best.scatter))
        },
    )
}

/// These turns have different counts and did not follow one another: the scatter of both is known, but not
/// the changes on the machine between them.
fn saturation(results: &Results) -> Claim {
    let statement = "OrigRAID saturates at 9 threads: more gain at most 10 %.";
    let most = results.machine.cores;
    let turns = |count| Some(&array(results, &of_unit(results, count), ORIG)?.turn_bytes_per_s[..]);
    let gain = |from: usize, to: usize| Ratio::of(turns(to)?, turns(from)?);
    let here = gain(1, most).map(|gain| format!("{} from 1 to {}", gain.text(), threads_text(most)));
    let needed = TOLD_APART;
    of_threads(results, needed, (statement, "saturates at 9 threads"), here, || {
        let to = |count| {
            let gain = gain(SATURATED, count)?;
            let text = format!("{} from {SATURATED} to {}", gain.text(), threads_text(count));
            Some(Judged::at_most(gain.median, SATURATES, text).scattering(gain.scatter))
        };
        Judged::of_all(many(results).into_iter().map(to).collect::<Option<Vec<_>>>()?)
    })
}

fn ahead(results: &Results) -> Claim {
    let statement = "With as many threads as there are, 16 or more, the default is at least 1.9 times as fast as OrigRAID.";
    let here = at_most_threads(results, DEFAULT, ORIG);
    of_threads(results, AHEAD_FROM, (statement, ""), here.clone(), || {
        let found = ratio(results, results.machine.cores, DEFAULT, ORIG)?;
        Some(Judged::above(found.median, AHEAD, here?).scattering(found.scatter))
    })
}

/// For every chunk and count of threads.
fn level(results: &Results) -> Claim {
    let at = |point: &RealTimePoint| {
        let found = speed_up(results, point, DEFAULT, SCALA)?;
        let (chunk, count) = (point.chunk_bytes >> 10, threads_text(point.threads));
        let text = format!("at worst {}, with {count} and chunks of {chunk} KiB", found.text());
        Some(Judged::above(found.median, LEVEL, text).scattering(found.scatter))
    };
    let all: Option<Vec<_>> = points(results.effort, &results.machine).iter().map(at).collect();
    let statement = "The default is never behind ScalaRAID (by more than 5 %).";
    Claim::new(statement, "", all.and_then(Judged::of_all))
}

fn table(results: &Results, chunk_bytes: u32) -> Table {
    let title = format!("GB/s, whole stripes in sequence, 2+1, chunks of {} KiB", chunk_bytes >> 10);
    let headings: Vec<_> = ["threads"]
        .into_iter()
        .chain(COMPARED)
        .chain(["limit", "hemi/orig", "paper", "scala/hemi", "scala/orig", "default/orig", "default/scala"])
        .collect();
    let mut table = Table::new(title, &headings);
    for count in threads(&results.machine) {
        let point = point(results.effort, chunk_bytes, count);
        let Some(outcome) = results.of_real_time(&point) else { continue };
        let gb = |bytes_per_s: f64| format!("{:.2}", bytes_per_s / 1e9);
        let times = |of, over| speed_up(results, &point, of, over).map_or_else(String::new, Ratio::text);
        let paper = HEMI_OVER_ORIG.iter().find(|paper| paper.0 == count);
        let mut row = vec![count.to_string()];
        row.extend(
            COMPARED
                .map(|name| outcome.preset(name).map_or_else(String::new, |found| gb(found.bytes_per_s()))),
        );
        row.push(gb(outcome.limit_bytes_per_s as f64));
        row.push(times(HEMI, ORIG));
        row.push(paper.map_or_else(String::new, |(_, ratio, _)| format!("{ratio:.2}x")));
        row.extend(
            [(SCALA, HEMI), (SCALA, ORIG), (DEFAULT, ORIG), (DEFAULT, SCALA)]
                .map(|(of, over)| times(of, over)),
        );
        table.rows.push(row);
    }
    table
}

fn plots(results: &Results) -> Vec<Plot> {
    let throughput = |name, chunk: u32| {
        let mut series = by_threads(
            results,
            |count| point(results.effort, chunk, count),
            |_, found| Some(found.bytes_per_s() / 1e9),
        );
        series.push(limit(results, chunk));
        let title = format!("Throughput, 2+1, chunks of {} KiB", chunk >> 10);
        scalaraid::plot(name, &title, Axis::from_zero("GB/s"), series)
    };
    let cpu =
        by_threads(results, |count| of_unit(results, count), |_, found| Some(found.cpu_ns as f64 / 1e3));
    vec![
        throughput("scalaraid-threads-throughput", CHUNKS[0]),
        speed_ups(results),
        throughput("scalaraid-threads-throughput-64k", CHUNKS[1]),
        scalaraid::plot(
            "scalaraid-threads-cpu",
            "Processor time of a write, 2+1, chunks of 4 KiB",
            Axis::from_zero("CPU time of a write, µs"),
            cpu,
        ),
    ]
}

fn limit(results: &Results, chunk: u32) -> Series {
    let at = |count: usize| {
        let outcome = results.of_real_time(&point(results.effort, chunk, count))?;
        Some((count as f64, outcome.limit_bytes_per_s as f64 / 1e9))
    };
    let points = threads(&results.machine).into_iter().filter_map(at).collect();
    Series::new("limit (bare loops)", 6, Style::Dashed, points)
}

/// Speed-ups over OrigRAID, with the paper's figures.
fn speed_ups(results: &Results) -> Plot {
    let over_orig = |outcome: &RealTimeOutcome, found: &PresetOutcome| {
        let orig = outcome.preset(ORIG)?;
        Some(Ratio::of(&found.turn_bytes_per_s, &orig.turn_bytes_per_s)?.median)
    };
    let mut series = by_threads(results, |count| of_unit(results, count), over_orig);
    let hemi = HEMI_OVER_ORIG.map(|(count, ratio, _)| (count as f64, ratio));
    series.push(of_the_paper(HEMI, &hemi));
    let best = [(1.0, SCALA_OVER_ORIG), (33.0, SCALA_OVER_ORIG)];
    series.push(Series {
        style: Style::Dashed,
        name: "scala at best, the paper".to_owned(),
        ..of_the_paper(SCALA, &best)
    });
    let y = Axis::from_zero("throughput over orig");
    scalaraid::plot("scalaraid-threads-over-orig", "Over OrigRAID, 2+1, chunks of 4 KiB", y, series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{findings::ClaimVerdict, realtime::MadeUp};

    fn verdicts(cores: usize, gb_per_s: fn(&str) -> f64) -> Vec<(String, ClaimVerdict)> {
        let machine = Machine { cores, ..Machine::here() };
        let results = Results::made_up_real_time(&EXPERIMENT, Effort::Full, machine, |_, name| MadeUp {
            bytes_per_s: (gb_per_s(name) * 1e9) as u64,
            p99_99_ns: 5000,
            locks_ppm: 0,
        });
        findings(&results).claims.into_iter().map(|claim| (claim.reason, claim.verdict)).collect()
    }

    #[test]
    fn what_needs_more_cores_than_there_are_is_not_decided() {
        use ClaimVerdict::{NotDecidableHere, NotReproduced, Reproduced};
        let as_the_paper = |name: &str| match name {
            ORIG => 10.0,
            HEMI => 13.5,
            _ => 18.5,
        };
        let two = verdicts(2, as_the_paper);
        assert!(two[..6].iter().all(|(_, verdict)| *verdict == NotDecidableHere), "{two:?}");
        assert!(two[0].0.contains("this machine 2 cores"), "{two:?}");
        assert_eq!(two[6].1, Reproduced, "the default beside ScalaRAID is decided by any machine");
        let found: Vec<_> = verdicts(48, as_the_paper).into_iter().map(|(_, verdict)| verdict).collect();
        let ours = [NotReproduced, Reproduced];
        assert_eq!((&found[..5], &found[5..]), (&[Reproduced; 5][..], &ours[..]), "1.85x is below 1.9x");
        assert_eq!(verdicts(15, as_the_paper)[5].1, NotDecidableHere);
        assert_eq!(verdicts(16, as_the_paper)[5].1, NotReproduced, "ours is of 16 threads");
        let alike: Vec<_> = verdicts(48, |_| 10.0).into_iter().map(|(_, verdict)| verdict).collect();
        assert_eq!((&alike[..4], alike[4]), (&[NotReproduced; 4][..], Reproduced));
    }
}
