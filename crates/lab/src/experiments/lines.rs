//! Plots of points: throughput, speed-up, latencies and utilisation over the size of writes.

use std::collections::BTreeMap;

use super::Results;
use crate::{
    findings::Table,
    plot::{Axis, Plot, Series, Style},
    point::{Outcome, Point},
};

/// Points over sizes that make a line.
pub(super) struct Line {
    name: &'static str,
    hue: usize,
    points: Vec<(u64, Point)>,
}

impl Line {
    pub(super) fn new(name: &'static str, hue: usize, sizes_kib: &[u64], of: impl Fn(u64) -> Point) -> Self {
        Self { name, hue, points: sizes_kib.iter().map(|kib| (*kib, of(*kib))).collect() }
    }

    fn values(&self, sizes: Sizes, results: &Results, value: impl Fn(&Outcome) -> f64) -> Vec<(f64, f64)> {
        let of = |(kib, point): &(u64, Point)| Some((sizes.of(*kib), value(results.of(point)?)));
        self.points.iter().filter_map(of).collect()
    }

    /// Its speed-up over another line at each size.
    fn over(&self, base: &Self, sizes: Sizes, results: &Results) -> Series {
        let pairs = self.points.iter().zip(&base.points);
        let of = |((kib, of), (_, over)): (&(u64, Point), &(u64, Point))| {
            Some((sizes.of(*kib), results.speed_up(of, over)?))
        };
        Series::new(self.name, self.hue, Style::Marked, pairs.filter_map(of).collect())
    }
}

/// Values farther apart than this get a logarithmic axis.
const WIDE: f64 = 8.0;

/// How sizes are laid out along the bottom.
#[derive(Clone, Copy)]
pub(super) enum Sizes {
    /// Evenly.
    Even,
    /// By powers of two.
    Powers,
}

impl Sizes {
    fn axis(self) -> Axis {
        match self {
            Self::Even => Axis::linear("write size, KiB"),
            Self::Powers => Axis::bytes("write size"),
        }
    }

    /// A size on the axis.
    fn of(self, kib: u64) -> f64 {
        match self {
            Self::Even => kib as f64,
            Self::Powers => (kib << 10) as f64,
        }
    }
}

/// A plot's name (of its file) and title.
pub(super) type Titled = (&'static str, &'static str);

pub(super) fn throughput((name, title): Titled, sizes: Sizes, lines: &[Line], results: &Results) -> Plot {
    let series: Vec<_> = lines
        .iter()
        .map(|line| {
            let points = line.values(sizes, results, Outcome::mb_per_s);
            Series::new(line.name, line.hue, Style::Marked, points)
        })
        .collect();
    let y = if are_far_apart(&series) { Axis::log10("MB/s") } else { Axis::from_zero("MB/s") };
    Plot { name: name.into(), title: title.to_owned(), x: sizes.axis(), y, series }
}

fn are_far_apart(series: &[Series]) -> bool {
    let values = || series.iter().flat_map(|series| series.points.iter().map(|(_, value)| *value));
    values().fold(0.0, f64::max) > WIDE * values().fold(f64::INFINITY, f64::min)
}

/// Throughput of each line at each size, side by side.
pub(super) fn table(title: &str, lines: &[Line], results: &Results) -> Table {
    let headings: Vec<_> = std::iter::once("KiB").chain(lines.iter().map(|line| line.name)).collect();
    let mut table = Table::new(title, &headings);
    for (index, (kib, _)) in lines[0].points.iter().enumerate() {
        let cell = |line: &Line| {
            let rate = line.points.get(index).and_then(|(_, point)| results.mb_per_s(point));
            rate.map_or_else(String::new, |rate| format!("{rate:.2}"))
        };
        table.rows.push(std::iter::once(kib.to_string()).chain(lines.iter().map(cell)).collect());
    }
    table
}

/// Each line over the first.
pub(super) fn speed_up((name, title): Titled, sizes: Sizes, lines: &[Line], results: &Results) -> Plot {
    let base = &lines[0];
    let ends = base.points.iter().map(|(kib, _)| (sizes.of(*kib), 1.0)).collect();
    let unity = Series::new(base.name, base.hue, Style::Dashed, ends);
    let others = lines[1..].iter().map(|line| line.over(base, sizes, results));
    let series: Vec<_> = std::iter::once(unity).chain(others).collect();
    let label = format!("throughput over {}", base.name);
    let y = if are_far_apart(&series) { Axis::log10(label) } else { Axis::linear(label) };
    Plot { name: name.into(), title: title.to_owned(), x: sizes.axis(), y, series }
}

/// The first line of each pair over the second.
pub(super) fn gains((name, title): Titled, sizes: Sizes, pairs: &[(Line, Line)], results: &Results) -> Plot {
    let series = pairs.iter().map(|(line, base)| line.over(base, sizes, results)).collect();
    let y = Axis::linear("times as fast");
    Plot { name: name.into(), title: title.to_owned(), x: sizes.axis(), y, series }
}

pub(super) fn latency((name, title): Titled, sizes: Sizes, line: &Line, results: &Results) -> Plot {
    let of = |(hue, name): (usize, &str), value: fn(&Outcome) -> u64| {
        let ms = |outcome: &Outcome| value(outcome) as f64 / 1e6;
        Series::new(name, hue, Style::Marked, line.values(sizes, results, ms))
    };
    let series = vec![
        of((0, "median"), |outcome| outcome.latency_p50_ns),
        of((1, "99 %"), |outcome| outcome.latency_p99_ns),
        of((2, "99.9 %"), |outcome| outcome.latency_p999_ns),
        of((3, "slowest"), |outcome| outcome.latency_max_ns),
    ];
    Plot {
        name: name.into(),
        title: format!("{title}: {}", line.name),
        x: sizes.axis(),
        y: Axis::log10("latency, ms"),
        series,
    }
}

/// For each line, the mean utilisation of its members of each kind.
pub(super) fn utilisation((name, title): Titled, sizes: Sizes, lines: &[Line], results: &Results) -> Plot {
    let mut series = Vec::new();
    for line in lines {
        let mut kinds: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (kib, point) in &line.points {
            let Some(outcome) = results.of(point) else { continue };
            for (drive, share) in outcome.utilisation_by_drive() {
                kinds.entry(drive.to_owned()).or_default().push((sizes.of(*kib), share * 100.0));
            }
        }
        for (drive, points) in kinds {
            let style = if drive.contains("ssd") { Style::Dashed } else { Style::Marked };
            series.push(Series::new(format!("{}, {drive}", line.name), line.hue, style, points));
        }
    }
    Plot {
        name: name.into(),
        title: title.to_owned(),
        x: sizes.axis(),
        y: Axis::from_zero("at work, % of the time"),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Scale;

    #[test]
    fn one_line_that_is_far_ahead_does_not_flatten_the_others() {
        let scale = |ahead: f64| {
            let experiment = crate::experiments::with_id("raid4s-random").unwrap();
            let results = Results::made_up(experiment, crate::experiments::Effort::Full, |point| {
                if point.shape.id == "raid5s-all" { ahead } else { 1.0 }
            });
            let plots = (experiment.findings)(&results).plots;
            plots.iter().find(|plot| plot.name == "raid4s-random-over-raid4").unwrap().y.scale
        };
        assert_eq!((scale(2.0), scale(100.0)), (Scale::Linear, Scale::Log10));
    }
}
