//! The outcomes of an experiment's points, as far as they are there.

use std::collections::BTreeMap;

use super::Effort;
use crate::point::{Outcome, Point};

/// Outcomes by their points' keys.
pub struct Results {
    /// How much was run.
    pub effort: Effort,
    outcomes: BTreeMap<String, Outcome>,
}

impl Results {
    /// These outcomes.
    pub fn new(effort: Effort, outcomes: BTreeMap<String, Outcome>) -> Self {
        Self { effort, outcomes }
    }

    /// What came of a point; none if it was not run.
    pub fn of(&self, point: &Point) -> Option<&Outcome> {
        self.outcomes.get(&point.key())
    }

    /// Its throughput in 10^6 bytes a second.
    pub fn mb_per_s(&self, point: &Point) -> Option<f64> {
        self.of(point).map(Outcome::mb_per_s)
    }

    /// How much faster one is than the other: 1.0 if they are alike.
    pub fn speed_up(&self, of: &Point, over: &Point) -> Option<f64> {
        Some(self.mb_per_s(of)? / self.mb_per_s(over)?)
    }

    /// The same at each size, with the size; none while a point is missing.
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

/// A size for people.
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
