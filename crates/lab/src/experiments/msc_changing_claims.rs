//! The claims of `msc-changing`: `auto` beside the settings that it chooses from.

use super::{
    Results,
    msc::{self, AUTO, Cache, OURS},
    msc_changing::{LENGTHS, Length, NONE, by_phase, mostly, point, rounds_of},
};
use crate::{
    findings::{Claim, Judged},
    point::{Outcome, WayChange},
};

/// How far `auto` may be behind.
const BEHIND: f64 = 0.97;

/// All of them.
pub(super) fn all(results: &Results) -> Vec<Claim> {
    let of =
        |length| [never_behind(results, length), ahead(results, length, NONE), ahead(results, length, OURS)];
    LENGTHS.into_iter().flat_map(of).collect()
}

/// How much faster `auto` is in all.
fn ratio(results: &Results, length: Length, over: Cache) -> Option<f64> {
    let of = |cache| point(results.effort, cache, length);
    results.speed_up(&of(AUTO), &of(over))
}

/// What stands in all claims of a length.
fn told(none: f64, ct: f64) -> String {
    format!("{none:.3}x of none, {ct:.3}x of {}", OURS.name)
}

fn never_behind(results: &Results, length: Length) -> Claim {
    let judged = ratio(results, length, NONE).zip(ratio(results, length, OURS)).map(|(none, ct)| {
        let judged = Judged::above(none.min(ct), BEHIND, told(none, ct));
        judged.because(reason(results, length))
    });
    let statement = format!(
        "With {} auto is never more than 3 % behind the better of none and stripe+ct, in all.",
        length.name()
    );
    Claim::new(statement, "", judged)
}

fn ahead(results: &Results, length: Length, over: Cache) -> Claim {
    let judged = ratio(results, length, over);
    let judged = judged.map(|ratio| Judged::above(ratio, 1.0, format!("{ratio:.3}x")));
    let statement = format!("With {} auto is ahead of {}, in all.", length.name(), over.name);
    Claim::new(statement, "", judged)
}

/// Where `auto` lost and won the most against `stripe+ct`, what went past the cache there, and what it went by.
fn reason(results: &Results, length: Length) -> String {
    let outcome = |cache| results.of(&point(results.effort, cache, length));
    let Some((auto, ct)) = outcome(AUTO).zip(outcome(OURS)) else { return String::new() };
    let mut differences: Vec<_> = by_phase(auto)
        .into_iter()
        .zip(by_phase(ct))
        .enumerate()
        .map(|(index, ((name, auto), (_, ct)))| (index, name, auto, ct))
        .collect();
    differences.sort_by(|one, other| (other.2 - other.3).total_cmp(&(one.2 - one.3)));
    let text = |(index, name, own, ct): &(usize, &str, f64, f64)| {
        format!("{name}: {own:.1} s, {} {ct:.1} s; {}", OURS.name, way(auto, *index))
    };
    let ends = [differences.first(), differences.last()].into_iter().flatten();
    let named = [OURS, AUTO].map(|cache| (cache.name.to_owned(), point(results.effort, cache, length)));
    format!("{} {}", ends.map(text).collect::<Vec<_>>().join(" "), msc::work(results, named))
}

/// Which way the writes of a phase went, over all rounds.
fn way(auto: &Outcome, index: usize) -> String {
    let rounds = || rounds_of(auto, index);
    let passed: u64 = rounds().map(|round| round.passed).sum();
    let changes: usize = rounds().map(|round| round.changes.len()).sum();
    let last = rounds().rev().find_map(|round| round.changes.last()).map(believed).unwrap_or_default();
    let why = mostly(auto, index);
    let why = why.map(|(why, share)| format!("; for {share} % of the time, \"{why}\"")).unwrap_or_default();
    format!("{passed} parts of stripes went past the cache, in {changes} changes of its way{last}{why}.")
}

/// What a change went by.
fn believed(change: &WayChange) -> String {
    let way = if change.past { "past it" } else { "by way of it" };
    let costs = change.costs_ns.map(|[through, back]| {
        format!(", a KiB being thought to take {through} ns of members past it and {back} ns by way of it")
    });
    format!(", the last one {way} ({}{})", change.why, costs.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiments::{Effort, msc_changing::EXPERIMENT},
        findings::ClaimVerdict::{NotReproduced, Reproduced},
    };

    fn verdicts(none: f64, ct: f64, auto: f64) -> Vec<bool> {
        let rate = |point: &crate::point::Point| match point.cache.map(|cache| cache.kind.name()) {
            None => none,
            Some("auto") => auto,
            Some(_) => ct,
        };
        let claims = all(&Results::made_up(&EXPERIMENT, Effort::Quick, rate));
        assert!(claims.iter().all(|claim| [Reproduced, NotReproduced].contains(&claim.verdict)));
        claims[..3].iter().map(|claim| claim.verdict == Reproduced).collect()
    }

    #[test]
    fn auto_is_held_against_both_settings_in_all() {
        assert_eq!(verdicts(10.0, 20.0, 21.0), [true, true, true]);
        assert_eq!(verdicts(10.0, 20.0, 19.8), [true, true, false]);
        assert_eq!(verdicts(30.0, 20.0, 21.0), [false, false, true]);
        assert_eq!(verdicts(10.0, 10.0, 10.0), [true, false, false]);
    }
}
