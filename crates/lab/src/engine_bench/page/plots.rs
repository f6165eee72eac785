//! The plots of a section.

use super::sections::Group;
use crate::{
    engine_bench::Figure,
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

fn threads_axis() -> Axis {
    Axis::log2("threads")
}

/// A line for each variant by threads, of what all its figures have.
fn by_threads(group: &Group<'_>, value: impl Fn(&Figure) -> Option<f64>) -> Vec<Series> {
    let series = |(hue, label): (usize, String)| {
        let points =
            group.of(&label).filter_map(|figure| Some((figure.threads as f64, value(figure)?))).collect();
        Series::new(label.as_str(), hue_of(hue), Style::Marked, points)
    };
    group.labels().into_iter().enumerate().map(series).collect()
}

/// Variants' hues leave out that of the limit.
fn hue_of(variant: usize) -> usize {
    if variant < HUE_OF_THE_LIMIT { variant } else { variant + 1 }
}

fn has_points(series: &[Series]) -> bool {
    series.iter().any(|series| !series.points.is_empty())
}

fn plot(group: &Group<'_>, name: &str, what: &str, (x, y): (Axis, Axis), series: Vec<Series>) -> Plot {
    let (name, title) = (format!("{}-{name}", group.name), format!("{what}: {}", group.title));
    Plot { name: name.into(), title, x, y, series }
}

fn throughput(group: &Group<'_>) -> Plot {
    let unit = group.unit();
    let mut series = by_threads(group, |figure| Some(unit.of(figure, figure.engine_per_s)));
    let first = group.labels().into_iter().next().unwrap_or_default();
    let limit = |figure: &Figure| Some((figure.threads as f64, unit.of(figure, figure.limit_per_s?)));
    let limits: Vec<_> = group.of(&first).filter_map(limit).collect();
    if !limits.is_empty() {
        series.push(Series::new("limit", HUE_OF_THE_LIMIT, Style::Dashed, limits));
    }
    plot(group, "throughput", "Throughput", (threads_axis(), Axis::from_zero(unit.name())), series)
}

fn ratio(group: &Group<'_>) -> Option<Plot> {
    let series = by_threads(group, |figure| figure.ratio);
    let axes = (threads_axis(), Axis::from_zero("engine / limit"));
    has_points(&series).then(|| plot(group, "ratio", "Ratio to the limit", axes, series))
}

fn processor_time(group: &Group<'_>) -> Plot {
    let series = by_threads(group, |figure| Some(figure.cpu_ns_per_operation / 1e3));
    let axes = (threads_axis(), Axis::from_zero("CPU time of an operation, µs"));
    plot(group, "cpu", "Processor time", axes, series)
}

/// By percentile, with as many threads as there were at most.
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
    let what = format!(
        "Time of an operation by percentile, {most} {}",
        if most == 1 { "thread" } else { "threads" }
    );
    let axes =
        (Axis::percentiles("operations that were at most as slow"), Axis::log10("time of an operation, µs"));
    Some(plot(group, "percentiles", &what, axes, series))
}

fn tail(group: &Group<'_>) -> Option<Plot> {
    let series = by_threads(group, |figure| Some(figure.latency_ns?.p99_99 as f64 / 1e3));
    let axes = (threads_axis(), Axis::log10("99.99 % of operations, µs"));
    has_points(&series).then(|| plot(group, "tail", "99.99th percentile", axes, series))
}

/// scalaraid Fig. 2b, a plot for each variant.
fn parts(group: &Group<'_>) -> Vec<Plot> {
    let of_variant = |label: String| {
        let names: Vec<_> = group.of(&label).flat_map(|figure| figure.parts.keys().copied()).collect();
        let mut distinct = names.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let series = |(hue, name): (usize, &'static str)| {
            let share = |figure: &Figure| Some((figure.threads as f64, figure.parts.get(name)? * 100.0));
            Series::new(name, hue, Style::Marked, group.of(&label).filter_map(share).collect())
        };
        let series: Vec<_> = distinct.into_iter().enumerate().map(series).collect();
        let axes = (threads_axis(), Axis::from_zero("share of the time of operations, %"));
        let name = format!("parts-{}", label.replace(", ", "-").replace(' ', "-"));
        has_points(&series).then(|| plot(group, &name, &format!("Time by part, {label}"), axes, series))
    };
    group.labels().into_iter().filter_map(of_variant).collect()
}
