//! Shared parts of the experiments of raid4s-modthresh: load, and claims over ranges of sizes.

use super::{
    Effort, Results, pick, policy,
    results::{at_size, smallest},
};
use crate::{
    arrays::{HddSetting, Shape, shapes},
    findings::Judged,
    point::{Point, WriteLoad},
};

/// The setting text of both experiments.
pub(super) const LOAD_OF_THE_PAPER: &str = "The paper: XDD with direct I/O, random writes at multiples of the size within 49,153,835,008 bytes, queue depth 10, 128 MB \
     a pass, the mean of 3 passes; 4+1 arrays with chunks of 64 KiB; Linux 2.6.32.";

/// The paper's threshold: half a stripe.
pub(super) const HALF_KIB: u64 = 128;

pub(super) const CHUNK_KIB: u64 = 64;

/// The tolerance of equality. Runs of other seeds differ by more where the policies are close; the claim then
/// says so.
pub(super) const EQUAL: f64 = 0.02;

/// A point of raid4s-modthresh 4.
pub(super) fn point(effort: Effort, shape: &'static Shape, name: &str, kib: u64) -> Point {
    with(effort, Setup { shape, ..Setup::default() }, name, kib)
}

/// Differences from the paper's setting, to see what a result depends on.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) shape: &'static Shape,
    pub(super) depth: u32,
    pub(super) hdd: HddSetting,
    /// The alignment of writes, if not their size.
    pub(super) unit_bytes: Option<u64>,
    /// The span of writes, if not the whole array.
    pub(super) span_bytes: Option<u64>,
}

impl Default for Setup {
    /// The paper's.
    fn default() -> Self {
        Self {
            shape: &shapes::RAID4S,
            depth: 10,
            hdd: HddSetting::default(),
            unit_bytes: None,
            span_bytes: None,
        }
    }
}

pub(super) fn with(effort: Effort, setup: Setup, name: &str, kib: u64) -> Point {
    let (pass_bytes, passes) = pick(effort, (64 << 20, 2), (128 << 20, 3));
    let load = WriteLoad::random(kib << 10, setup.depth, pass_bytes, passes);
    let unit_bytes = setup.unit_bytes.unwrap_or(load.unit_bytes);
    let load = WriteLoad { unit_bytes, span_bytes: setup.span_bytes, ..load };
    Point { hdd: setup.hdd, ..Point::new(setup.shape, policy(name), load) }
}

/// Whether all ratios are 1 within a tolerance.
pub(super) fn all_equal(ratios: &[(u64, f64)], tolerance: f64) -> Judged {
    let off = |(_, ratio): &(u64, f64)| (ratio - 1.0).abs();
    let worst = ratios.iter().copied().max_by(|a, b| off(a).total_cmp(&off(b))).expect("there are sizes");
    let judged = Judged::near(worst.1, 1.0, tolerance, format!("farthest off: {}", at_size(worst)));
    // To the nanosecond: both do the same, whatever the seed.
    if worst.1 == 1.0 { judged.exact() } else { judged }
}

/// Whether all ratios are above a bound.
pub(super) fn all_above(ratios: &[(u64, f64)], bound: f64) -> Judged {
    Judged::above(smallest(ratios).1, bound, mean_and_least(ratios))
}

/// Whether they are above the bound on average.
pub(super) fn above_on_average(ratios: &[(u64, f64)], bound: f64) -> Judged {
    Judged::above(mean(ratios), bound, mean_and_least(ratios)).averaged(ratios.len())
}

fn mean_and_least(ratios: &[(u64, f64)]) -> String {
    format!("{:.2}x on average, least {}", mean(ratios), at_size(smallest(ratios)))
}

pub(super) fn mean(ratios: &[(u64, f64)]) -> f64 {
    ratios.iter().map(|(_, ratio)| ratio).sum::<f64>() / ratios.len() as f64
}

/// Why four disks and an SSD are not ahead of SSDs only: the cost of a chunk's write on both, and on the
/// array with one SSD that is called RAID5S, too.
pub(super) fn beside_ssds_only(results: &Results) -> Option<String> {
    let of = |shape: &'static Shape, name| {
        let outcome = results.of(&point(results.effort, shape, name, CHUNK_KIB))?;
        let median_ms = outcome.latency_p50_ns as f64 / 1e6;
        Some((shape.name, outcome.mb_per_s(), median_ms))
    };
    let arrays = [
        of(&shapes::RAID4S, "modthresh")?,
        of(&shapes::RAID5S_ALL, "classic")?,
        of(&shapes::RAID5S, "classic")?,
    ];
    let figures = arrays.map(|(name, rate, ms)| format!("{rate:.0} MB/s and {ms:.1} ms on {name}"));
    let ours: Vec<_> =
        arrays[1..].iter().filter(|other| other.1 < arrays[0].1).map(|(name, ..)| *name).collect();
    let ours = if ours.is_empty() {
        "neither of ours is".to_owned()
    } else {
        format!("so is {} here", ours.join(" and "))
    };
    Some(format!(
        "Throughput and median latency at {CHUNK_KIB} KiB: {}. The paper's curve of RAID5S is below RAID4S-modthresh; at \
         this size {ours}.",
        figures.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiments::Effort,
        findings::{Claim, ClaimVerdict},
    };

    fn quick(judged: Judged) -> ClaimVerdict {
        Claim::new("", "paper", Some(judged)).weighed(Effort::Quick).verdict
    }

    #[test]
    fn what_is_the_same_to_the_nanosecond_is_equal_for_every_seed() {
        assert_eq!(quick(all_equal(&[(4, 1.0), (8, 1.0)], EQUAL)), ClaimVerdict::Reproduced);
        assert_eq!(quick(all_equal(&[(4, 1.0), (8, 1.01)], EQUAL)), ClaimVerdict::Undecided);
        assert_eq!(quick(all_equal(&[(4, 1.0), (8, 1.3)], EQUAL)), ClaimVerdict::NotReproduced);
    }

    #[test]
    fn an_average_is_judged_by_itself_and_all_by_the_least() {
        let ratios = [(80, 0.97), (96, 1.43)];
        assert!(!all_above(&ratios, 1.0).holds && above_on_average(&ratios, 1.0).holds);
        assert_eq!(above_on_average(&ratios, 1.0).measured, "1.20x on average, least 0.97x at 80 KiB");
        assert_eq!(quick(above_on_average(&ratios, 1.0)), ClaimVerdict::Reproduced);
        assert_eq!(quick(all_above(&ratios, 1.0)), ClaimVerdict::Undecided);
    }
}
