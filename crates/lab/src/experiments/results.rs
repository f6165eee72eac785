//! The outcomes of an experiment's points, as far as they exist.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Effort;
#[cfg(test)]
use crate::realtime::MadeUp;
use crate::{
    arrays::Shape,
    ext3::Loadfile,
    machine::Machine,
    point::{Outcome, Point},
    realtime::{RealTimeOutcome, RealTimePoint},
};

/// The outcome of a point of either kind. In files it looks like that kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AnyOutcome {
    /// On modelled disks.
    Modelled(Outcome),
    /// In real time.
    RealTime(RealTimeOutcome),
}

impl From<Outcome> for AnyOutcome {
    fn from(outcome: Outcome) -> Self {
        Self::Modelled(outcome)
    }
}

impl From<RealTimeOutcome> for AnyOutcome {
    fn from(outcome: RealTimeOutcome) -> Self {
        Self::RealTime(outcome)
    }
}

/// Outcomes by their points' keys.
pub struct Results {
    /// The effort of the run.
    pub effort: Effort,
    /// DBench's loadfile, if one was given.
    pub loadfile: Option<Loadfile>,
    /// The machine whose real-time points count.
    pub machine: Machine,
    outcomes: Outcomes,
    /// Outcomes of the same program with other seeds.
    others: BTreeMap<u64, Outcomes>,
}

/// Outcomes of one seed, by their points' keys.
type Outcomes = BTreeMap<String, AnyOutcome>;

impl Results {
    /// These outcomes.
    pub fn new(effort: Effort, machine: Machine, outcomes: BTreeMap<String, AnyOutcome>) -> Self {
        Self { effort, loadfile: None, machine, outcomes, others: BTreeMap::new() }
    }

    /// The same of a run with this loadfile.
    pub fn with_loadfile(self, loadfile: Option<Loadfile>) -> Self {
        Self { loadfile, ..self }
    }

    /// The same beside outcomes of other seeds: they show how far figures scatter.
    pub fn beside(self, others: BTreeMap<u64, BTreeMap<String, AnyOutcome>>) -> Self {
        Self { others, ..self }
    }

    /// What there is of each other seed, by itself.
    pub(crate) fn of_other_seeds(&self) -> impl Iterator<Item = (u64, Self)> {
        let of = |outcomes: &Outcomes| {
            Self::new(self.effort, self.machine.clone(), outcomes.clone()).with_loadfile(self.loadfile)
        };
        self.others.iter().map(move |(seed, outcomes)| (*seed, of(outcomes)))
    }

    /// Made-up outcomes of all points of an experiment, with these throughputs; in real time, on a machine as
    /// large as the papers', all arrays are alike.
    #[cfg(test)]
    pub(crate) fn made_up(
        experiment: &super::Experiment,
        effort: Effort,
        mb_per_s: impl Fn(&Point) -> f64,
    ) -> Self {
        let alike = MadeUp { bytes_per_s: 10_000_000_000, p99_99_ns: 5000, locks_ppm: 100_000 };
        let machine = Machine { cores: 52, ..Machine::here() };
        let mut results = Self::made_up_real_time(experiment, effort, machine, |_, _| alike);
        let points = experiment.modelled(effort, None).into_iter();
        let outcomes = points.map(|point| (point.key(), Outcome::made_up(&point, mb_per_s(&point)).into()));
        results.outcomes.extend(outcomes);
        results
    }

    /// Made-up outcomes of all real-time points of an experiment on a machine, for each array of each.
    #[cfg(test)]
    pub(crate) fn made_up_real_time(
        experiment: &super::Experiment,
        effort: Effort,
        machine: Machine,
        of: impl Fn(&RealTimePoint, &str) -> MadeUp,
    ) -> Self {
        let points = experiment.real_time(effort, &machine).into_iter();
        let made_up = |point: &RealTimePoint| RealTimeOutcome::made_up(point, |name| of(point, name)).into();
        let outcomes = points.map(|point| (point.key(&machine), made_up(&point))).collect();
        Self::new(effort, machine, outcomes)
    }

    /// The outcome of a point; none if it was not run.
    pub fn of(&self, point: &Point) -> Option<&Outcome> {
        match self.outcomes.get(&point.key())? {
            AnyOutcome::Modelled(outcome) => Some(outcome),
            AnyOutcome::RealTime(_) => None,
        }
    }

    /// The same of a real-time point, on the machine of these results.
    pub fn of_real_time(&self, point: &RealTimePoint) -> Option<&RealTimeOutcome> {
        match self.outcomes.get(&point.key(&self.machine))? {
            AnyOutcome::RealTime(outcome) => Some(outcome),
            AnyOutcome::Modelled(_) => None,
        }
    }

    /// Whether there is an outcome with this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.outcomes.contains_key(key)
    }

    /// Its throughput in 10^6 bytes a second.
    pub fn mb_per_s(&self, point: &Point) -> Option<f64> {
        self.of(point).map(Outcome::mb_per_s)
    }

    /// How much faster one is than the other: 1.0 if they are equal.
    pub fn speed_up(&self, of: &Point, over: &Point) -> Option<f64> {
        Some(self.mb_per_s(of)? / self.mb_per_s(over)?)
    }

    /// The same at each size, with the size; none if a point is missing.
    pub fn speed_ups(
        &self,
        sizes_kib: &[u64],
        of: impl Fn(u64) -> Point,
        over: impl Fn(u64) -> Point,
    ) -> Option<Vec<(u64, f64)>> {
        let at = |kib: &u64| Some((*kib, self.speed_up(&of(*kib), &over(*kib))?));
        sizes_kib.iter().map(at).collect()
    }
}

/// A policy's throughput over the best of others' at each size; none if a point is missing.
pub(super) fn over_best(
    sizes_kib: &[u64],
    policy: &str,
    others: &[&str],
    rate: impl Fn(&str, u64) -> Option<f64>,
) -> Option<Vec<(u64, f64)>> {
    let at = |kib: &u64| {
        let best = others.iter().map(|other| rate(other, *kib)).collect::<Option<Vec<_>>>()?;
        Some((*kib, rate(policy, *kib)? / best.into_iter().fold(0.0, f64::max)))
    };
    sizes_kib.iter().map(at).collect()
}

/// Throughput of arrays, by name; none if a point is missing.
pub(super) fn rates(
    results: &Results,
    shapes: &[&'static Shape],
    point: impl Fn(&'static Shape) -> Point,
) -> Option<Vec<(&'static str, f64)>> {
    shapes.iter().map(|shape| Some((shape.name, results.mb_per_s(&point(shape))?))).collect()
}

/// As in "RAID4 12.3, RAID5 20.1".
pub(super) fn rates_text(rates: &[(&str, f64)]) -> String {
    rates.iter().map(|(name, rate)| format!("{name} {rate:.1}")).collect::<Vec<_>>().join(", ")
}

/// The size with the largest value.
pub(super) fn largest(values: &[(u64, f64)]) -> (u64, f64) {
    values.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are sizes")
}

/// The size with the smallest value.
pub(super) fn smallest(values: &[(u64, f64)]) -> (u64, f64) {
    values.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are sizes")
}

/// As in "1.27x at 96 KiB".
pub(super) fn at_size((kib, value): (u64, f64)) -> String {
    format!("{value:.2}x at {}", size_text(kib))
}

/// A size in words.
pub(super) fn size_text(kib: u64) -> String {
    match kib {
        kib if kib >= 1 << 20 => format!("{} GiB", kib >> 20),
        kib if kib >= 1 << 10 && kib.is_multiple_of(1 << 10) => format!("{} MiB", kib >> 10),
        kib => format!("{kib} KiB"),
    }
}

/// The fastest over the slowest.
pub(super) fn spread(rates: &[(&str, f64)]) -> f64 {
    let fastest = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    fastest / rates.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_held_against_the_best_of_the_others_at_each_size() {
        let rate = |name: &str, kib: u64| match (name, kib) {
            ("mine", _) => Some(3.0),
            ("one", 4) => Some(2.0),
            ("two", 16) => None,
            _ => Some(1.0),
        };
        let over = |sizes: &[u64]| over_best(sizes, "mine", &["one", "two"], rate);
        assert_eq!(over(&[4, 8]), Some(vec![(4, 1.5), (8, 3.0)]));
        assert_eq!(over(&[4, 16]), None, "a point is missing");
    }

    #[test]
    fn texts_for_people() {
        assert_eq!(at_size((96, 1.267)), "1.27x at 96 KiB");
        assert_eq!([4, 1024, 1536, 1 << 20].map(size_text), ["4 KiB", "1 MiB", "1536 KiB", "1 GiB"]);
        let rates = [("A", 10.0), ("B", 12.5)];
        assert_eq!((rates_text(&rates).as_str(), spread(&rates)), ("A 10.0, B 12.5", 1.25));
    }
}
