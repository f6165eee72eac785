//! The command line.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use clap::{Args, Parser, Subcommand};
use stripewise_engine::geometry::Level;
#[cfg(feature = "mutants")]
use stripewise_engine::mutants::Mutant;
use stripewise_sim::{
    exhaust::{Extent, History, Shape},
    story::{Action, Plan},
};

#[cfg(feature = "mutants")]
use crate::mutants::Bug;
use crate::{ace::AceArgs, rafs::RafsArgs};

/// Arrays in virtual time, with clients, operators, bad luck and power failures: is everything kept that was
/// promised?
#[derive(Debug, Parser)]
#[command(name = "stripewise-sim", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell the stories of many seeds; a bad end is shrunk to a short story and told.
    Run(RunArgs),
    /// Tell one story, with everything that happened in it.
    Replay(ReplayArgs),
    /// Tell every short history: power fails at each step, and all that may be left then is looked at.
    Exhaust(ExhaustArgs),
    /// Tell every short workload of the file system: power fails after each write, and all that may be left then is looked at.
    Ace(AceArgs),
    /// Tell stories of the file system: clients, power failures, and what the next mount finds.
    Rafs(RafsArgs),
    /// Arrays under load by real threads, one after the other, everything verified.
    Stress(StressArgs),
    /// Let deliberate bugs of the engine and of the file system loose, one after the other: each must be found.
    #[cfg(feature = "mutants")]
    Mutants(MutantsArgs),
}

/// Which stories.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoryArgs {
    /// Lives of each array: each ends with a power failure or a stop.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) steps: u32,
    /// Only arrays of this level: 0, 1, 4, 5 or 6.
    #[arg(long, value_parser = parse_level)]
    pub(crate) level: Option<Level>,
    /// Lives at the beginning in which nothing happens.
    #[arg(long, default_value_t = 0)]
    pub(crate) quiet: u32,
    /// Clients at most.
    #[arg(long, default_value_t = 3)]
    pub(crate) clients: usize,
    /// Requests of each client at most.
    #[arg(long, default_value_t = 200)]
    pub(crate) requests: usize,
    /// No array has a cache.
    #[arg(long)]
    pub(crate) no_caches: bool,
    /// Things that do not happen, such as `fail,vanish`.
    #[arg(long, value_delimiter = ',')]
    pub(crate) without: Vec<Action>,
    /// A deliberate bug that the engine is to have, as `mutants` names it.
    #[cfg(feature = "mutants")]
    #[arg(long, value_parser = parse_mutant)]
    pub(crate) mutant: Option<Mutant>,
}

impl StoryArgs {
    pub(crate) fn plan(&self, seed: u64) -> Plan {
        Plan {
            level: self.level,
            lives: self.steps,
            quiet_lives: self.quiet,
            clients_max: self.clients,
            requests_max: self.requests,
            caches: !self.no_caches,
            without: self.without.iter().copied().collect::<BTreeSet<_>>(),
            #[cfg(feature = "mutants")]
            mutant: self.mutant,
            ..Plan::new(seed)
        }
    }
}

/// The arguments that tell a plan's story.
pub(crate) fn replay_command(plan: &Plan) -> String {
    let mut words = format!(
        "stripewise-sim replay {} --steps {} --quiet {} --clients {} --requests {}",
        plan.seed, plan.lives, plan.quiet_lives, plan.clients_max, plan.requests_max
    );
    if let Some(level) = plan.level {
        words += &format!(" --level {}", level.number());
    }
    if !plan.caches {
        words += " --no-caches";
    }
    #[cfg(feature = "mutants")]
    if let Some(mutant) = plan.mutant {
        words += &format!(" --mutant {mutant:?}");
    }
    if !plan.without.is_empty() {
        let names: Vec<String> = plan.without.iter().map(ToString::to_string).collect();
        words += &format!(" --without {}", names.join(","));
    }
    words
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The seeds to tell, as FROM..TO; from 0 on, if left out: a thousand, or as many as --seconds or
    /// --crash-points need.
    #[arg(long, value_parser = parse_range)]
    pub(crate) seeds: Option<Range<u64>>,
    /// End after so many seconds, whatever seed is reached.
    #[arg(long, value_parser = parse_seconds)]
    pub(crate) seconds: Option<Duration>,
    /// End after so many power failures, no two at the same moment of the same history.
    #[arg(long)]
    pub(crate) crash_points: Option<u64>,
    /// Only stories with caches: --level must be 4, 5 or 6.
    #[arg(long, requires = "level", conflicts_with = "no_caches")]
    pub(crate) only_caches: bool,
    /// Threads; as many as there are cores, if left out.
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) story: StoryArgs,
}

impl RunArgs {
    /// Whether there are stories as asked for.
    pub(crate) fn is_possible(&self) -> bool {
        !self.only_caches || self.story.level.is_some_and(Level::has_parity)
    }

    /// The seeds to tell.
    pub(crate) fn seeds(&self) -> Range<u64> {
        let bounded = self.seconds.is_some() || self.crash_points.is_some();
        self.seeds.clone().unwrap_or(if bounded { 0..u64::MAX } else { 0..1000 })
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The seed.
    pub(crate) seed: u64,
    /// How many of the last requests to members are told.
    #[arg(long, default_value_t = 60)]
    pub(crate) events: usize,
    #[command(flatten)]
    pub(crate) story: StoryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExhaustArgs {
    /// Operations of a history at most.
    #[arg(long, default_value_t = 2, value_parser = parse_ops)]
    pub(crate) ops: usize,
    /// Arrays, as level x members, such as 5x3,6x4, and with a cache of stripes or rows, as 5x4.sc, 6x5.pbg; all, if
    /// left out.
    #[arg(long, value_delimiter = ',')]
    pub(crate) shapes: Vec<Shape>,
    /// Seeds of each history: which task goes next, and how long I/O takes. Single operations have four times
    /// as many.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// Threads; as many as there are cores, if left out.
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// States that are looked at of a power failure that may leave more; the others are counted as skipped.
    #[arg(long, default_value_t = 32)]
    pub(crate) states: usize,
    /// Only this history, such as 5x3:0:4k.fua,lose,4k: level x members, seed, and what is asked, one after
    /// the other, or at once with a + between.
    #[arg(long)]
    pub(crate) history: Option<History>,
    /// A deliberate bug that the engine is to have, as `mutants` names it.
    #[cfg(feature = "mutants")]
    #[arg(long, value_parser = parse_mutant)]
    pub(crate) mutant: Option<Mutant>,
    /// Let deliberate bugs loose, those that must be found or all, and tell which are.
    #[cfg(feature = "mutants")]
    #[arg(long, conflicts_with_all = ["history", "mutant"])]
    pub(crate) mutants: Option<WhichMutants>,
}

impl ExhaustArgs {
    /// The histories asked for.
    pub(crate) fn extent(&self) -> Extent {
        let shapes = if self.shapes.is_empty() { Shape::ALL.to_vec() } else { self.shapes.clone() };
        Extent { shapes, ops: self.ops, seeds: self.seeds, seeds_of_one: 4 * self.seeds }
    }
}

/// Deliberate bugs.
#[cfg(feature = "mutants")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhichMutants {
    /// Those that short histories must find.
    Must,
    /// All.
    All,
}

/// As many threads as asked for, or as there are cores.
pub(crate) fn threads_or_all(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

#[derive(Debug, Args)]
pub(crate) struct StressArgs {
    /// How long.
    #[arg(long, value_parser = parse_seconds, default_value = "60")]
    pub(crate) seconds: Duration,
    /// Worker threads of each array; as many as there are cores, if left out.
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// The first array's seed.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Requests of each client of an array.
    #[arg(long, default_value_t = 2000)]
    pub(crate) requests: usize,
}

#[cfg(feature = "mutants")]
#[derive(Debug, Args)]
pub(crate) struct MutantsArgs {
    /// Seeds within which a mutant must be found, five times as many for those of the file system.
    #[arg(long, default_value_t = 1000)]
    pub(crate) seeds: u64,
    /// Threads; as many as there are cores, if left out.
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Only these mutants; all, if left out.
    #[arg(long, value_delimiter = ',', value_parser = parse_bug)]
    pub(crate) only: Vec<Bug>,
}

fn parse_level(text: &str) -> Result<Level, String> {
    text.parse().ok().and_then(Level::from_number).ok_or_else(|| "give 0, 1, 4, 5 or 6".to_owned())
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parse = |(from, to): (&str, &str)| Some(from.parse().ok()?..to.parse().ok()?);
    let range: Option<Range<u64>> = text.split_once("..").and_then(parse);
    range
        .filter(|range| !range.is_empty())
        .ok_or_else(|| "give FROM..TO, FROM less than TO, such as 0..1000".to_owned())
}

pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| "give a number of seconds, 1 or more".to_owned())
}

fn parse_ops(text: &str) -> Result<usize, String> {
    let ops = text.parse().ok().filter(|ops| (1..=3).contains(ops));
    ops.ok_or_else(|| "give 1, 2 or 3".to_owned())
}

pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| *threads > 0);
    threads.ok_or_else(|| "give a number of threads, 1 or more".to_owned())
}

#[cfg(feature = "mutants")]
fn parse_mutant(text: &str) -> Result<Mutant, String> {
    named(&Mutant::ALL.into_iter().chain(Mutant::CACHE).collect::<Vec<_>>(), text)
}

#[cfg(feature = "mutants")]
pub(crate) fn parse_rafs_mutant(text: &str) -> Result<stripewise_rafs::mutants::Mutant, String> {
    named(stripewise_rafs::mutants::Mutant::ALL, text)
}

#[cfg(feature = "mutants")]
fn parse_bug(text: &str) -> Result<Bug, String> {
    named(&Bug::all(), text)
}

/// The one of these mutants that has this name.
#[cfg(feature = "mutants")]
fn named<M: Copy + std::fmt::Debug>(all: &[M], text: &str) -> Result<M, String> {
    let found = all.iter().find(|mutant| format!("{mutant:?}") == text);
    let names = || all.iter().map(|mutant| format!("{mutant:?}")).collect::<Vec<_>>().join(", ");
    found.copied().ok_or_else(|| format!("no mutant {text}; there are {}", names()))
}
