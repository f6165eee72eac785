//! `stripewise fsck`: looks, and mends nothing. Its exit codes are those of fsck(8).

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;
use serde::Serialize;
use stripewise::RuntimeOptions;
use stripewise_mount::rafs::check::{Problem, Report, check};

use super::open;
use crate::{
    daemon, errors,
    given::absolute_path,
    printable::printable,
    said::{note, print_json, say},
};

/// Errors are left.
const ERRORS_LEFT: u8 = 4;
/// It could not be looked at.
const OPERATIONAL: u8 = 8;
/// The command line means nothing.
pub(crate) const USAGE: u8 = 16;
/// Problems that are listed to people.
const LISTED: usize = 200;

#[derive(Debug, Clone, Args)]
pub(crate) struct FsckArgs {
    /// The block device or file. It must not be mounted.
    target: String,
    /// Mend nothing, which is all that it can do so far.
    #[arg(short = 'n')]
    no: bool,
}

#[derive(Debug, Serialize)]
struct Told {
    target: String,
    uuid: String,
    clean: bool,
    inodes: u64,
    folders: u64,
    orphans: u64,
    file_blocks: u64,
    nodes: u64,
    records: u64,
    /// How many problems there are of each kind.
    counts: BTreeMap<String, usize>,
    problems: Vec<String>,
}

pub(crate) fn fsck(args: &FsckArgs, json: bool) -> ExitCode {
    match look(args, json) {
        Ok(code) => code,
        Err(error) => {
            note!("stripewise: {}", errors::printable_line(&error));
            OPERATIONAL.into()
        }
    }
}

fn look(args: &FsckArgs, json: bool) -> anyhow::Result<ExitCode> {
    let path = absolute_path(&args.target)?;
    let host = daemon::start_host(RuntimeOptions::default())?;
    let found = open(&host, &path)?;
    let volume = found.volume;
    let report = host.block_on(async move { check(&volume).await })?;
    let told = describe(path, found.superblock.uuid.to_string(), &report);
    if json {
        print_json(&told)?;
    } else {
        print(&told);
    }
    Ok(if told.clean { ExitCode::SUCCESS } else { ERRORS_LEFT.into() })
}

fn describe(target: String, uuid: String, report: &Report) -> Told {
    let mut counts = BTreeMap::new();
    report.problems.iter().for_each(|problem| *counts.entry(kind(problem)).or_default() += 1);
    Told {
        target,
        uuid,
        clean: report.problems.is_empty(),
        inodes: report.inodes,
        folders: report.folders,
        orphans: report.orphans,
        file_blocks: report.file_blocks,
        nodes: report.nodes,
        records: report.records,
        counts,
        problems: report.problems.iter().map(ToString::to_string).collect(),
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
    if !told.clean {
        say!("nothing was changed: save what can be read, and make the file system anew");
    }
}
