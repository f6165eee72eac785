//! scalaraid Fig. 2b: where the time goes, and how much of it locks take.

use std::collections::BTreeMap;

use stripewise_device::parts::Part;

use super::{
    Effort, Experiment, Points, Results,
    scalaraid::{self, DEFAULT, ORIG, array, by_threads, of_the_paper, of_threads, threads},
};
use crate::{
    engine_bench::threads_text,
    findings::{Claim, Findings, Judged, Table},
    machine::Machine,
    plot::{Axis, Plot, Series, Style},
    realtime::{COMPARED, PresetOutcome, RealTimePoint},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "scalaraid-locks",
    title: "The share of time in locks grows with threads",
    source: "scalaraid II, Fig. 2b",
    setting: &[
        "The paper: OrigRAID on three SSDs, whole stripes in sequence, 3 to 33 threads; the share of counter lock, stripe lock, \
         submission, copies and XOR in the time of I/O.",
        "Here: as scalaraid-threads, with a sampler that looks at each worker every 200 microseconds and notes the part that it is at. \
         Locks are those of stripes and those of counters, taking, waiting and giving back. Copies are into members in memory, which \
         a processor makes here and an SSD's own engine there: they make every other share smaller.",
    ],
    points: Points::RealTime(points),
    findings,
};

/// Fig. 2: "RAID that consists of three SSDs".
const MEMBERS: usize = 3;
/// Threads, OrigRAID's share, and the claim's tolerance as a part of it.
const OF_ORIG: [(usize, f64, f64, &str); 2] = [(3, 0.035, 0.5, "3.5 %"), (33, 0.308, 0.25, "30.8 %")];
/// How far our share may be above OrigRAID's.
const ABOVE: f64 = 0.01;
/// The claimed scatter of a share: twice the deviation of as many independent looks.
const DEVIATIONS: f64 = 2.0;

fn point(effort: Effort, threads: usize) -> RealTimePoint {
    RealTimePoint { parts: true, ..scalaraid::point(effort, MEMBERS, threads) }
}

fn points(effort: Effort, machine: &Machine) -> Vec<RealTimePoint> {
    threads(machine).into_iter().map(|count| point(effort, count)).collect()
}

fn findings(results: &Results) -> Findings {
    let mut claims: Vec<_> = OF_ORIG.iter().map(|paper| of_orig(results, *paper)).collect();
    claims.push(never_above(results));
    let tables = std::iter::once(table(results)).chain(by_part(results)).collect();
    Findings { claims, plots: plots(results), tables }
}

/// A share of the samples of workers.
#[derive(Clone, Copy)]
struct Share {
    share: f64,
    /// To either side.
    scatter: f64,
}

impl Share {
    fn of(found: &PresetOutcome) -> Option<Self> {
        let share = found.locks()?;
        let scatter = DEVIATIONS * (share * (1.0 - share) / found.looks.max(1) as f64).sqrt();
        Some(Self { share, scatter })
    }

    fn text(self) -> String {
        format!("{:.1} %", self.share * 100.0)
    }
}

fn locks(results: &Results, threads: usize, name: &str) -> Option<Share> {
    Share::of(array(results, &point(results.effort, threads), name)?)
}

fn of_orig(results: &Results, (needed, expected, near, paper): (usize, f64, f64, &str)) -> Claim {
    let within = if near < 0.5 { "a quarter" } else { "a half" };
    let statement = format!(
        "With {needed} threads OrigRAID's locks take the share of the time that they take in the paper (within {within} of it)."
    );
    let most = results.machine.cores;
    let here =
        locks(results, most, ORIG).map(|found| format!("{} with {}", found.text(), threads_text(most)));
    of_threads(results, needed, (&statement, paper), here, || {
        let found = locks(results, needed, ORIG)?;
        let judged = Judged::near(found.share, expected, near, found.text());
        let write_ns = array(results, &point(results.effort, needed), ORIG)?.cpu_ns;
        let reason = why_not(write_ns as f64, found.share, expected);
        Some(judged.scattering(found.scatter / found.share.max(1e-6)).else_because(reason))
    })
}

/// The time that locks take, and how long a write would have to take for that to be the paper's share.
fn why_not(write_ns: f64, share: f64, expected: f64) -> String {
    let locks_us = write_ns * share / 1e3;
    format!(
        "Locks take {locks_us:.2} us of a write's {:.2} us of processor time; they would be {:.1} % of a write that takes {:.1} us.",
        write_ns / 1e3,
        expected * 100.0,
        locks_us / expected
    )
}

/// The claim at every count of threads.
fn never_above(results: &Results) -> Claim {
    let at = |count: usize| {
        let (ours, orig) = (locks(results, count, DEFAULT)?, locks(results, count, ORIG)?);
        let text = format!("{} beside {} with {}", ours.text(), orig.text(), threads_text(count));
        let scatter = (ours.scatter + orig.scatter) / ours.share.max(1e-6);
        Some(Judged::at_most(ours.share, orig.share + ABOVE, text).scattering(scatter))
    };
    let all: Option<Vec<_>> = threads(&results.machine).into_iter().map(at).collect();
    Claim::new(
        "The default's locks never take a greater share than OrigRAID's (by more than a percent of the time).",
        "",
        all.and_then(Judged::of_all),
    )
}

fn table(results: &Results) -> Table {
    let headings: Vec<_> = ["threads"].into_iter().chain(COMPARED).chain(["orig in the paper"]).collect();
    let mut table = Table::new("Share of time in locks, %", &headings);
    for count in threads(&results.machine) {
        let share = |name| locks(results, count, name).map(|found| format!("{:.1}", found.share * 100.0));
        let Some(shares) = COMPARED.iter().map(|name| share(name)).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let paper = OF_ORIG.iter().find(|paper| paper.0 == count);
        let paper = paper.map_or_else(String::new, |(_, share, ..)| format!("{:.1}", share * 100.0));
        table.rows.push([count.to_string()].into_iter().chain(shares).chain([paper]).collect());
    }
    table
}

/// With as many threads as there are cores.
fn by_part(results: &Results) -> Option<Table> {
    let most = results.machine.cores;
    let of = |name| array(results, &point(results.effort, most), name);
    let names: Vec<_> = of(ORIG)?.parts_ppm.keys().cloned().collect();
    let headings: Vec<_> =
        ["locks"].into_iter().chain(names.iter().map(String::as_str)).chain(["looks"]).collect();
    let mut table = Table::new(format!("Share of time by part with {}, %", threads_text(most)), &headings);
    for name in COMPARED {
        let found = of(name)?;
        let share = |part: &String| format!("{:.1}", *found.parts_ppm.get(part).unwrap_or(&0) as f64 / 1e4);
        let cells = names.iter().map(share).chain([found.looks.to_string()]);
        table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    Some(table)
}

fn plots(results: &Results) -> Vec<Plot> {
    let mut shares =
        by_threads(results, |count| point(results.effort, count), |_, found| Some(found.locks()? * 100.0));
    shares.push(of_the_paper(ORIG, &OF_ORIG.map(|(count, share, ..)| (count as f64, share * 100.0))));
    let y = Axis::from_zero("share of the time of writes, %");
    vec![
        scalaraid::plot("scalaraid-locks-share", "Time in locks of stripes and counters", y, shares),
        by_part_and_threads(results, "scalaraid-locks-orig", ORIG),
        by_part_and_threads(results, "scalaraid-locks-default", DEFAULT),
    ]
}

/// A bar for each count of threads.
fn by_part_and_threads(results: &Results, plot_name: &'static str, name: &str) -> Plot {
    let counts = threads(&results.machine);
    let found: Vec<_> = counts
        .into_iter()
        .filter_map(|count| Some((count, &array(results, &point(results.effort, count), name)?.parts_ppm)))
        .collect();
    let share = |part: Part| {
        let bars = found.iter().enumerate();
        let of = |parts: &BTreeMap<String, u64>| *parts.get(part.name()).unwrap_or(&0) as f64 / 1e4;
        bars.map(|(index, (_, parts))| (index as f64, of(parts))).collect()
    };
    let parts = Part::ALL.into_iter().filter(|part| *part != Part::Outside).enumerate();
    Plot {
        name: plot_name.into(),
        title: format!("Time by part, {name}"),
        x: Axis::names("threads", found.iter().map(|(count, _)| count.to_string()).collect()),
        y: Axis::from_zero("share of the time of writes, %"),
        series: parts.map(|(hue, part)| Series::new(part.name(), hue, Style::Stacked, share(part))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{findings::ClaimVerdict, realtime::MadeUp};

    fn verdicts(cores: usize, percent: fn(usize, &str) -> u64) -> Vec<ClaimVerdict> {
        let machine = Machine { cores, ..Machine::here() };
        let results = Results::made_up_real_time(&EXPERIMENT, Effort::Full, machine, |point, name| MadeUp {
            bytes_per_s: 1_000_000_000,
            p99_99_ns: 1000,
            locks_ppm: percent(point.threads, name) * 10_000,
        });
        findings(&results).claims.into_iter().map(|claim| claim.weighed(Effort::Full).verdict).collect()
    }

    #[test]
    fn the_reason_is_of_what_was_measured() {
        let reason = why_not(2000.0, 0.2, 0.1);
        assert_eq!(
            reason,
            "Locks take 0.40 us of a write's 2.00 us of processor time; they would be 10.0 % of a write that takes 4.0 us."
        );
    }

    #[test]
    fn locks_are_decided_where_there_are_as_many_threads() {
        use ClaimVerdict::{NotDecidableHere, NotReproduced, Reproduced};
        let as_the_paper = |threads: usize, name: &str| match (threads, name) {
            (..17, ORIG) => 4,
            (_, ORIG) => 30,
            _ => 1,
        };
        assert_eq!(verdicts(48, as_the_paper), [Reproduced; 3]);
        assert_eq!(verdicts(8, as_the_paper), [Reproduced, NotDecidableHere, Reproduced]);
        assert_eq!(verdicts(2, as_the_paper), [NotDecidableHere, NotDecidableHere, Reproduced]);
        let ours_worse = |_: usize, name: &str| if name == DEFAULT { 20 } else { 10 };
        assert_eq!(verdicts(48, ours_worse), [NotReproduced; 3]);
    }
}
