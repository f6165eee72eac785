//! The command line.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use clap::{Args, Parser, Subcommand};
use stripewise_engine::geometry::Level;
use stripewise_sim::story::{Action, Plan};

/// Arrays in virtual time, with clients, operators, bad luck and power failures: is everything kept that was promised?
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
    /// Let deliberate bugs of the engine loose, one after the other: each must be found.
    #[cfg(feature = "mutants")]
    Mutants(MutantsArgs),
}

/// Which stories.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoryArgs {
    /// Lives of each array: each ends with a power failure or a stop.
    #[arg(long, default_value_t = 12)]
    pub(crate) steps: u32,
    /// Only arrays of this level: 1, 4, 5 or 6.
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
    /// Things that do not happen, such as `fail,vanish`.
    #[arg(long, value_delimiter = ',')]
    pub(crate) without: Vec<Action>,
}

impl StoryArgs {
    pub(crate) fn plan(&self, seed: u64) -> Plan {
        Plan {
            level: self.level,
            lives: self.steps,
            quiet_lives: self.quiet,
            clients_max: self.clients,
            requests_max: self.requests,
            without: self.without.iter().copied().collect::<BTreeSet<_>>(),
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
    if !plan.without.is_empty() {
        let names: Vec<String> = plan.without.iter().map(ToString::to_string).collect();
        words += &format!(" --without {}", names.join(","));
    }
    words
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The seeds to tell, as FROM..TO.
    #[arg(long, default_value = "0..1000", value_parser = parse_range)]
    pub(crate) seeds: Range<u64>,
    /// End after so many seconds, whatever seed is reached.
    #[arg(long, value_parser = parse_seconds)]
    pub(crate) seconds: Option<Duration>,
    /// End after so many power failures, no two at the same moment of the same history.
    #[arg(long)]
    pub(crate) crash_points: Option<u64>,
    /// Threads; as many as there are cores, if left out.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) story: StoryArgs,
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

#[cfg(feature = "mutants")]
#[derive(Debug, Args)]
pub(crate) struct MutantsArgs {
    /// Seeds within which a mutant must be found.
    #[arg(long, default_value_t = 500)]
    pub(crate) seeds: u64,
    /// Threads; as many as there are cores, if left out.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
}

fn parse_level(text: &str) -> Result<Level, String> {
    let number = text.parse().ok().filter(|number| *number != 0);
    number.and_then(Level::from_number).ok_or_else(|| "give 1, 4, 5 or 6".to_owned())
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parse = |(from, to): (&str, &str)| Some(from.parse().ok()?..to.parse().ok()?);
    let range: Option<Range<u64>> = text.split_once("..").and_then(parse);
    range.filter(|range| !range.is_empty()).ok_or_else(|| "give FROM..TO, such as 0..1000".to_owned())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).map_err(|_| "give a number of seconds".to_owned())
}
