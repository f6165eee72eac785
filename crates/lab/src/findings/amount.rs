//! How much of an experiment a run covers: computed from its points, so that it is what was really done.

use std::collections::BTreeSet;

use crate::{
    experiments::{Effort, Experiment, Results},
    point::{Measured, Point, WriteLoad},
    realtime::RealTimePoint,
};

/// How much of an experiment is run.
pub(super) fn of(experiment: &Experiment, results: &Results) -> String {
    let Results { effort, loadfile, machine, .. } = results;
    let quick = if *effort == Effort::Quick { " A quick run." } else { "" };
    let amount = if experiment.is_real_time() {
        real_time(&experiment.real_time(*effort, machine))
    } else {
        modelled(&experiment.modelled(*effort, *loadfile))
    };
    amount + quick
}

/// As in "Here: 4 points in real time, each 11 turns of 500 ms of each array, 1 or 2 threads, 32 writes under
/// way for each."
fn real_time(points: &[RealTimePoint]) -> String {
    let values = |value: fn(&RealTimePoint) -> u64| -> BTreeSet<u64> { points.iter().map(value).collect() };
    let text = |value| list(&values(value), u64::to_string);
    let threads = values(|point| point.threads as u64);
    format!(
        "Here: {} points in real time, each {} turns of {} ms of each array, {} {}, {} writes under way for each, members of {} \
         MiB.",
        points.len(),
        text(|point| point.turns as u64),
        text(|point| point.turn_ms),
        list(&threads, u64::to_string),
        if threads.iter().eq([&1]) { "thread" } else { "threads" },
        text(|point| point.queue as u64),
        text(|point| point.member_bytes >> 20)
    )
}

/// As in "Here: 30 points, each 2 passes of 64 MiB, 10 writes under way." Points of which other things are measured are
/// told apart.
fn modelled(points: &[Point]) -> String {
    let texts = [Measured::Steady, Measured::Whole].map(|measured| {
        let of: Vec<_> = points.iter().filter(|point| point.measured == measured).collect();
        (!of.is_empty()).then(|| alike(&of))
    });
    let texts: Vec<_> = texts.into_iter().flatten().collect();
    format!("Here: {}.", texts.join("; and "))
}

/// As in "30 points, each 2 passes of 64 MiB, 10 writes under way".
fn alike(points: &[&Point]) -> String {
    let values = |value: fn(&WriteLoad) -> u64| -> BTreeSet<u64> {
        points.iter().map(|point| value(&point.load)).collect()
    };
    let passes = values(|load| u64::from(load.passes));
    let word = if passes.iter().eq([&1]) { "pass" } else { "passes" };
    let pass = pass_text(&values(|load| load.pass_bytes), &values(WriteLoad::requests));
    let depths = list(&values(|load| u64::from(load.depth)), u64::to_string);
    format!(
        "{} points, each {} {word} of {pass}, {depths} writes under way",
        points.len(),
        list(&passes, u64::to_string)
    )
}

/// All passes are of so many bytes, or of so many writes.
fn pass_text(bytes: &BTreeSet<u64>, writes: &BTreeSet<u64>) -> String {
    if bytes.len() > 1 && writes.len() == 1 {
        return format!("{} writes", list(writes, u64::to_string));
    }
    list(bytes, |bytes| format!("{} MiB", bytes >> 20))
}

/// As in "1, 4 or 10".
fn list(values: &BTreeSet<u64>, text: impl Fn(&u64) -> String) -> String {
    let mut texts: Vec<_> = values.iter().map(text).collect();
    let last = texts.pop().unwrap_or_default();
    if texts.is_empty() { last } else { format!("{} or {last}", texts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiments::EXPERIMENTS, machine::Machine};

    #[test]
    fn what_a_run_says_of_itself_is_what_it_does() {
        let told = |id: &str, effort| {
            let experiment = EXPERIMENTS.iter().find(|experiment| experiment.id == id).unwrap();
            let machine = Machine { cores: 2, ..Machine::here() };
            of(experiment, &Results::new(effort, machine, Default::default()))
        };
        assert_eq!(
            told("raid4s-endurance", Effort::Quick),
            "Here: 20 points, each 2 passes of 64 MiB, 10 writes under way. A quick run."
        );
        assert_eq!(
            told("raid4s-endurance", Effort::Full),
            "Here: 20 points, each 3 passes of 128 MiB, 10 writes under way."
        );
        assert_eq!(
            told("raid4s-seq", Effort::Full),
            "Here: 35 points, each 1 pass of 4096 MiB, 1, 2, 4, 10 or 32 writes under way."
        );
        assert_eq!(
            told("scalaraid-tail", Effort::Quick),
            "Here: 3 points in real time, each 7 turns of 50 ms of each array, 2 threads, 32 writes under way for each, members of 32 \
             MiB. A quick run."
        );
        let all = told("all", Effort::Full);
        assert!(all.contains("2 passes of 2000 writes, 10 writes under way; and "), "{all}");
        for experiment in EXPERIMENTS.iter().filter(|experiment| !experiment.is_real_time()) {
            let amounts = ["MiB", "GiB", "passes of", "three times"];
            let here = experiment.setting.iter().filter(|text| !text.starts_with("The "));
            assert!(here.flat_map(|text| amounts.map(|amount| text.contains(amount))).all(|found| !found));
        }
    }
}
