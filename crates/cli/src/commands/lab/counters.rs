//! `stripewise lab counters`: the same writes on member files and on modelled members.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use stripewise_lab::{
    counters::{ARRAYS, Comparison, Counter, compare, policies},
    findings::Table,
};

use super::bars;
use crate::{
    numbers::within,
    said::{print_json, say},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct CountersArgs {
    /// The folder within which a folder for the member files is made, and removed; that for temporary files,
    /// if not given.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// What the writes are drawn from.
    #[arg(long, default_value_t = 1, value_parser = within(0..=u64::MAX))]
    seed: u64,
}

/// What was compared.
#[derive(Serialize)]
struct Compared {
    seed: u64,
    equal: bool,
    comparisons: Vec<Comparison>,
    /// Policies that decide by times.
    not_compared: Vec<&'static str>,
}

/// Compares, and prints a table or JSON.
pub(super) fn counters(args: &CountersArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (by_counts, by_times) = policies();
    let parent = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let cases: Vec<_> =
        ARRAYS.iter().flat_map(|shape| by_counts.iter().map(move |policy| (*shape, *policy))).collect();
    let bar = bars::points_bar();
    bar.set_length(cases.len() as u64);
    let mut comparisons = Vec::new();
    for (shape, policy) in cases {
        bar.set_message(format!("level {}, {}", shape.level.number(), policy.name));
        let made = tempfile::Builder::new().prefix("stripewise-counters-").tempdir_in(&parent);
        let folder = made.with_context(|| format!("{}: no folder can be made there", parent.display()))?;
        comparisons.push(compare(shape, policy, args.seed, folder.path())?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let compared = Compared {
        seed: args.seed,
        equal: comparisons.iter().all(Comparison::is_equal),
        comparisons,
        not_compared: by_times.iter().map(|policy| policy.name).collect(),
    };
    if json {
        print_json(&compared)?
    } else {
        print(&compared)
    }
    Ok(exit_code(&compared))
}

fn exit_code(compared: &Compared) -> ExitCode {
    if compared.equal { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(compared: &Compared) {
    say!(part: "{}", table(compared));
    let counters = || compared.comparisons.iter().flat_map(|comparison| &comparison.counters);
    let equal = counters().filter(|counter| counter.is_equal()).count();
    say!(
        "{equal} of {} counters are equal; not compared, because it goes by how fast members are: {}",
        counters().count(),
        compared.not_compared.join(", ")
    );
}

fn table(compared: &Compared) -> Table {
    let title = format!("The same writes of seed {} on member files and on modelled members", compared.seed);
    let mut table = Table::new(title, &["level", "policy", "counter", "files", "modelled", "verdict"]);
    for Comparison { level, policy, counters } in &compared.comparisons {
        table.rows.extend(counters.iter().map(|counter| row(*level, policy, counter)));
    }
    table
}

fn row(level: i32, policy: &str, counter: &Counter) -> Vec<String> {
    let verdict = if counter.is_equal() { "equal" } else { "differs" };
    let (files, modelled) = (counter.files.to_string(), counter.modelled.to_string());
    vec![level.to_string(), policy.to_owned(), counter.name.to_owned(), files, modelled, verdict.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_and_fails() {
        let counter = |modelled| Counter { name: "rows_rmw", files: 3, modelled };
        let compared = |modelled| {
            let comparison = Comparison { level: 5, policy: "classic", counters: vec![counter(modelled)] };
            let equal = comparison.is_equal();
            Compared { seed: 1, equal, comparisons: vec![comparison], not_compared: vec!["cost"] }
        };
        assert_eq!(exit_code(&compared(3)), ExitCode::SUCCESS);
        assert_eq!(exit_code(&compared(4)), ExitCode::FAILURE);
        assert_eq!(table(&compared(3)).rows[0], ["5", "classic", "rows_rmw", "3", "3", "equal"]);
        assert_eq!(table(&compared(4)).rows[0][5], "differs");
    }
}
