//! What the experiments of raid4s-modthresh share: load, and claims over ranges of sizes.

use super::{
    Effort, Results, pick, policy,
    results::{at_size, smallest},
};
use crate::{
    arrays::{HddSetting, Shape, shapes},
    findings::Judged,
    point::{Point, WriteLoad},
};

/// What both experiments say of their setting.
pub(super) const LOAD_OF_THE_PAPER: &str = "The paper: XDD with direct I/O, random writes at multiples of the size within 49,153,835,008 bytes, queue depth 10, 128 MB \
     a pass, the mean of 3 passes; 4+1 arrays with chunks of 64 KiB; Linux 2.6.32.";

/// The paper's threshold: half a stripe.
pub(super) const HALF_KIB: u64 = 128;

pub(super) const CHUNK_KIB: u64 = 64;

/// What counts as equal. Runs of other seeds differ by more where the policies are close, at half a stripe: there the
/// verdict may be another for another seed.
pub(super) const EQUAL: f64 = 0.02;

/// A point of raid4s-modthresh 4.
pub(super) fn point(effort: Effort, shape: &'static Shape, name: &str, kib: u64) -> Point {
    with(effort, Setup { shape, ..Setup::default() }, name, kib)
}

/// What differs from the paper's setting, to see what a result depends on.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) shape: &'static Shape,
    pub(super) depth: u32,
    pub(super) hdd: HddSetting,
    /// What writes begin at multiples of, if not of their size.
    pub(super) unit_bytes: Option<u64>,
    /// Where they go, if not anywhere.
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

/// Whether all ratios are 1 but for a part.
pub(super) fn all_equal(ratios: &[(u64, f64)], tolerance: f64) -> Judged {
    let off = |(_, ratio): &(u64, f64)| (ratio - 1.0).abs();
    let worst = ratios.iter().copied().max_by(|a, b| off(a).total_cmp(&off(b))).expect("there are sizes");
    Judged::new(off(&worst) <= tolerance, format!("farthest off: {}", at_size(worst)))
}

/// Whether all ratios are above a bound.
pub(super) fn all_above(ratios: &[(u64, f64)], bound: f64) -> Judged {
    let (mean, least) = (mean(ratios), smallest(ratios));
    Judged::new(least.1 > bound, format!("{mean:.2}x on average, least {}", at_size(least)))
}

/// Whether they are above it on average.
pub(super) fn above_on_average(ratios: &[(u64, f64)], bound: f64) -> Judged {
    Judged { holds: mean(ratios) > bound, ..all_above(ratios, bound) }
}

pub(super) fn mean(ratios: &[(u64, f64)]) -> f64 {
    ratios.iter().map(|(_, ratio)| ratio).sum::<f64>() / ratios.len() as f64
}

/// `cost` over the best of the paper's three policies at each size.
pub(super) fn cost_over_best(
    results: &Results,
    shape: &'static Shape,
    sizes_kib: &[u64],
) -> Option<Vec<(u64, f64)>> {
    let rate = |name: &str, kib| results.mb_per_s(&point(results.effort, shape, name, kib));
    let at = |kib: &u64| {
        let others = ["classic", "modthresh", "modified"].map(|name| rate(name, *kib));
        let best = others.into_iter().collect::<Option<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
        Some((*kib, rate("cost", *kib)? / best))
    };
    sizes_kib.iter().map(at).collect()
}

/// Why four disks and an SSD are not ahead of SSDs only: what a write of a chunk takes on both, and on the array that the
/// paper's curve fits.
pub(super) fn beside_ssds_only(results: &Results) -> Option<String> {
    let of = |shape: &'static Shape, name| {
        let outcome = results.of(&point(results.effort, shape, name, CHUNK_KIB))?;
        let median_ms = outcome.latency_p50_ns as f64 / 1e6;
        Some(format!("{:.0} MB/s and {median_ms:.1} ms on {}", outcome.mb_per_s(), shape.name))
    };
    Some(format!(
        "SSDs have no seeks and no rotations. Throughput and median latency at {CHUNK_KIB} KiB: {}, {}, {}. The paper's curve of \
         RAID5S is below RAID4S-modthresh, as that of an array with one SSD, which the slides call RAID5S, and far from what \
         five such SSDs write.",
        of(&shapes::RAID4S, "modthresh")?,
        of(&shapes::RAID5S_ALL, "classic")?,
        of(&shapes::RAID5S, "classic")?
    ))
}
