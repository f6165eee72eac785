//! The page's content: a section for each shape and case, with tables and plots.

use super::plots;
use crate::{
    engine_bench::{Case, Figure, Options},
    findings::Table,
    plot::Plot,
};

/// A case on arrays of one shape.
pub(super) struct Section {
    /// The word with which its plots' names begin.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) tables: Vec<Table>,
    pub(super) plots: Vec<Plot>,
}

/// The figures of a section; those of one variant share a label.
pub(super) struct Group<'a> {
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) figures: Vec<&'a Figure>,
    options: &'a Options,
}

pub(super) fn sections(options: &Options, figures: &[Figure]) -> Vec<Section> {
    let mut sections = Vec::new();
    for members in options.raid_devices.iter().copied() {
        for case in options.cases_in_order() {
            let is_of_it = |figure: &&Figure| figure.raid_devices == members && figure.case == case.name();
            let of_it: Vec<_> = figures.iter().filter(is_of_it).collect();
            if !of_it.is_empty() {
                sections.push(section(options, members, case, of_it));
            }
        }
    }
    sections
}

fn section(options: &Options, members: usize, case: Case, figures: Vec<&Figure>) -> Section {
    let shape = options.shape(members);
    let (name, title) = (format!("{}-{shape}", case.name()), format!("{}, {shape}", case.about()));
    let group = Group { name: &name, title: &title, figures, options };
    let tables = std::iter::once(speeds(&group)).chain(latencies(&group)).chain(parts(&group)).collect();
    let plots = plots::all(&group);
    Section { name, title, tables, plots }
}

impl Group<'_> {
    /// Distinguishes a figure's variant from the others of the run.
    pub(super) fn label(&self, figure: &Figure) -> String {
        let mut words = vec![figure.locking.as_str()];
        words.extend((self.options.policies.len() > 1).then_some(figure.policy));
        words.extend((self.options.bitmaps.len() > 1 && figure.bitmap == "none").then_some("no bitmap"));
        let cache = format!("cache {}", figure.cache);
        words.extend((self.options.caches.len() > 1).then_some(cache.as_str()));
        words.join(", ")
    }

    /// The labels, each once, in the order in which variants took turns.
    pub(super) fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for label in self.figures.iter().map(|figure| self.label(figure)) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels
    }

    /// A variant's figures, by threads.
    pub(super) fn of<'a>(&'a self, label: &'a str) -> impl Iterator<Item = &'a Figure> {
        self.figures.iter().copied().filter(move |figure| self.label(figure) == label)
    }

    /// The unit of rates: one for all figures of the group.
    pub(super) fn unit(&self) -> Unit {
        let all = self.figures.iter().map(|figure| figure.bytes_per_operation);
        if all.max().unwrap_or(0) > SMALL_BYTES_MAX { Unit::GbPerS } else { Unit::KiloPerS }
    }
}

/// Operations up to this size are counted; the bytes of larger ones are summed.
const SMALL_BYTES_MAX: u64 = 4096;

/// The unit of rates.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    GbPerS,
    KiloPerS,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::GbPerS => "GB/s",
            Self::KiloPerS => "thousand operations a second",
        }
    }

    pub(super) fn of(self, figure: &Figure, per_s: f64) -> f64 {
        match self {
            Self::GbPerS => figure.gb_per_s(per_s),
            Self::KiloPerS => per_s / 1e3,
        }
    }
}

/// The cells that name a figure.
fn named(group: &Group<'_>, figure: &Figure) -> Vec<String> {
    vec![group.label(figure), figure.threads.to_string()]
}

fn speeds(group: &Group<'_>) -> Table {
    let unit = group.unit();
    let title = format!("Throughput, {}; processor time of an operation, ns", unit.name());
    let mut table = Table::new(
        title,
        &["locks", "threads", "engine", "slowest turn", "fastest turn", "limit", "ratio", "CPU ns"],
    );
    for figure in &group.figures {
        let shown = |per_s: f64| format!("{:.2}", unit.of(figure, per_s));
        let turns = || figure.turns.iter().map(|turn| turn.per_s);
        let optional = |value: Option<String>| value.unwrap_or_default();
        let mut row = named(group, figure);
        row.push(shown(figure.engine_per_s));
        row.push(shown(turns().fold(f64::INFINITY, f64::min)));
        row.push(shown(turns().fold(0.0, f64::max)));
        row.push(optional(figure.limit_per_s.map(shown)));
        row.push(optional(figure.ratio.map(|ratio| format!("{ratio:.2}"))));
        row.push(format!("{:.0}", figure.cpu_ns_per_operation));
        table.rows.push(row);
    }
    table
}

fn latencies(group: &Group<'_>) -> Option<Table> {
    let title = "Time of an operation, µs";
    let mut table = Table::new(
        title,
        &["locks", "threads", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "slowest", "of"],
    );
    for figure in &group.figures {
        let of = figure.latency_ns?;
        let mut row = named(group, figure);
        let times = [of.p50, of.p90, of.p99, of.p99_9, of.p99_99, of.max];
        row.extend(times.map(|ns| format!("{:.1}", ns as f64 / 1e3)));
        row.push(of.operations.to_string());
        table.rows.push(row);
    }
    Some(table)
}

fn parts(group: &Group<'_>) -> Option<Table> {
    let names: Vec<_> = group.figures.first()?.parts.keys().copied().collect();
    if names.is_empty() {
        return None;
    }
    let headings: Vec<_> =
        ["locks", "threads"].into_iter().chain(names.iter().copied()).chain(["looks"]).collect();
    let mut table = Table::new("Share of the time of operations by part, %", &headings);
    for figure in &group.figures {
        let mut row = named(group, figure);
        row.extend(names.iter().map(|name| {
            figure.parts.get(name).map_or_else(String::new, |share| format!("{:.1}", share * 100.0))
        }));
        row.push(figure.looks.to_string());
        table.rows.push(row);
    }
    Some(table)
}
