//! Plots of points: throughput, speed-up, latencies and utilisation over the size of writes.

use std::collections::BTreeMap;

use super::Results;
use crate::{
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
}

/// Values farther apart than this are drawn over a logarithmic axis.
const WIDE: f64 = 8.0;

/// Sizes along the bottom.
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
    let rates = || series.iter().flat_map(|series| series.points.iter().map(|(_, rate)| *rate));
    let wide = rates().fold(0.0, f64::max) > WIDE * rates().fold(f64::INFINITY, f64::min);
    let y = if wide { Axis::log10("MB/s") } else { Axis::from_zero("MB/s") };
    Plot { name, title: title.to_owned(), x: sizes.axis(), y, series }
}

/// Each line over the first.
pub(super) fn speed_up((name, title): Titled, sizes: Sizes, lines: &[Line], results: &Results) -> Plot {
    let base = &lines[0];
    let series = lines[1..].iter().map(|line| {
        let pairs = line.points.iter().zip(&base.points);
        let points =
            pairs.filter_map(|((kib, of), (_, over))| Some((sizes.of(*kib), results.speed_up(of, over)?)));
        Series::new(line.name, line.hue, Style::Marked, points.collect())
    });
    let ends = base.points.iter().map(|(kib, _)| (sizes.of(*kib), 1.0)).collect();
    let unity = Series::new(base.name, base.hue, Style::Dashed, ends);
    let y = Axis::linear(format!("throughput over {}", base.name));
    Plot {
        name,
        title: title.to_owned(),
        x: sizes.axis(),
        y,
        series: std::iter::once(unity).chain(series).collect(),
    }
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
        name,
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
        name,
        title: title.to_owned(),
        x: sizes.axis(),
        y: Axis::from_zero("at work, % of the time"),
        series,
    }
}
