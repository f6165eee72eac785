//! `stripewise lab`: experiments on modelled disks, and in real time.

mod bars;
mod counters;
mod interrupted;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use stripewise_lab::{
    experiments::{EVERY, EXPERIMENTS, chosen},
    ext3::Loadfile,
    findings::LabReport,
    machine::Machine,
    report,
    runner::{self, Order, Progress, report_command},
    validate::{self, Effort},
};

use self::counters::CountersArgs;
use self::interrupted::{After, Watch};
use crate::{
    numbers::within,
    room,
    said::{note, print_json, say},
};

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments.
    List,
    /// Run experiments and hold the papers' claims against what comes out.
    ///
    /// Results go into a folder: report.html, which needs nothing else, and CSV files. A run that was
    /// interrupted is taken up again by the same command. On modelled disks the same seed gives the same
    /// results on every machine. Experiments in real time (`list` marks them) measure this machine: they run
    /// last and one by one, and nothing else should run meanwhile.
    Run(LabRunArgs),
    /// Make the report anew from a folder's results, complete or not.
    Report(LabReportArgs),
    /// Hold the disk models against data sheets, papers and analysis.
    Validate(ValidateArgs),
    /// The same writes on member files and on modelled members: what arrays count is equal.
    ///
    /// Over levels 4, 5 and 6 and every policy that goes by counts. The exit code is 1 if any counter
    /// differs. The files take a few hundred megabytes, and are gone afterwards.
    Counters(CountersArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LabRunArgs {
    /// Which: ids, or words with which ids begin, as `raid4s`; `stripewise lab list` has them. `all` is the
    /// one over all arrays; `every` is every experiment.
    #[arg(required = true)]
    experiments: Vec<String>,
    /// Fewer points and writes: less exact, so that claims that are close stay undecided.
    #[arg(long)]
    quick: bool,
    /// What everything on modelled disks is drawn from.
    #[arg(long, default_value_t = 1, value_parser = within(0..=u64::MAX))]
    seed: u64,
    /// Clients of `msc-clients` repeat the calls of this file: client.txt of DBench (Debian's package dbench has it as
    /// /usr/share/dbench/client.txt).
    #[arg(long, value_name = "FILE")]
    loadfile: Option<PathBuf>,
    /// The folder for results: a new or an empty one, or that of an earlier run.
    #[arg(long, default_value = "stripewise-lab")]
    out: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LabReportArgs {
    /// The folder.
    folder: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ValidateArgs {
    /// Write report.html, which needs nothing else, and CSV files into this folder.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Fewer points and requests: seconds, and less exact.
    #[arg(long)]
    quick: bool,
}

/// Runs one of the laboratory's commands.
pub(crate) fn lab(command: &LabCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Counters(args) => return counters::counters(args, json),
        LabCommand::List => list(json)?,
        LabCommand::Run(args) => run(args, json)?,
        LabCommand::Report(LabReportArgs { folder }) => show(&runner::report(folder)?, folder, json)?,
        LabCommand::Validate(args) => validate(args, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An experiment in the list.
#[derive(Serialize)]
struct Listed {
    id: &'static str,
    title: &'static str,
    source: &'static str,
    real_time: bool,
    points: usize,
    quick_points: usize,
}

fn list(json: bool) -> anyhow::Result<()> {
    let machine = Machine::here();
    let listed = EXPERIMENTS.iter().map(|experiment| Listed {
        id: experiment.id,
        title: experiment.title,
        source: experiment.source,
        real_time: experiment.is_real_time(),
        points: experiment.keys(Effort::Full, None, &machine).len(),
        quick_points: experiment.keys(Effort::Quick, None, &machine).len(),
    });
    if json {
        return print_json(&listed.collect::<Vec<_>>());
    }
    for Listed { id, title, source, real_time, points, quick_points } in listed {
        let marked = if real_time { ", in real time" } else { "" };
        say!(
            "{id:<18} {title} ({points} points{marked}; {quick_points} with --quick)\n{:<18} after {source}",
            ""
        );
    }
    say!(
        "\nRun some by their ids or by words with which ids begin. `all` is one experiment, over all arrays; '{EVERY}' is every \
         experiment. Those in real time measure this machine: nothing else should run on it meanwhile."
    );
    Ok(())
}

fn run(args: &LabRunArgs, json: bool) -> anyhow::Result<()> {
    let order = Order {
        experiments: chosen(&args.experiments)?,
        effort: effort(args.quick),
        seed: args.seed,
        loadfile: args.loadfile.as_deref().map(Loadfile::read).transpose()?,
        machine: Machine::here(),
    };
    if args.experiments == ["all"] {
        note!(
            "stripewise: `all` is the experiment over all arrays; `stripewise lab run {EVERY}` runs every experiment"
        );
    }
    let program = runner::program().context("the program's own file")?;
    let bar = Arc::new(bars::work_bar());
    let to_clear = bar.clone();
    let after = After { resume: order.command_in(&args.out), report: report_command(&args.out) };
    let watch = Watch::begin(after, move || to_clear.finish_and_clear())?;
    // Others need memory, too.
    let memory_bytes = room::available_bytes() / 4 * 3;
    let report = runner::run(&order, &args.out, &program, memory_bytes, &|progress| {
        watch.note(progress);
        move_on(&bar, progress);
    })?;
    bar.finish_and_clear();
    show(&report, &args.out, json)
}

fn move_on(bar: &bars::WorkBar, at: Progress<'_>) {
    bar.move_to((at.done, at.total), at.experiment, (at.points, at.points_total));
}

/// Prints a report and the path of its page. A claim that does not come out is a finding, not a failure.
fn show(report: &LabReport, folder: &Path, json: bool) -> anyhow::Result<()> {
    if json {
        print_json(report)?;
    } else {
        say!(part: "{report}");
    }
    report.warnings.iter().for_each(|warning| note!("stripewise: {warning}"));
    note!("{}", folder.join("report.html").display());
    Ok(())
}

fn effort(quick: bool) -> Effort {
    if quick { Effort::Quick } else { Effort::Full }
}

/// Runs the validation of the disk models and prints its checks. A model that differs from a published figure
/// is a finding, not a failure.
fn validate(args: &ValidateArgs, json: bool) -> anyhow::Result<()> {
    if let Some(folder) = &args.out {
        // Fails now rather than after a minute's work.
        report::take(folder)?;
    }
    let bar = bars::points_bar();
    let report = validate::run(effort(args.quick), &|experiment, done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(experiment.to_owned());
    });
    bar.finish_and_clear();
    if json {
        print_json(&report)?;
    } else {
        say!(part: "{report}");
    }
    if let Some(folder) = &args.out {
        report.write_to(folder)?;
        note!("{}", folder.join("report.html").display());
    }
    Ok(())
}
