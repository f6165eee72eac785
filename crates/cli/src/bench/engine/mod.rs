//! `stripewise bench engine`: the engine over members in memory, beside the bare loop's limit.
//!
//! Everything that is compared runs in turns in the same process, and a ratio is the median of the turns, so a noisy
//! machine disturbs all alike.

mod arrays;
mod case;
mod figure;
mod jobs;
mod limit;
mod parts;
mod turn;

use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use stripewise::{
    Host, HostOptions,
    geometry::{Level, MEMBERS_MAX},
    locking::Preset,
    plan::selection::Policy,
    uring::RuntimeOptions,
};

pub(crate) use self::figure::Figure;
use self::{
    arrays::{BitmapMode, Variant, choose, degrade, variants},
    case::{Case, Work},
    figure::Turns,
    jobs::job_turn,
    limit::Limit,
    turn::{Done, Turn, engine_turn},
};
use crate::{
    args::{THREADS_MAX, parse_level},
    numbers::within,
    policies::{policy_parser, preset_parser},
    sizes::parse_size,
    times::parse_time,
};

/// More would not make a median better.
const TURNS_MAX: usize = 1000;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct EngineBench {
    /// Level: 4, 5 or 6.
    #[arg(long, default_value = "5", value_parser = parse_level)]
    pub(crate) level: i32,
    /// Members: data and parity.
    #[arg(long, default_value_t = 5, value_parser = within(2..=MEMBERS_MAX))]
    pub(crate) raid_devices: usize,
    /// Chunk size.
    #[arg(long, default_value = "64K", value_parser = parse_size)]
    pub(crate) chunk: u64,
    /// Size of each member; beyond the caches by default.
    #[arg(long, default_value = "256M", value_parser = parse_size)]
    pub(crate) size: u64,
    /// What members are.
    #[arg(long, value_enum, default_value_t = MemberKind::Memory)]
    pub(crate) members: MemberKind,
    /// Worker threads, each with a client of its own and a core of its own while there are as many; several counts run
    /// one after the other.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = within(1..=THREADS_MAX))]
    pub(crate) threads: Vec<usize>,
    /// How long each turn is: seconds, or a number with ms, s, m or h.
    #[arg(long, default_value = "0.5", value_parser = parse_time)]
    pub(crate) seconds: Duration,
    /// Turns of engine and limit each.
    #[arg(long, default_value_t = 7, value_parser = within(1..=TURNS_MAX))]
    pub(crate) turns: usize,
    /// This case, and those given besides; full-stripe, random-write and random-read, if left out.
    #[arg(long, value_enum)]
    pub(crate) case: Vec<Case>,
    /// Whether writes are noted in the bitmap; `internal`, if left out. Given again, both take turns, on arrays of their
    /// own.
    #[arg(long, value_enum)]
    pub(crate) bitmap: Vec<BitmapMode>,
    /// How partly written rows are written; `classic`, if left out. Given again, the policies take turns.
    #[arg(long, value_parser = policy_parser())]
    pub(crate) policy: Vec<&'static Policy>,
    /// Who waits for whom; `default`, if left out. Given again, the presets take turns, on arrays of their own.
    #[arg(long, value_parser = preset_parser())]
    pub(crate) locking: Vec<&'static Preset>,
    /// Take the time of each operation, too, and tell percentiles; costs some nanoseconds each.
    #[arg(long)]
    pub(crate) latency: bool,
    /// Look at what the workers are at, and tell the share of each part of the time of clients' operations: locks, parity,
    /// copies, asking members, all else. Jobs have none. Takes some percent of the workers' time.
    #[arg(long)]
    pub(crate) parts: bool,
}

/// What members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemberKind {
    /// Memory that holds data.
    Memory,
    /// Nothing: writes are forgotten and reads move no data. What is left is the engine itself; there is no limit to it.
    Null,
}

impl EngineBench {
    fn level(&self) -> anyhow::Result<Level> {
        let level = Level::from_number(self.level).filter(|level| level.has_parity());
        level.with_context(|| format!("--level {}: give 4, 5 or 6", self.level))
    }

    /// In an order in which those that lose a member come last.
    fn cases(&self) -> impl Iterator<Item = Case> {
        let given = if self.case.is_empty() { &Case::USUAL } else { &self.case[..] };
        Case::ALL.into_iter().filter(|case| given.contains(case))
    }
}

/// Runs the cases and returns their figures, calling `tell` as each is done.
pub(crate) fn run_engine(
    options: &EngineBench,
    mut tell: impl FnMut(&Figure),
) -> anyhow::Result<Vec<Figure>> {
    let mut figures: Vec<Figure> = Vec::new();
    let all_cores = rustix::thread::sched_getaffinity(None).ok();
    for threads in options.threads.iter().copied() {
        all_cores.as_ref().inspect(|cores| pin_to(cores, threads));
        let runtime = RuntimeOptions { threads, ..RuntimeOptions::default() };
        let host = Host::start(&HostOptions { runtime })?;
        let variants = variants(options, &host)?;
        let geometry = variants[0].array.geometry();
        let mut limit = (options.members == MemberKind::Memory)
            .then(|| Limit::new(threads, geometry, options.size as usize));
        for case in options.cases() {
            for figure in measure(case, options, &host, &variants, limit.as_mut())? {
                tell(&figure);
                figures.push(figure);
            }
        }
        for variant in variants {
            let array = variant.array;
            // Variants of one preset share their array; who comes later finds it stopped.
            let _ = host.block_on(async move { array.stop().await });
        }
    }
    Ok(figures)
}

/// A case: in each turn all variants run, one after the other, and then the limit.
fn measure(
    case: Case,
    options: &EngineBench,
    host: &Host,
    variants: &[Variant],
    mut limit: Option<&mut Limit>,
) -> anyhow::Result<Vec<Figure>> {
    let mut turns: Vec<Turns> = variants.iter().map(|_| Turns::default()).collect();
    let (length, latency, parts) = (options.seconds, options.latency, options.parts);
    for seed in 0..=options.turns as u64 {
        let work = case.work(variants[0].array.geometry());
        let turn = Turn { work, is_degraded: case.is_degraded(), length, seed, latency, parts };
        let done: Vec<_> = variants
            .iter()
            .map(|variant| one_turn(&turn, options, host, variant))
            .collect::<Result<_, _>>()?;
        let bare = limit.as_mut().and_then(|limit| limit.turn(&turn));
        if seed > 0 {
            // The first turn warms all up.
            turns.iter_mut().zip(done).for_each(|(turns, done)| turns.add(done, bare));
        }
    }
    let figure = |(variant, turns): (&Variant, Turns)| turns.figure(case, variant, host.runtime().workers());
    Ok(variants.iter().zip(turns).map(figure).collect())
}

fn one_turn(turn: &Turn, options: &EngineBench, host: &Host, variant: &Variant) -> anyhow::Result<Done> {
    let array = &variant.array;
    choose(host, variant)?;
    if turn.is_degraded {
        degrade(host, array)?;
    }
    match turn.work {
        Work::Check | Work::Rebuild => Ok(job_turn(turn.work, options, host, array, turn.seed)?),
        Work::Read { .. } | Work::Write { .. } => Ok(engine_turn(turn, host, array)),
    }
}

/// As many of the cores as there are threads, the last ones, for everything this thread does and starts from here on.
fn pin_to(cores: &rustix::thread::CpuSet, threads: usize) {
    let mut set = rustix::thread::CpuSet::new();
    let allowed = (0..rustix::thread::CpuSet::MAX_CPU).rev().filter(|core| cores.is_set(*core));
    allowed.take(threads).for_each(|core| set.set(core));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
