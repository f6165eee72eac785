//! `stripewise fsck`: looks, and mends what is wrong if it may. Its options and exit codes are those of fsck(8).

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use serde::Serialize;
use stripewise::{Host, RuntimeOptions};
use stripewise_mount::rafs::{
    check::{Problem, Progress, Report, check_telling},
    repair::repair,
    volume::Volume,
};

use super::open_damaged;
use crate::{
    daemon, errors,
    given::absolute_path,
    printable::printable,
    progress::StepsBar,
    said::{note, print_json, say},
};

/// Errors were mended.
const MENDED: u8 = 1;
/// Errors are left.
const ERRORS_LEFT: u8 = 4;
/// It could not be looked at, or mended.
const OPERATIONAL: u8 = 8;
/// The command line means nothing.
pub(crate) const USAGE: u8 = 16;
/// Problems that are listed to people.
const LISTED: usize = 200;

#[derive(Debug, Clone, Args)]
pub(crate) struct FsckArgs {
    /// The block device or file. It must not be mounted.
    target: String,
    /// Change nothing.
    #[arg(short = 'n', conflicts_with_all = ["yes", "preen", "auto"])]
    no: bool,
    /// Mend all that is wrong, without a question.
    #[arg(short = 'y')]
    yes: bool,
    /// The same, for the boot scripts that call it so.
    #[arg(short = 'p')]
    preen: bool,
    /// The same, by its older name.
    #[arg(short = 'a')]
    auto: bool,
    /// Look also at what was unmounted, which it always does.
    #[arg(short = 'f')]
    _force: bool,
}

#[derive(Debug, Serialize)]
struct Told {
    target: String,
    uuid: String,
    /// As it was found.
    clean: bool,
    /// All that was wrong has been mended.
    mended: bool,
    inodes: u64,
    folders: u64,
    orphans: u64,
    file_blocks: u64,
    nodes: u64,
    records: u64,
    /// Items of lost nodes that were found in older ones.
    saved: u64,
    /// How many problems there are of each kind.
    counts: BTreeMap<String, usize>,
    problems: Vec<String>,
    /// What is no damage, and is made good by a repair.
    notes: Vec<String>,
    /// What a repair left.
    left: Vec<String>,
}

/// What was done, and what went wrong meanwhile.
struct Outcome {
    told: Told,
    failed: Option<anyhow::Error>,
}

pub(crate) fn fsck(args: &FsckArgs, json: bool) -> ExitCode {
    let outcome = match look(args, json) {
        Ok(outcome) => outcome,
        Err(error) => {
            note!("stripewise: {}", errors::printable_line(&error));
            return OPERATIONAL.into();
        }
    };
    let Outcome { told, failed } = &outcome;
    if let Some(error) = failed {
        note!("stripewise: {}", errors::printable_line(error));
    }
    if json && let Err(error) = print_json(told) {
        note!("stripewise: {}", errors::printable_line(&error));
        return OPERATIONAL.into();
    }
    code(told, failed.is_some()).into()
}

/// Sums as those of fsck(8).
fn code(told: &Told, has_failed: bool) -> u8 {
    let was_wrong = !told.clean || !told.notes.is_empty();
    let is_left = !told.left.is_empty() || !told.clean && !told.mended;
    let mended = if told.mended && was_wrong { MENDED } else { 0 };
    mended | if is_left { ERRORS_LEFT } else { 0 } | if has_failed { OPERATIONAL } else { 0 }
}

fn look(args: &FsckArgs, json: bool) -> anyhow::Result<Outcome> {
    let path = absolute_path(&args.target)?;
    let host = daemon::start_host(RuntimeOptions::default())?;
    let found = open_damaged(&host, &path)?;
    let report = checked(&host, &found.volume)?;
    let mut told = describe(path, found.superblock.uuid.to_string(), &report);
    if !json {
        print(&told);
    }
    let is_good = told.clean && told.notes.is_empty();
    if is_good || !may_mend(args, json, told.clean)? {
        if !told.clean && !json {
            say!("nothing was changed; `stripewise fsck -y {}` mends it", printable(&told.target));
        }
        return Ok(Outcome { told, failed: None });
    }
    let failed = mend(&host, &found.volume, &mut told).err();
    if !json && told.mended {
        say!("{}: mended; what has lost its name is in the folder lost+found", printable(&told.target));
    }
    told.left.iter().filter(|_| !json).for_each(|left| say!("left: {}", printable(left)));
    Ok(Outcome { told, failed })
}

/// Whether it is to be mended. Asks once on a terminal; elsewhere what was not asked for is not done.
fn may_mend(args: &FsckArgs, json: bool, is_clean: bool) -> anyhow::Result<bool> {
    if args.yes || args.preen || args.auto {
        return Ok(true);
    }
    if args.no || json || is_clean || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let mut stderr = io::stderr();
    write!(stderr, "mend all of this? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn mend(host: &Host, volume: &Arc<dyn Volume>, told: &mut Told) -> anyhow::Result<()> {
    let now_ns = i64::try_from(host.env().wall_clock_us().saturating_mul(1000)).unwrap_or(i64::MAX);
    let of_repair = volume.clone();
    let bar = StepsBar::new();
    let progress = telling(&bar);
    host.block_on(async move { repair(&of_repair, now_ns, &progress).await })?;
    bar.clear();
    let after = checked(host, volume)?;
    told.left = after.problems.iter().map(ToString::to_string).collect();
    told.mended = told.left.is_empty();
    Ok(())
}

fn checked(host: &Host, volume: &Arc<dyn Volume>) -> anyhow::Result<Report> {
    let volume = volume.clone();
    let bar = StepsBar::new();
    let progress = telling(&bar);
    let report = host.block_on(async move { check_telling(&volume, &progress).await })?;
    bar.clear();
    Ok(report)
}

fn telling(bar: &StepsBar) -> Progress {
    let bar = bar.clone();
    Progress::new(move |what, done, all| bar.show(what, done, all))
}

fn describe(target: String, uuid: String, report: &Report) -> Told {
    let mut counts = BTreeMap::new();
    report.problems.iter().for_each(|problem| *counts.entry(kind(problem)).or_default() += 1);
    Told {
        target,
        uuid,
        clean: report.problems.is_empty(),
        mended: false,
        inodes: report.inodes,
        folders: report.folders,
        orphans: report.orphans,
        file_blocks: report.file_blocks,
        nodes: report.nodes,
        records: report.records,
        saved: report.saved,
        counts,
        problems: report.problems.iter().map(ToString::to_string).collect(),
        notes: report.notes.iter().map(ToString::to_string).collect(),
        left: Vec::new(),
    }
}

/// The variant's name.
fn kind(problem: &Problem) -> String {
    let text = format!("{problem:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}

fn print(told: &Told) {
    told.problems.iter().take(LISTED).for_each(|problem| say!("{}", printable(problem)));
    if told.problems.len() > LISTED {
        say!("... and {} more", told.problems.len() - LISTED);
    }
    told.counts.iter().for_each(|(kind, count)| say!("{kind}: {count}"));
    told.notes.iter().for_each(|note| say!("{}; -y makes that good", printable(note)));
    say!(
        "{}: {}; {} inodes ({} folders), {} blocks of files, {} nodes, {} records to repeat",
        printable(&told.target),
        if told.clean { "clean".to_owned() } else { format!("{} problems", told.problems.len()) },
        told.inodes,
        told.folders,
        told.file_blocks,
        told.nodes,
        told.records
    );
    if told.saved > 0 {
        say!("{} items of lost nodes were found in older ones", told.saved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_fsck() {
        let told = |problems: usize, mended, left: usize| Told {
            mended,
            left: vec![String::new(); left],
            clean: problems == 0,
            ..describe(String::new(), String::new(), &Report::default())
        };
        assert_eq!(code(&told(0, false, 0), false), 0);
        assert_eq!(code(&told(2, true, 0), false), 1);
        assert_eq!(code(&told(2, false, 0), false), 4);
        assert_eq!(code(&told(2, false, 1), false), 4);
        assert_eq!(code(&told(2, false, 0), true), 12);
    }
}
