//! What the gain of a moved threshold depends on: the same points in other settings (raid4s-modthresh 4.1).

use std::fmt;

use super::{
    Effort, Results,
    modthresh::{HALF_KIB, Setup, point, with},
};
use crate::{
    arrays::{HddSetting, shapes},
    findings::Table,
    point::Point,
};

/// Sizes at which the dependence is measured.
const ABLATED_KIB: [u64; 6] = [80, 96, 112, 128, 144, 192];
/// About a fifteenth of the array.
const SHORT_SPAN_BYTES: u64 = 3 << 30;
/// 64 KiB on each of four disks.
const STRIPE_BYTES: u64 = 256 << 10;

fn setups(effort: Effort) -> Vec<(&'static str, Setup)> {
    let (shipped, depth) = (HddSetting::default(), |depth| Setup { depth, ..Setup::default() });
    let hdd = |hdd| Setup { hdd, ..Setup::default() };
    let mut setups = vec![
        ("the paper's setting", Setup::default()),
        ("1 under way", depth(1)),
        ("4 under way", depth(4)),
        ("32 under way", depth(32)),
        ("disks' write caches off", hdd(HddSetting { write_cache: false, ..shipped })),
        ("disks without command queues", hdd(HddSetting { queue_depth: 1, ..shipped })),
        (
            "the first 3 GiB of the seek range's 45.8",
            Setup { span_bytes: Some(SHORT_SPAN_BYTES), ..Setup::default() },
        ),
        ("writes that begin at a stripe", at_stripes()),
    ];
    if effort == Effort::Full {
        setups.push(("a worn parity SSD", Setup { shape: &shapes::RAID4S_WORN, ..Setup::default() }));
    }
    setups
}

fn at_stripes() -> Setup {
    Setup { unit_bytes: Some(STRIPE_BYTES), ..Setup::default() }
}

/// What modthresh gains under a setup.
fn gain_under(results: &Results, setup: Setup, kib: u64) -> Option<f64> {
    let of = |policy| with(results.effort, setup, policy, kib);
    results.speed_up(&of("modthresh"), &of("classic"))
}

/// The points of all settings but the paper's.
pub(super) fn points(effort: Effort) -> impl Iterator<Item = Point> {
    let ablated = move |(_, setup)| {
        let both = ["classic", "modthresh"].into_iter();
        both.flat_map(move |policy| ABLATED_KIB.map(|kib| with(effort, setup, policy, kib)))
    };
    setups(effort).into_iter().skip(1).flat_map(ablated)
}

pub(super) fn table(results: &Results) -> Table {
    let sizes = ABLATED_KIB.map(|kib| format!("{kib} KiB"));
    let headings: Vec<_> = std::iter::once("setting").chain(sizes.iter().map(String::as_str)).collect();
    let mut table = Table::new("What the gain depends on: modthresh over classic, RAID4S", &headings);
    for (name, setup) in setups(results.effort) {
        let cell =
            |kib| gain_under(results, setup, kib).map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        table.rows.push(std::iter::once(name.to_owned()).chain(ABLATED_KIB.map(cell)).collect());
    }
    table
}

/// What the disks did at half a stripe under both policies, and what the gain there depends on.
pub(super) fn why_at_half(results: &Results) -> Option<String> {
    let mut found = Vec::new();
    for (name, setup) in setups(results.effort) {
        found.push(format!("{:.2}x with {name}", gain_under(results, setup, HALF_KIB)?));
    }
    let did = what_disks_did(results, HALF_KIB, ["classic", "modthresh"])?;
    Some(format!("{did} The gain is {}.", found.join(", ")))
}

/// The tolerance of an equal number of requests.
const SAME: f64 = 0.01;

/// Requests of disks for each write under two policies, and the passes.
pub(super) fn what_disks_did(results: &Results, kib: u64, policies: [&str; 2]) -> Option<String> {
    let [one, other] = policies.map(|policy| DiskWork::of(results, policy, kib));
    let (one, other) = (one?, other?);
    let both = format!("A write of {kib} KiB takes {one} and {other}");
    Some(match one.is_as_many_as(&other) {
        true => format!("{both}: as many requests either way."),
        false => format!("{both}."),
    })
}

/// What the disks of RAID4S did for each write of clients.
struct DiskWork<'a> {
    policy: &'a str,
    reads: f64,
    writes: f64,
    pass_mb_per_s: Vec<f64>,
}

impl<'a> DiskWork<'a> {
    fn of(results: &Results, policy: &'a str, kib: u64) -> Option<Self> {
        let outcome = results.of(&point(results.effort, &shapes::RAID4S, policy, kib))?;
        let disks = outcome.members.iter().filter(|member| member.drive == "hdd");
        let (reads, writes) =
            disks.fold((0, 0), |(reads, writes), disk| (reads + disk.reads, writes + disk.writes));
        let each = |count: u64| count as f64 / outcome.requests as f64;
        Some(Self {
            policy,
            reads: each(reads),
            writes: each(writes),
            pass_mb_per_s: outcome.pass_mb_per_s(),
        })
    }

    fn is_as_many_as(&self, other: &Self) -> bool {
        let same = |one: f64, other: f64| (one - other).abs() <= SAME * one.max(other);
        same(self.reads, other.reads) && same(self.writes, other.writes)
    }
}

impl fmt::Display for DiskWork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, reads, writes, .. } = self;
        let passes: Vec<_> = self.pass_mb_per_s.iter().map(|rate| format!("{rate:.1}")).collect();
        write!(
            f,
            "{reads:.2} reads and {writes:.2} writes of disks with {policy} (passes: {} MB/s)",
            passes.join(", ")
        )
    }
}

/// The share of rows that a policy writes by read-modify-write.
fn rmw_share(results: &Results, policy: &str, kib: u64) -> Option<String> {
    let outcome = results.of(&point(results.effort, &shapes::RAID4S, policy, kib))?;
    let rows = outcome.rows_full + outcome.rows_rmw + outcome.rows_rcw;
    Some(format!("{:.0} % of rows with {policy}", 100.0 * outcome.rows_rmw as f64 / rows as f64))
}

/// Which policy writes which rows how just past half a stripe, and what that costs the disks.
pub(super) fn why_past_half(results: &Results, kib: u64) -> Option<String> {
    Some(format!(
        "{} Read-modify-write takes {} and {}.",
        what_disks_did(results, kib, ["modified", "modthresh"])?,
        rmw_share(results, "modified", kib)?,
        rmw_share(results, "modthresh", kib)?
    ))
}

/// Which policy writes which rows how at a size above half a stripe, and the effect of writes that begin at a
/// stripe.
pub(super) fn why_not_equal(results: &Results) -> Option<String> {
    let kib = 192;
    let outcome = results.of(&point(results.effort, &shapes::RAID4S, "classic", kib))?;
    Some(format!(
        "Writes begin at multiples of their size, not of the stripe: at {kib} KiB a write meets {:.2} stripes, and \
         read-modify-write takes {} and {}. If writes begin at a stripe, as the paper's text counts on, the ratio there is {:.2}x.",
        outcome.stripe_writes as f64 / outcome.requests as f64,
        rmw_share(results, "classic", kib)?,
        rmw_share(results, "modthresh", kib)?,
        gain_under(results, at_stripes(), kib)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_requests_are_as_many_is_said_only_where_they_are() {
        let work =
            |reads, writes| DiskWork { policy: "classic", reads, writes, pass_mb_per_s: vec![9.96, 8.0] };
        assert!(work(2.0, 2.0).is_as_many_as(&work(2.01, 2.0)));
        assert!(
            !work(2.0, 2.0).is_as_many_as(&work(2.1, 2.0)) && !work(2.0, 2.0).is_as_many_as(&work(2.0, 1.9))
        );
        let text = work(2.0, 1.5).to_string();
        assert_eq!(text, "2.00 reads and 1.50 writes of disks with classic (passes: 10.0, 8.0 MB/s)");
    }
}
