//! The command line. Words and long options are mdadm's where it has one.

mod create;
mod exports;
mod lab;

use std::{path::PathBuf, time::Duration};

use clap::builder::TypedValueParser;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use stripewise_wire::{ClassChoice, ScrubAction};

pub(crate) use self::{
    create::{CreateArgs, MapChoice},
    exports::{AttachArgs, DetachArgs, ServeArgs},
    lab::{CountersArgs, LabCommand, LabReportArgs, LabRunArgs, ValidateArgs},
};
use crate::{
    bench::{EngineBench, LoadArgs, NbdBench, NbdServer},
    choices::one_of,
    commands::{ClassArgs, EnduranceArgs, PolicyArgs, TraceArgs},
    explain::ExplainArgs,
    habits::explained,
    numbers::{with_negatives, within},
    rundir::parse_name,
    sizes::{parse_size, parse_speed},
    times::parse_time,
    words::parse_class,
};

/// Parity arrays in user space: fast and safe small writes on any mix of disks, on-disk compatible with Linux md.
#[derive(Debug, Parser)]
#[command(name = "stripewise", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print JSON for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Worker threads that anybody has cores for.
pub(crate) const THREADS_MAX: usize = 1024;

impl Cli {
    /// Reads the command line; ends the program where it is not one.
    pub(crate) fn read() -> Self {
        let matches = with_negatives(Self::command()).try_get_matches();
        let matches = matches.unwrap_or_else(|error| leave(&explained(error)));
        Self::from_arg_matches(&matches).unwrap_or_else(|error| leave(&error))
    }
}

/// `detail --test`: how the array is cannot be told.
pub(crate) const CANNOT_TELL: u8 = 4;

/// Ends the program where its command line is not one. The code of wrong usage means something else after `detail --test`.
fn leave(error: &clap::Error) -> ! {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
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
    /// Its block device is detached and its NBD servers end. Of an array whose daemon was killed, what is left is
    /// cleared away.
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
    Wait(NameArgs),
    /// How partly written rows are written: print it, or change it while the array runs.
    ///
    /// The choice is kept on the members.
    Policy(PolicyArgs),
    /// Show how a write would be carried out: counts, the chosen cycles, the rxw-matrix, and all I/O.
    ///
    /// Of a running array, as its stripes are now, or of one that options describe. Nothing is written.
    Explain(ExplainArgs),
    /// Show what write selection decides, as it decides it, until it is interrupted.
    Trace(TraceArgs),
    /// What members may be written, what they were, and when they will be worn out; or say what they may.
    ///
    /// It is kept on the members, also when they become members of another array. What was written is all that wears them:
    /// for clients, by background jobs (`detail` tells these apart since the array was opened), and metadata. `status` warns
    /// of one that will not outlive its warranty and the margin behind it, will be worn out within 90 days, or was written
    /// more than it is rated for.
    ///
    /// What was written is noted on a member once 512 MiB are not noted, and every minute if 1 MiB is not; also when the
    /// array stops, and when the member is failed or replaced. After a crash, or SIGKILL to the daemon, what came since
    /// is not counted: 1 MiB and what the last minute wrote, and never more than 512 MiB and what a second or two wrote.
    /// `detail` shows what is noted.
    Endurance(EnduranceArgs),
    /// What kind of device members are, hard disk or flash: print it, or correct it while the array runs.
    ///
    /// It is kept on the members. The bitmap goes to flash first, `cost` weighs what such devices take where that was not
    /// measured, and advice follows from it. Level 4's parity and the array's policy stay where and what they are.
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
    /// See it work: make an array, break it, repair it, check every byte. Takes under a minute.
    Demo(DemoArgs),
    /// Measure.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Experiments on modelled disks, and in real time on this machine.
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
    /// What works on the demo's files; started by demo.
    #[command(hide = true)]
    DemoWorker {
        /// The demo's folder.
        folder: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The engine over memory members, beside a bare loop with the same memory traffic.
    ///
    /// What is compared takes turns in one process, and figures are medians of the turns. With --out there is a page with plots.
    Engine(EngineBench),
    /// The NBD server beside nbdkit and qemu-nbd, over unix sockets, under the same client, in turns.
    ///
    /// Each server is a process of its own: ours with an array of four members of data and one of parity in memory, nbdkit
    /// with its memory plugin, qemu-nbd with a file in /dev/shm. Peers that are not installed are left out.
    Nbd(NbdBench),
    /// The server that `bench nbd` measures.
    #[command(hide = true)]
    NbdServer(NbdServer),
    /// Load on a running array, a block device or a file, in fio's words.
    ///
    /// On an array it runs in the array's own daemon, so that neither socket nor kernel is measured. Interrupted, it prints
    /// how far it came, and exits with 1.
    Run(LoadArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct NameArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
}

/// The workers of an array's daemon, while it runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct WorkerArgs {
    /// Worker threads of the array's daemon, while it runs; as many as there are cores, if left out.
    #[arg(long, value_parser = within(1..=THREADS_MAX))]
    pub(crate) threads: Option<usize>,
    /// Has a thread of the kernel's take what each worker asks of members, without system calls. It takes a core for itself,
    /// until there was no work for IDLE: seconds, or a number with ms or s; 100ms, if left out.
    #[arg(
        long,
        value_name = "IDLE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "100ms",
        value_parser = parse_time
    )]
    pub(crate) sq_poll: Option<Duration>,
    /// Asks members for their completions instead of being interrupted, where their queues can be polled (NVMe with
    /// `nvme.poll_queues`; /sys/block/DEVICE/queue/io_poll says so). A worker with I/O under way takes its core for itself.
    #[arg(long)]
    pub(crate) io_poll: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AssembleArgs {
    /// The array's name while it runs.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Start although members are absent that were there when it was last used.
    #[arg(long)]
    pub(crate) run: bool,
    /// Start although data may be lost.
    ///
    /// An array that was being written while it was degraded is started: rows under way may have lost what was on the
    /// missing member. Where too few members are current, the least stale of the others are taken, and what was
    /// written since they left is lost; `detail` names them.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Write nothing.
    #[arg(long, short = 'o')]
    pub(crate) readonly: bool,
    #[command(flatten)]
    pub(crate) workers: WorkerArgs,
    /// The members, in any order.
    #[arg(required = true)]
    pub(crate) devices: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StopArgs {
    /// The array.
    #[arg(value_parser = parse_name, required_unless_present = "all")]
    pub(crate) name: Option<String>,
    /// Every running array.
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
    /// Also if its block device is in use, or the array has failed: what is not written out is lost.
    ///
    /// File systems that are mounted from a running array stay mounted and fail every request; what is to be
    /// unmounted is named. Of an array whose daemon was killed, they are unmounted.
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    /// Only these arrays.
    #[arg(value_parser = parse_name)]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DetailArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Exit with 0 if all is well, 1 if degraded, 2 if unusable, 4 if that cannot be told.
    #[arg(long, short)]
    pub(crate) test: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ExamineArgs {
    /// Block devices or files.
    #[arg(required = true)]
    pub(crate) devices: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AddArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Overwrite what is found on the devices.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Wait until a rebuild that this starts is done.
    #[arg(long, short = 'W')]
    pub(crate) wait: bool,
    /// What kind of device one is, where that is not to be detected: DEVICE=hdd or DEVICE=ssd. Can be given again.
    #[arg(long, value_name = "DEVICE=CLASS", value_parser = parse_class)]
    pub(crate) class: Vec<(String, ClassChoice)>,
    /// Block devices or files.
    #[arg(required = true)]
    pub(crate) devices: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MemberArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// The member's device; for `remove`, also the word `failed` for all that are faulty.
    pub(crate) device: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ReplaceArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// The member to be replaced.
    pub(crate) device: String,
    /// The device to take its place: a spare, or one to be added.
    #[arg(long)]
    pub(crate) with: String,
    /// What kind of device that is, where it is not to be detected: DEVICE=hdd or DEVICE=ssd.
    #[arg(long, value_name = "DEVICE=CLASS", value_parser = parse_class)]
    pub(crate) class: Vec<(String, ClassChoice)>,
    /// Overwrite what is found on the device.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Wait until it is done.
    #[arg(long, short = 'W')]
    pub(crate) wait: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ScrubArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// What to do.
    #[arg(value_parser = action_parser())]
    pub(crate) action: ScrubAction,
    /// Wait until it is done; exit with 1 if anything disagreed, as `status` does.
    #[arg(long, short = 'W')]
    pub(crate) wait: bool,
}

fn action_parser() -> impl TypedValueParser<Value = ScrubAction> {
    one_of(ScrubAction::ALL, ScrubAction::name, |action| match action {
        ScrubAction::Start => "Read all and count what disagrees (md's `check`)",
        ScrubAction::Repair => {
            "Read all and mend what disagrees: data is taken for right and P and Q are written anew from it, at level 6 too; \
             at level 1 the first copy is"
        }
        ScrubAction::Pause => "Pause the job under way, whatever it is; fails if there is none",
        ScrubAction::Resume => "Let it go on; fails if there is none",
        ScrubAction::Stop => "End it; fails if there is none",
        ScrubAction::Status => "Print how the last scrub ended, or how the current one stands",
    })
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SpeedArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Bytes a second that jobs may take while clients are busy, with a unit; 50M until it is set.
    #[arg(long, value_parser = parse_speed)]
    pub(crate) min: Option<u64>,
    /// Bytes a second that jobs may take at most, with a unit; 0 for no limit, as it is until it is set.
    #[arg(long, value_parser = parse_speed)]
    pub(crate) max: Option<u64>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Where to put the members; a temporary folder, if left out.
    #[arg(long)]
    pub(crate) folder: Option<PathBuf>,
    /// How much to copy in.
    #[arg(long, default_value = "220M", value_parser = parse_size)]
    pub(crate) data: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        with_negatives(Cli::command()).debug_assert();
    }
}
