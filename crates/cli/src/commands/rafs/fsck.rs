//! `stripewise fsck`: looks, and mends what is wrong if it may. Its options and exit codes are those of fsck(8).

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::{bail, ensure};
use clap::Args;
use stripewise::{Host, RuntimeOptions};
use stripewise_mount::{
    rafs::{check::Progress, volume::Volume},
    report::Report,
};
use stripewise_wire::{CheckedStatus, Reply, Request};

use super::{
    canceled::{CANCELED, Under, Watch},
    df::{Row, mounted_array, mounted_path},
    look, open_damaged,
    place::{Target, target_of},
    worked,
};
use crate::{
    client::Interrupted,
    daemon, errors,
    printable::printable,
    progress::StepsBar,
    rafs::{checked, mended},
    said::{note, print_json, say},
};

/// Errors were mended.
const MENDED: u8 = 1;
/// Errors are left.
pub(super) const ERRORS_LEFT: u8 = 4;
/// It could not be looked at, or mended.
const OPERATIONAL: u8 = 8;
/// The command line means nothing.
pub(crate) const USAGE: u8 = 16;
/// Problems that are listed to people.
const LISTED: usize = 200;

#[derive(Debug, Clone, Args)]
pub(crate) struct FsckArgs {
    /// The running array, block device or file. While it is mounted, a checkpoint of it is looked at, and nothing is mended.
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

impl FsckArgs {
    /// Whether all that is wrong is to be mended without a question.
    fn mends(&self) -> bool {
        self.yes || self.preen || self.auto
    }

    /// Whether the user may be asked what to do.
    fn asks(&self, json: bool) -> bool {
        !self.no && !json && io::stdin().is_terminal() && io::stderr().is_terminal()
    }
}

/// What was done, and what went wrong meanwhile.
struct Outcome {
    told: CheckedStatus,
    failed: Option<anyhow::Error>,
}

/// What is looked at.
enum Ground {
    /// What is mounted there: the process that serves it looks.
    Mounted { point: PathBuf, report: Box<Report>, watch: Watch },
    /// A running array, whose daemon looks.
    Array(String),
    /// A device or a file: its path, its UUID and its volume.
    Path { host: Host, path: String, uuid: String, volume: Arc<dyn Volume>, watch: Watch },
}

impl Ground {
    fn of(text: &str, may_mend: bool) -> anyhow::Result<Self> {
        match target_of(text)? {
            Target::Array(name) => match mounted_array(&name)? {
                Some(row) => Self::mounted(row),
                None => Ok(Self::Array(name)),
            },
            Target::Path(path) => {
                let watch = Watch::begin(path.clone())?;
                let host = daemon::start_host(RuntimeOptions::default())?;
                match open_damaged(&host, &path, may_mend) {
                    Ok(found) => {
                        let uuid = found.superblock.uuid.to_string();
                        Ok(Self::Path { host, path, uuid, volume: found.volume, watch })
                    }
                    // Only what is in use may be mounted: a mount may claim any device to be its own.
                    Err(error) => match mounted_path(&path)? {
                        Some(Row { point: Some(point), report }) => {
                            Ok(Self::Mounted { point, report: Box::new(report), watch })
                        }
                        _ => Err(error),
                    },
                }
            }
        }
    }

    fn mounted(row: Row) -> anyhow::Result<Self> {
        let Row { point: Some(point), report } = row else {
            bail!("{}: is not mounted", row.report.identity.target)
        };
        let watch = Watch::begin(report.identity.target.clone())?;
        Ok(Self::Mounted { point, report: Box::new(report), watch })
    }

    /// Looks at it, and mends it if that is wanted.
    fn look(&self, mend: bool) -> anyhow::Result<CheckedStatus> {
        match self {
            Self::Mounted { point, report, watch } => look::look(point, report, watch),
            Self::Array(name) => match worked(name, &Request::Fsck { mend }, "fsck")? {
                Reply::Checked(told) => Ok(*told),
                other => bail!("{name}: unexpected answer {other:?}"),
            },
            Self::Path { host, path, uuid, volume, watch } => {
                let (bar, volume, what) = (StepsBar::new(), volume.clone(), (path.clone(), uuid.clone()));
                let progress = telling(&bar);
                watch.set(Some(Under { bar: bar.clone(), mends: mend }));
                let env = host.env();
                let told = host.block_on(async move {
                    match mend {
                        true => mended(&env, what, &volume, &progress).await,
                        false => checked(what, &volume, &progress).await,
                    }
                });
                // A signal after a repair must not say that nothing was changed.
                if !mend {
                    watch.set(None);
                }
                bar.clear();
                told
            }
        }
    }
}

pub(crate) fn fsck(args: &FsckArgs, json: bool) -> ExitCode {
    let outcome = match look(args, json) {
        Ok(outcome) => outcome,
        Err(error) => {
            note!("stripewise: {}", errors::printable_line(&error));
            return failed_code(&error).into();
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
    code(told, failed.as_ref().map_or(0, failed_code)).into()
}

/// What a failure adds to the exit code.
fn failed_code(error: &anyhow::Error) -> u8 {
    if error.is::<Interrupted>() { CANCELED } else { OPERATIONAL }
}

/// Sums as those of fsck(8).
fn code(told: &CheckedStatus, failed: u8) -> u8 {
    let was_wrong = !told.clean || !told.notes.is_empty();
    let is_left = !told.left.is_empty() || !told.clean && !told.mended;
    let mended = if told.mended && was_wrong { MENDED } else { 0 };
    mended | if is_left { ERRORS_LEFT } else { 0 } | failed
}

fn look(args: &FsckArgs, json: bool) -> anyhow::Result<Outcome> {
    let ground = Ground::of(&args.target, args.mends() || args.asks(json))?;
    if let Ground::Mounted { point, report, .. } = &ground {
        ensure!(
            !args.mends(),
            "{}: it is mounted on {}; `stripewise umount` it to have it mended. Without -y, -p and -a, it is looked at as it is",
            report.identity.target,
            point.display()
        );
    }
    let told = ground.look(false)?;
    if !json {
        print(&told);
    }
    let is_good = told.clean && told.notes.is_empty();
    let is_mounted = told.mounted.is_some();
    if is_good || is_mounted || !may_mend(args, json, told.clean)? {
        if !told.clean && !json {
            let first = if is_mounted { "unmount it, and " } else { "" };
            say!("nothing was changed; {first}`stripewise fsck -y {}` mends it", printable(&told.target));
        }
        return Ok(Outcome { told, failed: None });
    }
    let (told, failed) = match ground.look(true) {
        Ok(told) => (told, None),
        Err(error) => (told, Some(error)),
    };
    if !json && told.mended {
        say!("{}: mended; what has lost its name is in the folder lost+found", printable(&told.target));
    }
    told.left.iter().filter(|_| !json).for_each(|left| say!("left: {}", printable(left)));
    Ok(Outcome { told, failed })
}

/// Whether it is to be mended. Asks once on a terminal; elsewhere what was not asked for is not done.
fn may_mend(args: &FsckArgs, json: bool, is_clean: bool) -> anyhow::Result<bool> {
    if args.mends() {
        return Ok(true);
    }
    if is_clean || !args.asks(json) {
        return Ok(false);
    }
    let mut stderr = io::stderr();
    write!(stderr, "mend all of this? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn telling(bar: &StepsBar) -> Progress {
    let bar = bar.clone();
    Progress::new(move |what, done, all| bar.show(what, done, all))
}

fn print(told: &CheckedStatus) {
    if let Some(point) = &told.mounted {
        say!(
            "{}: it is mounted on {}; this is its last checkpoint, without what is changed meanwhile",
            printable(&told.target),
            printable(&point.display().to_string())
        );
    }
    told.problems.iter().take(LISTED).for_each(|problem| say!("{}", printable(problem)));
    let all: usize = told.counts.values().sum();
    let listed = told.problems.len().min(LISTED);
    if all > listed {
        say!("... and {} more", all - listed);
    }
    told.counts.iter().for_each(|(kind, count)| say!("{kind}: {count}"));
    told.notes.iter().for_each(|note| say!("{}; -y makes that good", printable(note)));
    say!(
        "{}: {}; {} inodes ({} folders), {} blocks of files, {} nodes, {} records to repeat",
        printable(&told.target),
        if told.clean { "clean".to_owned() } else { format!("{all} problems") },
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
        let told = |problems: usize, mended, left: usize| CheckedStatus {
            mended,
            left: vec![String::new(); left],
            clean: problems == 0,
            ..CheckedStatus::default()
        };
        assert_eq!(code(&told(0, false, 0), 0), 0);
        assert_eq!(code(&told(2, true, 0), 0), 1);
        assert_eq!(code(&told(2, false, 0), 0), 4);
        assert_eq!(code(&told(2, false, 1), 0), 4);
        assert_eq!(code(&told(2, false, 0), OPERATIONAL), 12);
    }
}
