//! The command line. Words and long options are mdadm's where mdadm has them.

use std::{ffi::OsString, path::PathBuf};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(feature = "lab")]
use crate::commands::lab::LabCommand;
use crate::{
    bench::BenchCommand,
    commands::{
        assemble::AssembleArgs,
        cache::CacheArgs,
        class::ClassArgs,
        create::CreateArgs,
        endurance::EnduranceArgs,
        examine::ExamineArgs,
        exports::{AttachArgs, DetachArgs, ServeArgs},
        jobs::{ScrubArgs, SpeedArgs, WaitArgs},
        members::{AddArgs, MemberArgs, ReplaceArgs},
        policy::PolicyArgs,
        rafs::{
            df::DfArgs,
            dump::DumpArgs,
            fsck::{self, FsckArgs},
            mkfs::MkfsArgs,
            mount::MountArgs,
            stat::StatArgs,
            umount::UmountArgs,
        },
        show::{CANNOT_TELL, DetailArgs, StatusArgs},
        stop::StopArgs,
        trace::TraceArgs,
    },
    demo::DemoArgs,
    explain::ExplainArgs,
    habits::explained,
    numbers::with_negatives,
};

/// Parity arrays in user space: fast and safe small writes on any mix of disks, on-disk compatible with Linux
/// md.
#[derive(Debug, Parser)]
#[command(name = "stripewise", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print JSON for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line, with the program's name before it. Ends the program if it is invalid.
    pub(crate) fn read(words: Vec<OsString>) -> Self {
        let matches = with_negatives(Self::command()).try_get_matches_from(words);
        let matches = matches.unwrap_or_else(|error| leave(&explained(error)));
        Self::from_arg_matches(&matches).unwrap_or_else(|error| leave(&error))
    }
}

/// Prints clap's message and ends the program. After `detail --test` and `fsck`, the exit code of wrong usage
/// means something else.
fn leave(error: &clap::Error) -> ! {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    if error.use_stderr() && words.iter().find(|word| *word != "--json").is_some_and(|word| word == "fsck") {
        let _ = error.print();
        std::process::exit(fsck::USAGE.into());
    }
    let is_test = has("detail") && (has("--test") || has("-t"));
    if is_test && error.use_stderr() {
        let _ = error.print();
        std::process::exit(CANNOT_TELL.into());
    }
    error.exit()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new array and start it. Everything on the devices is lost.
    Create(CreateArgs),
    /// Start an array from its members.
    Assemble(AssembleArgs),
    /// Stop an array and leave it clean.
    ///
    /// Its block device is detached and its NBD servers end. Of an array whose daemon was killed, what is
    /// left is cleared away.
    Stop(StopArgs),
    /// Show running arrays, as /proc/mdstat does.
    Status(StatusArgs),
    /// Show everything about one array.
    Detail(DetailArgs),
    /// Show what is on a device: superblock and extension area.
    Examine(ExamineArgs),
    /// Add devices as spares; a vacant role is rebuilt at once.
    Add(AddArgs),
    /// Declare a member failed.
    Fail(MemberArgs),
    /// Let go of a failed or spare member.
    Remove(MemberArgs),
    /// Fill a device to take a living member's place.
    Replace(ReplaceArgs),
    /// Check redundancy, or mend it.
    Scrub(ScrubArgs),
    /// Limit the speed of background jobs, per member; print the limits where none is given.
    ///
    /// Limits hold until the array stops: they are not kept on its members.
    Speed(SpeedArgs),
    /// Wait until no background job is under way.
    Wait(WaitArgs),
    /// How partly written rows are written: print it, or change it while the array runs.
    ///
    /// The choice is kept on the members.
    Policy(PolicyArgs),
    /// The write-back cache in memory: print it, or change it while the array runs.
    ///
    /// With a cache, a write is acknowledged when it is in memory, and written to members later, by whole stripes where
    /// possible. A flush makes it durable, as on a disk with a write cache: what was written since the last flush may
    /// be lost if the daemon or the machine ends. The choice is kept on the members.
    Cache(CacheArgs),
    /// Show how a write would be carried out: counts, the chosen cycles, the rxw-matrix, and all I/O.
    ///
    /// Of a running array, as its stripes are now, or of one that options describe. Nothing is written.
    Explain(ExplainArgs),
    /// Show what write selection decides, as it decides it, until it is interrupted.
    Trace(TraceArgs),
    /// What members may be written, what they were, and when they will be worn out; or say what they may.
    ///
    /// It is kept on the members, also when they become members of another array. What was written is all
    /// that wears them: for clients, by background jobs (`detail` tells these apart since the array was
    /// opened), and metadata. `status` warns of one that will not outlive its warranty and the margin behind
    /// it, will be worn out within 90 days, or was written more than it is rated for.
    ///
    /// What was written is noted on a member once 512 MiB are not noted, and every minute if 1 MiB is not;
    /// also when the array stops, and when the member is failed or replaced. After a crash, or SIGKILL to the
    /// daemon, what came since is not counted: 1 MiB and what the last minute wrote, and never more than 512
    /// MiB and what a second or two wrote. `detail` shows what is noted.
    Endurance(EnduranceArgs),
    /// What kind of device members are, hard disk or flash: print it, or correct it while the array runs.
    ///
    /// It is kept on the members. The bitmap goes to flash first, `cost` weighs what such devices take where
    /// that was not measured, and advice follows from it. Level 4's parity and the array's policy stay where
    /// and what they are.
    Class(ClassArgs),
    /// Make a block device of an array.
    ///
    /// It is there until it is detached or the array stops: attach it again after an assembly.
    Attach(AttachArgs),
    /// Take the block device away.
    Detach(DetachArgs),
    /// Serve an array over NBD.
    ///
    /// It is served until `--stop` or until the array stops: serve it again after an assembly.
    Serve(ServeArgs),
    /// Make a RAFS file system on a running array, a block device or in a file. Everything there is lost.
    Mkfs(MkfsArgs),
    /// Mount a RAFS file system.
    ///
    /// That of a running array is served by the array's daemon, that of a device or file by a process in the background. It is
    /// unmounted by `stripewise umount`, umount(8) or SIGTERM; all is written out then. After a crash nothing that was synced
    /// is lost; mount it again.
    Mount(MountArgs),
    /// Unmount a RAFS file system, and wait until all is written out; or clear what a killed server left.
    Umount(UmountArgs),
    /// Look for damage in a RAFS file system that is not mounted, and mend it.
    ///
    /// On a terminal it asks once, after it has shown what is wrong; elsewhere it changes nothing without -y. What is mended is
    /// written beside what is there, so a crash leaves one or the other. Exit codes are those of fsck(8), and may be added
    /// up: 0 no damage, 1 mended, 4 damage is left, 8 it could not be looked at or mended, 16 the words given mean nothing.
    Fsck(FsckArgs),
    /// Show what lies on a RAFS file system that is not mounted. Nothing is written.
    Dump(DumpArgs),
    /// Show how full RAFS file systems are.
    Df(DfArgs),
    /// Show what mounted RAFS file systems have done, and how they wrote stripes.
    Stat(StatArgs),
    /// See it work: make an array, break it, repair it, check every byte. Takes under a minute.
    Demo(DemoArgs),
    /// Measure.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Experiments on modelled disks, and in real time on this machine.
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(LabCommand),
    /// Print shell completions.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder.
    Man {
        /// The folder.
        folder: PathBuf,
    },
    /// The array's own process; started by create and assemble.
    #[command(hide = true)]
    Daemon {
        /// The array, as it shows in lists of processes.
        name: Option<String>,
    },
    /// What serves a mounted file system; started by mount.
    #[command(hide = true)]
    MountDaemon {
        /// The folder that it is mounted on, as it shows in lists of processes.
        folder: Option<PathBuf>,
    },
    /// What works on the demo's files; started by demo.
    #[command(hide = true)]
    DemoWorker {
        /// The demo's folder.
        folder: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        with_negatives(Cli::command()).debug_assert();
    }
}
