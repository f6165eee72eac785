//! What the gain of a moved threshold depends on: the same points in other settings (raid4s-modthresh 4.1).

use super::{
    Effort, Results,
    modthresh::{HALF_KIB, Setup, point, with},
};
use crate::{
    arrays::{HddSetting, shapes},
    findings::Table,
    point::Point,
};

/// What the gain depends on, at some sizes.
const ABLATED_KIB: [u64; 6] = [80, 96, 112, 128, 144, 192];
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
        ("a sixteenth of the seek range", Setup { span_bytes: Some(3 << 30), ..Setup::default() }),
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
    let (classic, modthresh) = (at_half(results, "classic")?, at_half(results, "modthresh")?);
    Some(format!(
        "A write takes {classic} and {modthresh}: the disks do the same number of requests either way, and a gain can only come \
         from a write being cheaper where the same disk has just read. The first pass fills the disks' write caches. {}.",
        found.join(", ")
    ))
}

/// Requests of disks for each write of half a stripe, and the passes.
fn at_half(results: &Results, policy: &str) -> Option<String> {
    let outcome = results.of(&point(results.effort, &shapes::RAID4S, policy, HALF_KIB))?;
    let disks = outcome.members.iter().filter(|member| member.drive == "hdd");
    let (reads, writes) =
        disks.fold((0, 0), |(reads, writes), disk| (reads + disk.reads, writes + disk.writes));
    let each = |count: u64| count as f64 / outcome.requests as f64;
    let passes: Vec<_> = outcome.pass_mb_per_s().iter().map(|rate| format!("{rate:.1}")).collect();
    Some(format!(
        "{:.2} reads and {:.2} writes of disks with {policy} (passes: {} MB/s)",
        each(reads),
        each(writes),
        passes.join(", ")
    ))
}

/// Who writes which rows how at a size above half a stripe, and what becomes of it if writes begin at a stripe.
pub(super) fn why_not_equal(results: &Results) -> Option<String> {
    let kib = 192;
    let share = |policy| {
        let outcome = results.of(&point(results.effort, &shapes::RAID4S, policy, kib))?;
        let rows = outcome.rows_full + outcome.rows_rmw + outcome.rows_rcw;
        Some(format!("{:.0} % of rows with {policy}", 100.0 * outcome.rows_rmw as f64 / rows as f64))
    };
    Some(format!(
        "Writes begin at multiples of their size, not of the stripe, so that most meet two stripes with a part each, and rows with \
         two blocks of four changed are where the policies differ. At {kib} KiB read-modify-write takes {} and {}. If \
         writes begin at a stripe, as the paper's text counts on, the policies are equal: {:.2}x.",
        share("classic")?,
        share("modthresh")?,
        gain_under(results, at_stripes(), kib)?
    ))
}
