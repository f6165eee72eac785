//! The words of `stripewise lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::numbers::within;

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments.
    List,
    /// Run experiments and hold the papers' claims against what comes out.
    ///
    /// Results go into a folder: report.html, which needs nothing else, and CSV files. A run that was interrupted is taken up
    /// again by the same command. On modelled disks the same seed gives the same results on every machine. Experiments in real
    /// time (`list` marks them) measure this machine: they run last and one by one, and nothing else should run meanwhile.
    Run(LabRunArgs),
    /// Make the report anew from a folder's results, complete or not.
    Report(LabReportArgs),
    /// Hold the disk models against data sheets, papers and analysis.
    Validate(ValidateArgs),
    /// The same writes on member files and on modelled members: what arrays count is equal.
    ///
    /// Over levels 4, 5 and 6 and every policy that goes by counts. The exit code is 1 if any counter differs. The files take
    /// a few hundred megabytes, and are gone afterwards.
    Counters(CountersArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LabRunArgs {
    /// Which: ids, or words with which ids begin, as `raid4s`; `stripewise lab list` has them. `all` is the one over all
    /// arrays; `every` is every experiment.
    #[arg(required = true)]
    pub(crate) experiments: Vec<String>,
    /// Fewer points and writes: less exact, so that claims that are close stay undecided.
    #[arg(long)]
    pub(crate) quick: bool,
    /// What everything on modelled disks is drawn from.
    #[arg(long, default_value_t = 1, value_parser = within(0..=u64::MAX))]
    pub(crate) seed: u64,
    /// The folder for results: a new or an empty one, or that of an earlier run.
    #[arg(long, default_value = "stripewise-lab")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LabReportArgs {
    /// The folder.
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CountersArgs {
    /// The folder within which a folder for the member files is made, and removed; that for temporary files, if not given.
    #[arg(long)]
    pub(crate) folder: Option<PathBuf>,
    /// What the writes are drawn from.
    #[arg(long, default_value_t = 1, value_parser = within(0..=u64::MAX))]
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ValidateArgs {
    /// Write report.html, which needs nothing else, and CSV files into this folder.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Fewer points and requests: seconds, and less exact.
    #[arg(long)]
    pub(crate) quick: bool,
}
