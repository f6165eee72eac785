//! The command line. Words and long options are mdadm's where it has one.

use std::{path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use stripewise::{geometry::MEMBERS_MAX, locking::Preset, plan::selection::Policy};

use crate::{
    bench::{EngineBench, LoadArgs, NbdBench, NbdServer},
    commands::{ClassArgs, EnduranceArgs, PolicyArgs, TraceArgs},
    explain::ExplainArgs,
    habits::explained,
    numbers::{with_negatives, within},
    policies::{policy_parser, preset_parser},
    protocol::{AttachChoice, ClassChoice, DiscardChoice, ScrubAction},
    rundir::parse_name,
    sizes::parse_size,
    times::parse_time,
    words::{parse_bitmap, parse_chunk, parse_class, parse_level, parse_metadata, parse_sector},
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

#[derive(Debug, Clone, Args)]
pub(crate) struct NameArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
}

/// What `--bitmap-map` can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MapChoice {
    /// Neighbouring stripes share a bit, as in md.
    Linear,
    /// Neighbouring stripes have different bits.
    Distributed,
}

/// What `--consistency-policy` can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConsistencyPolicy {
    /// After a crash, resync what the write-intent bitmap marks.
    Bitmap,
}

/// What `--layout` can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutChoice {
    /// Linux md's default for levels 5 and 6.
    #[value(alias = "ls")]
    LeftSymmetric,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CreateArgs {
    /// The array's name.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// RAID level: 0 (stripe), 1 (mirror), 4, 5 or 6; also as raid0 to raid6, stripe or mirror.
    #[arg(long, short, value_parser = parse_level)]
    pub(crate) level: i32,
    /// Members of the complete array; all devices given, if left out.
    #[arg(long, short = 'n', value_parser = within(1..=MEMBERS_MAX))]
    pub(crate) raid_devices: Option<usize>,
    /// Devices beyond those are spares.
    #[arg(long, short = 'x', default_value_t = 0, value_parser = within(0..=MEMBERS_MAX))]
    pub(crate) spare_devices: usize,
    /// Chunk size: a power of two from 4K to 1M (a bare number means KiB, as mdadm's); 64K, if left out. Ignored for
    /// level 1.
    #[arg(long, short, value_parser = parse_chunk)]
    pub(crate) chunk: Option<u32>,
    /// Layout of levels 5 and 6.
    #[arg(long, value_enum)]
    pub(crate) layout: Option<LayoutChoice>,
    /// Where the write-intent bitmap lies: `internal`, which is in the extension area of the members.
    #[arg(long, value_name = "internal", value_parser = parse_bitmap)]
    pub(crate) bitmap: Option<()>,
    /// The version of the metadata: 1.2, as there is no other.
    #[arg(long, short = 'e', value_name = "1.2", value_parser = parse_metadata)]
    pub(crate) metadata: Option<()>,
    /// The name that is kept on the members, beside the machine's; that by which the array runs, if left out.
    #[arg(long = "name", short = 'N', value_name = "KEPT NAME", value_parser = parse_name)]
    pub(crate) kept_name: Option<String>,
    /// Bytes of each member that one bit stands for.
    #[arg(long, value_parser = parse_size)]
    pub(crate) bitmap_chunk: Option<u64>,
    /// Which stripes a bit stands for: neighbours, or stripes spread over the array (ScalaRAID's D-Blocks); as the preset
    /// has it, if left out.
    #[arg(long, value_enum)]
    pub(crate) bitmap_map: Option<MapChoice>,
    /// Who waits for whom when the array is written; the others are there to be compared with.
    #[arg(long, value_parser = preset_parser(), default_value = "default")]
    pub(crate) locking: &'static Preset,
    /// How the array becomes consistent after a crash.
    #[arg(long, value_enum)]
    pub(crate) consistency_policy: Option<ConsistencyPolicy>,
    /// How much of each member to use; all that the smallest offers, if left out.
    #[arg(long, short = 'z', value_parser = parse_size)]
    pub(crate) size: Option<u64>,
    /// The members agree already (all zeroes): no first resync.
    #[arg(long)]
    pub(crate) assume_clean: bool,
    /// The array's identity, if it must be a given one.
    #[arg(long)]
    pub(crate) uuid: Option<String>,
    /// Overwrite what is found on the devices, such as file systems; it is named on standard error.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Answer yes to the question whether to overwrite what is found: the same as --force, and as mdadm's --run.
    #[arg(long, short, visible_alias = "run", visible_short_alias = 'R')]
    pub(crate) yes: bool,
    /// Say what would be done and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Of levels 4, 5 and 6: how partly written rows are written; `stripewise policy --list` tells of each, and which it is
    /// if left out.
    #[arg(long, value_parser = policy_parser())]
    pub(crate) policy: Option<&'static Policy>,
    /// What kind of device a member is, where that is not to be detected: DEVICE=hdd or DEVICE=ssd. Can be given again.
    #[arg(long, value_name = "DEVICE=CLASS", value_parser = parse_class)]
    pub(crate) class: Vec<(String, ClassChoice)>,
    /// Where level 4 keeps its parity: on the `fastest` member if one is faster than the others, which makes a RAID4S;
    /// on the `last` one given; or on this DEVICE. If left out, on the fastest; with --assume-clean, where members keep
    /// their places, on the last.
    #[arg(long, value_name = "fastest|last|DEVICE")]
    pub(crate) parity: Option<String>,
    /// Do not measure how long the members' I/O takes. That takes about a second on hard disks, and leaves their contents
    /// alone.
    #[arg(long)]
    pub(crate) no_measure: bool,
    #[command(flatten)]
    pub(crate) workers: WorkerArgs,
    /// Block devices or files, by role; the word `missing` for a member to be added later.
    #[arg(required = true)]
    pub(crate) devices: Vec<String>,
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
    #[arg(value_enum)]
    pub(crate) action: ScrubAction,
    /// Wait until it is done; exit with 1 if anything disagreed, as `status` does.
    #[arg(long, short = 'W')]
    pub(crate) wait: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SpeedArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Bytes a second that jobs may take while clients are busy; 50M until it is set.
    #[arg(long, value_parser = parse_size)]
    pub(crate) min: Option<u64>,
    /// Bytes a second that jobs may take at most; 0 for no limit, as it is until it is set.
    #[arg(long, value_parser = parse_size)]
    pub(crate) max: Option<u64>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AttachArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// How; the best there is, if left out.
    #[arg(long, value_enum)]
    pub(crate) method: Option<AttachChoice>,
    /// The logical block size of the block device: 512, 1K, 2K or 4K, and no less than the members'; as theirs, if left out.
    /// With 4096 the kernel never asks for less than a block of 4 KiB, which is what members are written in.
    #[arg(long, value_name = "BYTES", value_parser = parse_sector)]
    pub(crate) sector_size: Option<u32>,
    /// Whether the block device takes discards (TRIM), as mkfs and fstrim send them.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) discard: DiscardChoice,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DetachArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Even if it is in use: what its users have not written out is lost to them.
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Listen on this unix socket.
    #[arg(long, short = 'U', conflicts_with = "bind")]
    pub(crate) unix: Option<PathBuf>,
    /// Listen on this address and port, such as 127.0.0.1:10809.
    #[arg(long, short)]
    pub(crate) bind: Option<String>,
    /// Refuse writes.
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Whether clients may discard (TRIM).
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) discard: DiscardChoice,
    /// Clients at a time; 128, if left out. Where all places are taken, a client that never asked anything makes room.
    #[arg(long, value_name = "COUNT", value_parser = within(1..=100_000usize))]
    pub(crate) connections: Option<usize>,
    /// Data that requests of all clients may hold together; 256M, if left out, and 40M at least. Each client has 1M besides, so
    /// that small requests never wait for large ones. A client that does not go on while others wait for its memory is cut off.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) in_flight: Option<u64>,
    /// Data that requests of one client may hold; 64M, or what all may, if left out, and 40M at least.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) connection_in_flight: Option<u64>,
    /// Close connections on which nothing was asked for this long: seconds, or a number with ms, s, m or h; never, if left
    /// out.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Stop serving there, or everywhere; fails if it is not served.
    #[arg(long)]
    pub(crate) stop: bool,
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
