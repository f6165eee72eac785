//! The report of a run: all its content, for every form of output.

use std::{collections::BTreeSet, path::Path};

use serde::Serialize;

use super::{Claim, ClaimVerdict, Findings, Table, amount, seeds::Seeds};
use crate::{
    experiments::{Effort, Experiment, Results},
    machine::Machine,
    plot::Plot,
    runner::Order,
};

/// Missing points that are named where there is little room; the page names all of them.
const NAMED_MAX: usize = 8;

/// A run's report.
#[derive(Debug, Clone, Serialize)]
pub struct LabReport {
    /// The command that runs the same again, without the folder.
    pub command: String,
    /// The folder of its files.
    pub folder: String,
    /// The seed from which everything is drawn.
    pub seed: u64,
    /// Whether it was a quick run.
    pub quick: bool,
    /// What was skipped in the folder, and what could not be measured.
    pub warnings: Vec<String>,
    /// Where real-time experiments ran; none without any.
    pub machine: Option<Machine>,
    /// The experiments.
    pub experiments: Vec<ExperimentReport>,
}

/// One experiment.
#[derive(Debug, Clone, Serialize)]
pub struct ExperimentReport {
    /// Its word.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Paper and place.
    pub source: &'static str,
    /// What was done.
    pub setting: &'static [&'static str],
    /// Whether it runs in real time: its figures belong to the machine, and no seed repeats them.
    pub real_time: bool,
    /// How much of it was requested.
    pub amount: String,
    /// The number of its points.
    pub points: usize,
    /// Its missing points.
    pub missing: Vec<String>,
    /// Claims with their verdicts.
    pub claims: Vec<Claim>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Diagrams; in the page and as CSV files, not in JSON.
    #[serde(skip)]
    pub plots: Vec<Plot>,
}

impl ExperimentReport {
    /// An experiment's report from results.
    pub fn new(experiment: &Experiment, results: &Results) -> Self {
        let keys = experiment.keys(results.effort, results.loadfile, &results.machine);
        let Findings { claims, plots, tables } = (experiment.findings)(results);
        let seeds = Seeds::new(experiment, results);
        Self {
            id: experiment.id,
            title: experiment.title,
            source: experiment.source,
            setting: experiment.setting,
            real_time: experiment.is_real_time(),
            amount: amount::of(experiment, results),
            points: keys.len(),
            missing: keys.into_iter().filter(|key| !results.has(key)).collect(),
            claims: claims.into_iter().map(|claim| seeds.weighed(claim, results.effort)).collect(),
            tables,
            plots: plots.into_iter().map(|plot| seeds.scattered(plot)).collect(),
        }
    }

    /// The names of missing points; of many, the first, and how many more there are.
    pub fn missing_names(&self) -> Vec<String> {
        let named = self.missing.iter().take(NAMED_MAX).cloned();
        let more = self.missing.len().saturating_sub(NAMED_MAX);
        named.chain((more > 0).then(|| format!("and {more} more"))).collect()
    }

    /// How many claims have this verdict.
    pub fn count(&self, verdict: ClaimVerdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }
}

impl LabReport {
    /// The report of an order's experiments from results whose files are in this folder.
    pub fn new(order: &Order, folder: &Path, results: &Results, warnings: Vec<String>) -> Self {
        Self {
            command: order.command(),
            folder: folder.display().to_string(),
            warnings,
            machine: order
                .experiments
                .iter()
                .any(|experiment| experiment.is_real_time())
                .then(|| order.machine.clone()),
            seed: order.seed,
            quick: order.effort == Effort::Quick,
            experiments: order
                .experiments
                .iter()
                .map(|experiment| ExperimentReport::new(experiment, results))
                .collect(),
        }
    }

    /// The number of missing points of all experiments; shared ones count once.
    pub fn missing(&self) -> usize {
        self.experiments.iter().flat_map(|experiment| &experiment.missing).collect::<BTreeSet<_>>().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::EXPERIMENTS;

    #[test]
    fn of_many_missing_points_the_first_are_named() {
        let nothing = Results::new(Effort::Quick, Machine::here(), Default::default());
        let report = ExperimentReport::new(EXPERIMENTS[0], &nothing);
        let names = report.missing_names();
        assert_eq!(names[..NAMED_MAX], report.missing[..NAMED_MAX]);
        assert_eq!(names[NAMED_MAX..], [format!("and {} more", report.points - NAMED_MAX)]);
        assert!(report.to_string().ends_with(&format!("      and {} more\n", report.points - NAMED_MAX)));
    }
}
