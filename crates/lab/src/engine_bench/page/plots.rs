//! The plots of a section.

use stripewise_device::parts::Part;

use super::sections::Group;
use crate::{
    engine_bench::{Figure, threads_text},
    plot::{Axis, Plot, Series, Style},
};

/// The grey that no variant has.
const HUE_OF_THE_LIMIT: usize = 6;

pub(super) fn all(group: &Group<'_>) -> Vec<Plot> {
    let mut plots = vec![throughput(group)];
    plots.extend(ratio(group));
    plots.push(processor_time(group));
    plots.extend(percentiles(group));
    plots.extend(tail(group));
    plots.extend(parts(group));
    plots
}

/// Values drawn side by side: a line for each variant by threads, or, for one count of threads, a bar for
/// each.
struct Drawn {
    x: Axis,
    series: Vec<Series>,
}

impl Drawn {
    /// A drawing of a value that all figures have; the limit is drawn if it has values.
    fn new(
        group: &Group<'_>,
        value: impl Fn(&Figure) -> Option<f64>,
        limit: impl Fn(&Figure) -> Option<f64>,
    ) -> Self {
        let points = |label: &str, value: &dyn Fn(&Figure) -> Option<f64>| -> Vec<(f64, f64)> {
            group.of(label).filter_map(|figure| Some((figure.threads as f64, value(figure)?))).collect()
        };
        let labels = group.labels();
        let line = |(hue, label): (usize, &String)| {
            Series::new(label.as_str(), hue_of(hue), Style::Marked, points(label, &value))
        };
        let mut series: Vec<_> = labels.iter().enumerate().map(line).collect();
        // All variants have the same limit.
        let limits = labels.first().map_or_else(Vec::new, |label| points(label, &limit));
        if !limits.is_empty() {
            series.push(Series::new("limit", HUE_OF_THE_LIMIT, Style::Dashed, limits));
        }
        let count = group.figures.first().map_or(0, |figure| figure.threads);
        if group.figures.iter().all(|figure| figure.threads == count) {
            return Self::bars(series, count);
        }
        Self { x: Axis::log2("threads"), series }
    }

    fn bars(series: Vec<Series>, threads: usize) -> Self {
        let names = series.iter().map(|series| series.name.clone()).collect();
        let bar = |(index, series): (usize, Series)| {
            let points = series.points.iter().map(|(_, value)| (index as f64, *value)).collect();
            Series { style: Style::Stacked, points, ..series }
        };
        let x = Axis::names(format!("locks, with {}", threads_text(threads)), names);
        Self { x, series: series.into_iter().enumerate().map(bar).collect() }
    }

    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    fn plot(self, group: &Group<'_>, name: &str, what: &str, y: Axis) -> Plot {
        plot(group, name, what, (self.x, y), self.series)
    }
}

/// Variants' hues leave out that of the limit.
fn hue_of(variant: usize) -> usize {
    if variant < HUE_OF_THE_LIMIT { variant } else { variant + 1 }
}

fn plot(group: &Group<'_>, name: &str, what: &str, (x, y): (Axis, Axis), series: Vec<Series>) -> Plot {
    let (name, title) = (format!("{}-{name}", group.name), format!("{what}: {}", group.title));
    Plot { name: name.into(), title, x, y, series }
}

fn throughput(group: &Group<'_>) -> Plot {
    let unit = group.unit();
    let of = |figure: &Figure| Some(unit.of(figure, figure.engine_per_s));
    let limit = |figure: &Figure| Some(unit.of(figure, figure.limit_per_s?));
    Drawn::new(group, of, limit).plot(group, "throughput", "Throughput", Axis::from_zero(unit.name()))
}

fn ratio(group: &Group<'_>) -> Option<Plot> {
    let drawn = Drawn::new(group, |figure| figure.ratio, |_| None);
    let y = Axis::from_zero("engine / limit");
    (!drawn.is_empty()).then(|| drawn.plot(group, "ratio", "Ratio to the limit", y))
}

fn processor_time(group: &Group<'_>) -> Plot {
    let drawn = Drawn::new(group, |figure| Some(figure.cpu_ns_per_operation / 1e3), |_| None);
    drawn.plot(group, "cpu", "Processor time", Axis::from_zero("CPU time of an operation, µs"))
}

/// By percentile, with the largest count of threads.
fn percentiles(group: &Group<'_>) -> Option<Plot> {
    let most = group.figures.iter().map(|figure| figure.threads).max()?;
    let series = |(hue, label): (usize, String)| {
        let found = group.of(&label).find(|figure| figure.threads == most)?.latency_ns?;
        let times = [
            (50.0, found.p50),
            (90.0, found.p90),
            (99.0, found.p99),
            (99.9, found.p99_9),
            (99.99, found.p99_99),
        ];
        let points = times.iter().map(|(percent, ns)| (*percent, *ns as f64 / 1e3)).collect();
        Some(Series::new(label.as_str(), hue_of(hue), Style::Marked, points))
    };
    let series = group.labels().into_iter().enumerate().map(series).collect::<Option<Vec<_>>>()?;
    let what = format!("Time of an operation by percentile, {}", threads_text(most));
    let axes =
        (Axis::percentiles("operations that were at most as slow"), Axis::log10("time of an operation, µs"));
    Some(plot(group, "percentiles", &what, axes, series))
}

/// By threads; for a single count, the plot of percentiles shows it.
fn tail(group: &Group<'_>) -> Option<Plot> {
    let drawn = Drawn::new(group, |figure| Some(figure.latency_ns?.p99_99 as f64 / 1e3), |_| None);
    let is_by_threads = drawn.x.names.is_empty();
    let y = Axis::log10("99.99 % of operations, µs");
    (is_by_threads && !drawn.is_empty()).then(|| drawn.plot(group, "tail", "99.99th percentile", y))
}

/// scalaraid Fig. 2b: in one plot, or, with many variants, in one plot for each.
fn parts(group: &Group<'_>) -> Vec<Plot> {
    let labels = group.labels();
    if group.figures.iter().all(|figure| figure.parts.is_empty()) {
        return Vec::new();
    }
    if group.figures.len() <= BARS_MAX {
        let bars =
            labels.iter().flat_map(|label| group.of(label).map(move |figure| (named(label, figure), figure)));
        return vec![stack(group, "parts", "Time by part", ("locks and threads", bars.collect()))];
    }
    let of_variant = |label: &String| {
        let bars = group.of(label).map(|figure| (figure.threads.to_string(), figure)).collect();
        let name = format!("parts-{}", label.replace(", ", "-").replace(' ', "-"));
        stack(group, &name, &format!("Time by part, {label}"), ("threads", bars))
    };
    labels.iter().map(of_variant).collect()
}

/// The most bars whose names fit side by side.
const BARS_MAX: usize = 8;

fn named(label: &str, figure: &Figure) -> String {
    format!("{label} {}", figure.threads)
}

fn stack(group: &Group<'_>, name: &str, what: &str, (axis, bars): (&str, Vec<(String, &Figure)>)) -> Plot {
    let share = |part: &'static str| {
        let of = |(index, (_, figure)): (usize, &(String, &Figure))| {
            (index as f64, figure.parts.get(part).copied().unwrap_or(0.0) * 100.0)
        };
        bars.iter().enumerate().map(of).collect()
    };
    let series = Part::ALL.into_iter().filter(|part| *part != Part::Outside).enumerate();
    let series = series.map(|(hue, part)| Series::new(part.name(), hue, Style::Stacked, share(part.name())));
    let series = series.collect();
    let names = bars.iter().map(|(name, _)| name.clone()).collect();
    let axes = (Axis::names(axis, names), Axis::from_zero("share of the time of operations, %"));
    plot(group, name, what, axes, series)
}
