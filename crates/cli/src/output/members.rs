//! An array's members as people read them: what they are, how fast they are, how much was written to them,
//! and how worn they are.

use std::{collections::BTreeMap, fmt::Write};

use stripewise::internals::plan::passes::GapRule;
use stripewise_wire::{
    ArrayStatus, MemberStatus, NoForecastStatus, StrideStatus, StridesStatus, TimesStatus,
};

use super::parts::short;
use crate::{dates, printable::printable, sizes::format_size, times::format_nanoseconds};

/// The size of a block. Times of runs are per block.
const BLOCK_BYTES: u64 = 4096;

/// Members by class, and the one that keeps parity: a line of `status`. None if neither is known.
pub(super) fn classes_line(status: &ArrayStatus) -> Option<String> {
    let classes = status.members.iter().map(|member| member.class.as_str());
    let is_told = classes.clone().any(|class| class != "unknown")
        || status.members.iter().any(|member| member.is_parity == Some(true));
    let mut known: Vec<_> = classes.collect();
    known.sort_unstable();
    known.dedup();
    let group = |class: &str| {
        let of_class = status.members.iter().filter(|member| member.class == class);
        let names: Vec<_> =
            of_class.map(|member| format!("{}{}", short(&member.device), parity_mark(member))).collect();
        format!("{class}: {}", names.join(" "))
    };
    let groups: Vec<_> = known.into_iter().map(group).collect();
    is_told.then(|| groups.join("; "))
}

fn parity_mark(member: &MemberStatus) -> &'static str {
    if member.is_parity == Some(true) { " (parity)" } else { "" }
}

/// How long a random read and a random write take on members that were measured: a line of `status`.
pub(super) fn times_line(status: &ArrayStatus) -> Option<String> {
    let of_member = |member: &MemberStatus| {
        let [read, write, ..] = time_texts(member.times.as_ref()?);
        Some(format!("{} {read}/{write}", short(&member.device)))
    };
    let times: Vec<_> = status.members.iter().filter_map(of_member).collect();
    (!times.is_empty()).then(|| format!("random read/write: {}", times.join(", ")))
}

/// Why it is not known when flash or rated members will be worn out: one line per reason, with its members.
pub(crate) fn no_forecast_lines<'a>(
    array: &str,
    members: impl IntoIterator<Item = &'a MemberStatus>,
) -> impl Iterator<Item = String> {
    let mut why: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for member in members.into_iter().filter(|member| is_told_of(member)) {
        if let Some(reason) = member.endurance.no_forecast {
            why.entry(no_forecast(array, reason)).or_default().push(printable(short(&member.device)));
        }
    }
    why.into_iter().map(|(why, members)| format!("wear of {}: {why}", members.join(" ")))
}

/// Whether a member's wear is worth a word: writes wear out flash, and members that have a rating for them.
fn is_told_of(member: &MemberStatus) -> bool {
    let is_rated = member.endurance.rated_write_bytes.is_some();
    member.state != "faulty" && (member.class == "ssd" || is_rated)
}

fn no_forecast(array: &str, why: NoForecastStatus) -> String {
    match why {
        NoForecastStatus::Unrated => {
            format!("no forecast until `stripewise endurance {array} DEVICE --tbw` says what it is rated for")
        }
        NoForecastStatus::Early { from_s } => {
            format!("a forecast from {} on, when a day was seen of how it is written", dates::utc(from_s))
        }
        NoForecastStatus::Idle => {
            "so little is written that it is not worn out in any time that counts".to_owned()
        }
        NoForecastStatus::Unknown => "no forecast, for a reason that this release does not know".to_owned(),
    }
}

/// Points of a curve in a line.
const CURVE_POINTS: usize = 8;

/// The tables of `detail`.
pub(super) fn tables(status: &ArrayStatus) -> String {
    let mut text = roles(status);
    if status.members.iter().any(|member| member.times.is_some()) {
        text += &times(status);
    }
    if status.members.iter().any(|member| member.strides.read.is_some() || member.strides.write.is_some()) {
        text += &strides_of(status);
    }
    text + &counters(status) + &wear(status)
}

/// Which gaps a contiguity transform fills. Excepted regions are those of thresholds that were measured: neither weighed gaps nor
/// an operator's limits have any.
fn strides_of(status: &ArrayStatus) -> String {
    let is_weighed = status.cache.as_ref().is_some_and(|cache| cache.gaps == GapRule::Weighed.name());
    let has_exceptions = |strides: &&StrideStatus| !is_weighed && !strides.s_max_given;
    let mut text = "\n    Number  S_max read  S_max write  Not filled below that\n".to_owned();
    for member in &status.members {
        let StridesStatus { read, write } = &member.strides;
        let _ = writeln!(
            text,
            "    {:>6}  {:>10}  {:>11}  {}",
            member.number,
            s_max(read.as_ref()),
            s_max(write.as_ref()),
            excepted(read.as_ref().filter(has_exceptions), write.as_ref().filter(has_exceptions))
        );
    }
    let is_given =
        |strides: &Option<StrideStatus>| strides.as_ref().is_some_and(|strides| strides.s_max_given);
    if status.members.iter().any(|member| is_given(&member.strides.read) || is_given(&member.strides.write)) {
        text += "    *: as an operator chose\n";
    }
    if is_weighed {
        text += "    Gaps are weighed, each by what it gains: of these limits, only those that an operator chose count\n";
    }
    text + &curves(status)
}

/// What was measured at some strides; nothing where no member was.
fn curves(status: &ArrayStatus) -> String {
    let of_member = |member: &MemberStatus| {
        let StridesStatus { read, write } = member.strides.clone();
        let number = member.number;
        [("reads", read), ("writes", write)]
            .map(|(what, strides)| (number, what, strides.unwrap_or_default().curve))
    };
    let measured: Vec<_> =
        status.members.iter().flat_map(of_member).filter(|(.., curve)| !curve.is_empty()).collect();
    let mut text = String::new();
    if !measured.is_empty() {
        text +=
            "\n    Number          Every so many blocks, and the time that takes over that of all blocks\n";
    }
    for (number, what, curve) in measured {
        let points: Vec<_> = curve.iter().map(|(stride, times)| format!("{stride}: {times:.2}")).collect();
        for (line, points) in points.chunks(CURVE_POINTS).enumerate() {
            let head = if line == 0 { format!("{number:>6}  {what:<6}") } else { " ".repeat(14) };
            let _ = writeln!(text, "    {head}  {}", points.join("  "));
        }
    }
    text
}

/// A dash where nothing is known; a star where an operator gave it.
fn s_max(strides: Option<&StrideStatus>) -> String {
    let text =
        |strides: &StrideStatus| format!("{}{}", strides.s_max, if strides.s_max_given { "*" } else { "" });
    strides.map_or_else(|| "-".to_owned(), text)
}

/// Regions of strides that are not filled though they are short.
fn excepted(read: Option<&StrideStatus>, write: Option<&StrideStatus>) -> String {
    let regions = |strides: Option<&StrideStatus>, what: &str| {
        let below = |strides: &StrideStatus| strides.s_max.saturating_sub(1);
        let regions = strides.into_iter().flat_map(|strides| {
            strides
                .except
                .iter()
                .map(move |[first, last]| [(*first).into(), u32::from(*last).min(below(strides))])
        });
        let regions = regions.filter(|[first, last]| first <= last);
        regions.map(|[first, last]| format!("{what} {first}-{last}")).collect::<Vec<_>>()
    };
    let all = [regions(read, "reads"), regions(write, "writes")].concat();
    if all.is_empty() { "-".to_owned() } else { all.join(", ") }
}

fn wear(status: &ArrayStatus) -> String {
    let mut text = "\n    Number   Wrote in all   Of it noted  Worn out\n".to_owned();
    for member in &status.members {
        let endurance = &member.endurance;
        let _ = writeln!(
            text,
            "    {:>6}  {:>13}  {:>12}  {}",
            member.number,
            format_size(endurance.written_bytes),
            format_size(endurance.noted_written_bytes),
            worn_out(&status.name, member)
        );
    }
    text
}

/// When a member will be worn out, or why that is not known.
fn worn_out(array: &str, member: &MemberStatus) -> String {
    let MemberStatus { endurance, .. } = member;
    let day = endurance.forecast.and_then(|forecast| forecast.worn_out_s).map(dates::day);
    let why = endurance.no_forecast.map(|why| match why {
        NoForecastStatus::Unrated if !is_told_of(member) => "not rated".to_owned(),
        why => no_forecast(array, why),
    });
    day.or(why).unwrap_or_else(|| "already, by what it is rated for".to_owned())
}

fn roles(status: &ArrayStatus) -> String {
    let mut text = "\n    Number      Role  State        Class    Errors  Device\n".to_owned();
    for member in &status.members {
        let role = member.role.map_or_else(|| "-".to_owned(), |role| role.to_string());
        let role = if member.is_parity == Some(true) { format!("{role} parity") } else { role };
        let _ = writeln!(
            text,
            "    {:>6}  {role:>8}  {:<11}  {:<7}  {:>6}  {}",
            member.number, member.state, member.class, member.read_errors, member.device
        );
    }
    text
}

fn times(status: &ArrayStatus) -> String {
    let mut text =
        "\n    Number  Random read  Random write   Rewrite    Run read/s   Run write/s\n".to_owned();
    for member in &status.members {
        let Some(times) = &member.times else { continue };
        let [read, write, rewrite, run_read, run_write] = time_texts(times);
        let _ = writeln!(
            text,
            "    {:>6}  {read:>11}  {write:>12}  {rewrite:>8}  {run_read:>12}  {run_write:>12}",
            member.number
        );
    }
    text
}

/// Random reads, random writes, rewrites, and the rates of runs of reads and of writes. A dash stands for
/// what was not measured: members that were taken as they were have only been read.
pub(crate) fn time_texts(times: &TimesStatus) -> [String; 5] {
    let or_dash = |ns: Option<u32>, text: &dyn Fn(u32) -> String| ns.map_or_else(|| "-".to_owned(), text);
    let time = |ns| or_dash(ns, &|ns| format_nanoseconds(u64::from(ns)));
    let run = |ns| or_dash(ns, &rate);
    let TimesStatus { random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns } =
        *times;
    [
        time(random_read_ns),
        time(random_write_ns),
        time(rewrite_ns),
        run(sequential_read_ns),
        run(sequential_write_ns),
    ]
}

/// Bytes per second at this many nanoseconds per block, which is not 0.
fn rate(block_ns: u32) -> String {
    format_size(BLOCK_BYTES * 1_000_000_000 / u64::from(block_ns))
}

fn counters(status: &ArrayStatus) -> String {
    let mut text =
        "\n    Number  Stripe writes   Full blocks    RMW blocks    RCW blocks       Written  Of it by jobs      Metadata\n"
            .to_owned();
    for member in &status.members {
        let count = |name: &str| member.counters.get(name).copied().unwrap_or(0);
        let _ = writeln!(
            text,
            "    {:>6}  {:>13}  {:>12}  {:>12}  {:>12}  {:>12}  {:>13}  {:>12}",
            member.number,
            count("stripe_writes"),
            count("blocks_full"),
            count("blocks_rmw"),
            count("blocks_rcw"),
            format_size(count("written_bytes")),
            format_size(count("job_written_bytes")),
            format_size(count("metadata_bytes"))
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use stripewise_wire::CacheStatus;

    use super::*;

    #[test]
    fn curves_are_told_in_lines_of_some_points() {
        let curve = (1..=9).map(|stride| (stride, stride as f32 / 8.0)).collect();
        let write = Some(StrideStatus { curve, ..StrideStatus::default() });
        let member = MemberStatus {
            number: 3,
            strides: StridesStatus { write, ..StridesStatus::default() },
            ..MemberStatus::default()
        };
        let told =
            curves(&ArrayStatus { members: vec![member, MemberStatus::default()], ..ArrayStatus::default() });
        let lines: Vec<_> = told.lines().skip(2).collect();
        let first =
            "         3  writes  1: 0.12  2: 0.25  3: 0.38  4: 0.50  5: 0.62  6: 0.75  7: 0.88  8: 1.00";
        assert_eq!(lines, [first, "                    9: 1.12"]);
    }

    #[test]
    fn exceptions_are_told_where_they_count() {
        let measured = StrideStatus { s_max: 17, except: vec![[4, 6], [9, 20]], ..StrideStatus::default() };
        let given = StrideStatus { s_max_given: true, ..measured.clone() };
        let told = |gaps: &str, read: &StrideStatus| {
            let strides = StridesStatus { read: Some(read.clone()), write: None };
            let cache = CacheStatus { gaps: gaps.to_owned(), ..CacheStatus::default() };
            let members = vec![MemberStatus { strides, ..MemberStatus::default() }];
            strides_of(&ArrayStatus { cache: Some(cache), members, ..ArrayStatus::default() })
        };
        let by_thresholds = told("thresholds", &measured);
        assert!(by_thresholds.contains("  17            -  reads 4-6, reads 9-16\n"), "{by_thresholds}");
        assert!(!by_thresholds.contains("weighed"), "{by_thresholds}");
        for (gaps, read, shown) in [
            ("weighed", &measured, "  17            -  -\n"),
            ("thresholds", &given, " 17*            -  -\n"),
        ] {
            let told = told(gaps, read);
            assert!(
                told.contains(shown) && told.contains("Gaps are weighed") == (gaps == "weighed"),
                "{told}"
            );
        }
    }
}
