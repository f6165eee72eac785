//! The files of a folder: the page, all figures, and each plot's points.

use std::{fs, path::Path};

use super::{Page, sections::sections};
use crate::{
    engine_bench::Figure,
    plot::quoted,
    runner::{Mark, RunError, at, replace, take_marked},
};

const FIGURES: &str = "figures.csv";
const HEADER: &str = "case,level,raid_devices,bitmap,policy,locking,cache,threads,queue,bytes_per_operation,engine_per_s,engine_gb_per_s,\
                      cpu_ns_per_operation,limit_per_s,ratio,of_uncached,rows_full,member_reads,p50_ns,p90_ns,p99_ns,p99_9_ns,p99_99_ns,max_ns,operations_timed,\
                      stripe_lock,counter_lock,parity,copy,submit,rest,looks,turns_per_s,turns_p99_99_ns\n";
/// Parts in the order of the header.
const PARTS: [&str; 6] = ["stripe lock", "counter lock", "parity", "copy", "submit", "rest"];

const MARK: Mark = Mark {
    file: FIGURES,
    header: HEADER,
    lacks: "report of `bench engine` (there is no figures.csv of one)",
};

/// Makes the folder of a page if it does not exist. It is ours if it is empty, or if it holds figures of an
/// earlier run.
///
/// # Errors
/// [`RunError::Occupied`] if it holds other things, and errors of the file system.
pub fn take(folder: &Path) -> Result<(), RunError> {
    take_marked(folder, &MARK)
}

impl Page<'_> {
    /// Writes `figures.csv`, `report.html`, and a CSV file for each plot into a folder of ours.
    ///
    /// # Errors
    /// As [`take`].
    pub fn write_to(&self, folder: &Path) -> Result<(), RunError> {
        take(folder)?;
        // First the file that marks the others as ours.
        replace(&folder.join(FIGURES), &figures_csv(self.figures))?;
        let put = |name: String, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(at(path))
        };
        let sections = sections(self.options, self.figures);
        put("report.html".to_owned(), self.html(&sections))?;
        let mut plots = sections.iter().flat_map(|section| &section.plots);
        plots.try_for_each(|plot| put(format!("{}.csv", plot.name), plot.csv()))
    }
}

fn figures_csv(figures: &[Figure]) -> String {
    figures.iter().fold(HEADER.to_owned(), |text, figure| text + &row(figure) + "\n")
}

fn row(figure: &Figure) -> String {
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    let mut fields = vec![figure.case.clone(), figure.level.to_string(), figure.raid_devices.to_string()];
    fields.extend([figure.bitmap, figure.policy, &figure.locking, figure.cache].map(str::to_owned));
    fields.extend([figure.threads, figure.queue].map(|count| count.to_string()));
    fields.push(figure.bytes_per_operation.to_string());
    let per_s = figure.engine_per_s;
    fields.extend(
        [per_s, figure.gb_per_s(per_s), figure.cpu_ns_per_operation].map(|value| optional(Some(value))),
    );
    let cached = [figure.of_uncached, figure.rows_full, Some(figure.member_reads)];
    fields.extend([figure.limit_per_s, figure.ratio].into_iter().chain(cached).map(optional));
    fields.extend(match figure.latency_ns {
        Some(of) => [of.p50, of.p90, of.p99, of.p99_9, of.p99_99, of.max, of.operations]
            .map(|value| value.to_string()),
        None => [const { String::new() }; 7],
    });
    fields.extend(PARTS.map(|part| optional(figure.parts.get(part).copied())));
    fields.push(figure.looks.to_string());
    let turns = || figure.turns.iter();
    fields.push(turns().map(|turn| format!("{:.4}", turn.per_s)).collect::<Vec<_>>().join(" "));
    fields.push(turns().filter_map(|turn| Some(turn.p99_99_ns?.to_string())).collect::<Vec<_>>().join(" "));
    fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",")
}
