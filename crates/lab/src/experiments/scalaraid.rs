//! Shared parts of the experiments of the ScalaRAID paper: shapes, counts of threads, and comparisons of
//! arrays that took turns.

use super::{Effort, Results, pick};
use crate::{
    findings::{Claim, Judged},
    machine::Machine,
    plot::{Axis, Plot, Series, Style},
    realtime::{COMPARED, PresetOutcome, RealTimeOutcome, RealTimePoint},
};

/// "In fio, we set the iodepth to 32" (scalaraid IV).
pub(super) const QUEUE: usize = 32;
/// md's own unit, for each of which it takes its locks (scalaraid II: "S-Unit, whose typical size is 4 KB").
pub(super) const UNIT_BYTES: u32 = 4 << 10;
/// Counts of threads for which the paper's text gives figures (II and IV).
const PAPERS_THREADS: [usize; 4] = [3, 9, 17, 33];
/// Threads of the paper's processor (IV).
const PAPERS_CORES: usize = 52;
/// The count of threads up to which OrigRAID gains (IV: it "saturates when the number of CPU threads reaches
/// 9"); with fewer threads none waits.
pub(super) const SATURATED: usize = 9;

pub(super) const ORIG: &str = COMPARED[0];
pub(super) const HEMI: &str = COMPARED[1];
pub(super) const SCALA: &str = COMPARED[2];
pub(super) const DEFAULT: &str = COMPARED[3];

/// Powers of two up to the machine's cores, the cores themselves, and the counts in the paper's text.
pub(super) fn threads(machine: &Machine) -> Vec<usize> {
    let powers = (0..).map(|power| 1 << power).take_while(|count| *count <= machine.cores);
    let mut counts: Vec<usize> = powers.chain(PAPERS_THREADS).chain([machine.cores]).collect();
    counts.retain(|count| *count <= machine.cores);
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Full-stripe writes on so many members.
pub(super) fn point(effort: Effort, raid_devices: usize, threads: usize) -> RealTimePoint {
    RealTimePoint {
        raid_devices,
        chunk_bytes: UNIT_BYTES,
        member_bytes: pick(effort, 32 << 20, 128 << 20),
        threads,
        queue: QUEUE,
        parts: false,
        turn_ms: pick(effort, 50, 500),
        turns: pick(effort, 7, 11),
    }
}

/// An array of a point.
pub(super) fn array<'a>(
    results: &'a Results,
    point: &RealTimePoint,
    name: &str,
) -> Option<&'a PresetOutcome> {
    results.of_real_time(point)?.preset(name)
}

/// A figure over turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    /// The median of the turns.
    pub(super) median: f64,
    /// How far from it, as a part of it, the median of arbitrarily many turns may lie: see [`beyond`].
    pub(super) scatter: f64,
}

/// How far the median of arbitrarily many turns may lie beyond the turns that count.
const DOUBT: f64 = 0.02;

/// How many turns may be left out at each end: the median of arbitrarily many turns lies between the
/// remaining ones in all but one of fifty runs, whatever their distribution. The odds that at most k of n lie
/// below the median are those of at most k heads.
fn beyond(turns: usize) -> usize {
    let (mut odds, mut sum) = (0.5_f64.powi(turns as i32), 0.0);
    for left_out in 0..turns / 2 {
        sum += odds;
        if 2.0 * sum > DOUBT {
            return left_out.saturating_sub(1);
        }
        odds *= (turns - left_out) as f64 / (left_out + 1) as f64;
    }
    0
}

impl Ratio {
    /// One array over another, turn by turn; the two turns of each pair followed one another. None without
    /// turns.
    pub(super) fn of<T: Copy + Into<u64>>(of: &[T], over: &[T]) -> Option<Self> {
        let value = |number: T| -> f64 { number.into() as f64 };
        let mut ratios: Vec<f64> =
            of.iter().zip(over).map(|(of, over)| value(*of) / value(*over).max(1.0)).collect();
        ratios.sort_by(f64::total_cmp);
        let median = *ratios.get(ratios.len() / 2)?;
        let left_out = beyond(ratios.len());
        let (low, high) = (ratios[left_out], ratios[ratios.len() - 1 - left_out]);
        Some(Self { median, scatter: (median - low).max(high - median) / median })
    }

    /// As in "1.31x".
    pub(super) fn text(self) -> String {
        format!("{:.2}x", self.median)
    }
}

/// The largest scatter of several figures: their average scatters no more.
pub(super) fn most_scatter(all: &[Ratio]) -> f64 {
    all.iter().map(|ratio| ratio.scatter).fold(0.0, f64::max)
}

/// Throughput of one array over another's.
pub(super) fn speed_up(results: &Results, point: &RealTimePoint, of: &str, over: &str) -> Option<Ratio> {
    let turns = |name| Some(&array(results, point, name)?.turn_bytes_per_s[..]);
    Ratio::of(turns(of)?, turns(over)?)
}

/// The 99.99th percentile of one array over another's.
pub(super) fn tail(results: &Results, point: &RealTimePoint, of: &str, over: &str) -> Option<Ratio> {
    let turns = |name| Some(&array(results, point, name)?.turn_p99_99_ns[..]);
    Ratio::of(turns(of)?, turns(over)?)
}

/// A claim about a number of threads: on a machine with fewer cores it is not decided, but reports the
/// measurement with as many threads as there are cores.
pub(super) fn of_threads(
    results: &Results,
    needed: usize,
    (statement, paper): (&str, &str),
    here: Option<String>,
    judged: impl FnOnce() -> Option<Judged>,
) -> Claim {
    let cores = results.machine.cores;
    if cores >= needed {
        return Claim::new(statement, paper, judged());
    }
    let Some(measured) = here else { return Claim::new(statement, paper, None) };
    let has = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
    let reason = format!(
        "It is of {needed} threads at least that wait for one another's locks. The paper's processor has {PAPERS_CORES} threads, this \
         machine {has}."
    );
    Claim::not_here(statement, paper, measured, reason)
}

/// A line for each array by threads.
pub(super) fn by_threads(
    results: &Results,
    point: impl Fn(usize) -> RealTimePoint,
    value: impl Fn(&RealTimeOutcome, &PresetOutcome) -> Option<f64>,
) -> Vec<Series> {
    let line = |(hue, name): (usize, &str)| {
        let at = |threads: usize| {
            let outcome = results.of_real_time(&point(threads))?;
            Some((threads as f64, value(outcome, outcome.preset(name)?)?))
        };
        let points = threads(&results.machine).into_iter().filter_map(at).collect();
        Series::new(name, hue, Style::Marked, points)
    };
    COMPARED.into_iter().enumerate().map(line).collect()
}

/// The paper's figures for an array.
pub(super) fn of_the_paper(name: &str, points: &[(f64, f64)]) -> Series {
    let hue = COMPARED.iter().position(|one| *one == name).unwrap_or(COMPARED.len());
    Series::new(format!("{name}, the paper"), hue, Style::Rings, points.to_vec())
}

/// A plot by threads.
pub(super) fn plot(name: &'static str, title: &str, y: Axis, series: Vec<Series>) -> Plot {
    Plot { name: name.into(), title: title.to_owned(), x: Axis::log2("threads"), y, series }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_what_the_machine_has() {
        let of = |cores| threads(&Machine { cores, ..Machine::here() });
        assert_eq!(of(1), [1]);
        assert_eq!(of(2), [1, 2]);
        assert_eq!(of(6), [1, 2, 3, 4, 6]);
        assert_eq!(of(48), [1, 2, 3, 4, 8, 9, 16, 17, 32, 33, 48]);
    }

    #[test]
    fn as_many_turns_are_left_out_as_the_odds_allow() {
        // With none left out, two in 2^n; with one, 2 (1 + n).
        assert_eq!([1, 5, 7, 8, 10, 11, 14, 25].map(beyond), [0, 0, 0, 0, 0, 1, 2, 6]);
    }

    #[test]
    fn a_ratio_is_the_median_of_turns_that_followed_one_another() {
        let ratio = Ratio::of(&[110_u64, 130, 150], &[100, 100, 100]).unwrap();
        assert_eq!((ratio.median, ratio.text().as_str()), (1.3, "1.30x"));
        assert!((ratio.scatter - 0.2 / 1.3).abs() < 1e-9, "{ratio:?}");
        let turns: Vec<u64> = (0..11).map(|turn| 100 + 10 * turn).collect();
        let ratio = Ratio::of(&turns, &[100; 11]).unwrap();
        assert!(
            (ratio.scatter - 0.4 / 1.5).abs() < 1e-9,
            "the slowest and the fastest are left out: {ratio:?}"
        );
        assert_eq!(Ratio::of(&[3_u64], &[2]).unwrap(), Ratio { median: 1.5, scatter: 0.0 });
        assert_eq!(Ratio::of::<u64>(&[], &[]), None);
    }
}
