//! `stripewise fsck`: looks, and mends nothing. Its exit codes are those of fsck(8).

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use stripewise::RuntimeOptions;
use stripewise_mount::rafs::check::check;
use stripewise_wire::{CheckedStatus, Reply, Request};

use super::{
    open,
    place::{Target, target_of},
    worked,
};
use crate::{
    daemon, errors,
    printable::printable,
    rafs::checked_status,
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
    /// The running array, block device or file. It must not be mounted.
    target: String,
    /// Mend nothing, which is all that it can do so far.
    #[arg(short = 'n')]
    no: bool,
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
    let told = match target_of(&args.target)? {
        Target::Array(name) => of_array(&name)?,
        Target::Path(path) => of_path(path)?,
    };
    if json {
        print_json(&told)?;
    } else {
        print(&told);
    }
    Ok(if told.clean { ExitCode::SUCCESS } else { ERRORS_LEFT.into() })
}

/// Has the array's daemon look.
fn of_array(name: &str) -> anyhow::Result<CheckedStatus> {
    match worked(name, &Request::Fsck, "fsck")? {
        Reply::Checked(told) => Ok(*told),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}

fn of_path(path: String) -> anyhow::Result<CheckedStatus> {
    let host = daemon::start_host(RuntimeOptions::default())?;
    let found = open(&host, &path)?;
    let volume = found.volume;
    let report = host.block_on(async move { check(&volume).await })?;
    Ok(checked_status(path, found.superblock.uuid.to_string(), &report))
}

fn print(told: &CheckedStatus) {
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
