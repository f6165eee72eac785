//! `stripewise bench engine`: the engine over members in memory, beside the bare loop's limit.
//!
//! Everything that is compared runs in turns in the same process, and a ratio is the median of the turns, so a noisy
//! machine disturbs all alike.

mod figure;
mod limit;
mod turn;

use std::{sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use stripewise::{
    Array, ArrayError, CreateOptions, Device, Host, HostOptions, ZeroFlags,
    geometry::Level,
    locking::{PRESETS, Preset},
    memory::{MemoryDevice, NullDevice},
    plan::selection::{DEFAULT_POLICY, Policy},
    uring::RuntimeOptions,
};

use self::{
    figure::Turns,
    limit::Limit,
    turn::{Turn, engine_turn},
};
use crate::{
    policies::{policy_parser, preset_parser},
    sizes::parse_size,
};

pub(crate) use self::figure::Figure;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct EngineBench {
    /// Members: data and one parity.
    #[arg(long, default_value_t = 5)]
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
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub(crate) threads: Vec<usize>,
    /// Seconds of each turn.
    #[arg(long, default_value_t = 0.5)]
    pub(crate) seconds: f64,
    /// Turns of engine and limit each.
    #[arg(long, default_value_t = 7)]
    pub(crate) turns: usize,
    /// Only this case.
    #[arg(long, value_enum)]
    pub(crate) case: Option<Case>,
    /// How partly written rows are written; `classic`, if left out. Given again, the policies take turns.
    #[arg(long, value_parser = policy_parser())]
    pub(crate) policy: Vec<&'static Policy>,
    /// Who waits for whom; `default`, if left out. Given again, the presets take turns, on arrays of their own.
    #[arg(long, value_parser = preset_parser())]
    pub(crate) locking: Vec<&'static Preset>,
    /// Take the time of each operation, too, and tell percentiles; costs some nanoseconds each.
    #[arg(long)]
    pub(crate) latency: bool,
}

/// What members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemberKind {
    /// Memory that holds data.
    Memory,
    /// Nothing: writes are forgotten and reads move no data. What is left is the engine itself; there is no limit to it.
    Null,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// Sequential writes of whole stripes.
    FullStripe,
    /// Random writes of 4 KiB.
    RandomWrite,
    /// Random reads of 4 KiB.
    RandomRead,
}

impl Case {
    const ALL: [Self; 3] = [Self::FullStripe, Self::RandomWrite, Self::RandomRead];

    fn name(self) -> &'static str {
        match self {
            Self::FullStripe => "full-stripe",
            Self::RandomWrite => "random-write",
            Self::RandomRead => "random-read",
        }
    }

    fn operation_bytes(self, stripe_bytes: u64) -> usize {
        match self {
            Self::FullStripe => stripe_bytes as usize,
            Self::RandomWrite | Self::RandomRead => BLOCK_BYTES,
        }
    }
}

/// A small operation.
const BLOCK_BYTES: usize = 4096;

/// More than metadata takes of a null member.
const METADATA_BYTES: u64 = 8 << 20;

/// What is compared: an array with its locks, and a policy on it.
struct Variant {
    preset: &'static Preset,
    policy: &'static Policy,
    array: Array,
}

/// Runs the cases and returns their figures, calling `tell` as each is done.
pub(crate) fn run_engine(
    options: &EngineBench,
    mut tell: impl FnMut(&Figure),
) -> anyhow::Result<Vec<Figure>> {
    let mut figures: Vec<Figure> = Vec::new();
    let all_cores = rustix::thread::sched_getaffinity(None).ok();
    for threads in options.threads.iter().copied() {
        anyhow::ensure!(threads > 0, "--threads 0: give one at least");
        all_cores.as_ref().inspect(|cores| pin_to(cores, threads));
        let runtime = RuntimeOptions { threads, ..RuntimeOptions::default() };
        let host = Host::start(&HostOptions { runtime })?;
        let variants = variants(options, &host)?;
        let mut limit = (options.members == MemberKind::Memory).then(|| {
            Limit::new(threads, options.raid_devices, options.size as usize, options.chunk as usize)
        });
        for case in Case::ALL.into_iter().filter(|case| options.case.is_none_or(|only| only == *case)) {
            for figure in measure(case, options, &host, &variants, limit.as_mut(), threads)? {
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

fn variants(options: &EngineBench, host: &Host) -> anyhow::Result<Vec<Variant>> {
    let policies = if options.policy.is_empty() { vec![DEFAULT_POLICY] } else { options.policy.clone() };
    let presets = if options.locking.is_empty() { vec![&PRESETS[0]] } else { options.locking.clone() };
    let mut variants = Vec::new();
    for preset in presets {
        let mut create = CreateOptions::new("bench", Level::Raid5, members(options));
        create.chunk_bytes = u32::try_from(options.chunk)?;
        create.assume_clean = true;
        create.preset = preset;
        let array = host.create(create)?;
        touch_all(host, &array)?;
        variants.extend(policies.iter().map(|policy| Variant { preset, policy, array: array.clone() }));
    }
    Ok(variants)
}

fn members(options: &EngineBench) -> Vec<Arc<dyn Device>> {
    let member = |i| -> Arc<dyn Device> {
        match options.members {
            MemberKind::Memory => Arc::new(MemoryDevice::new(format!("memory{i}"), options.size)),
            MemberKind::Null => Arc::new(NullDevice::new(format!("null{i}"), options.size, METADATA_BYTES)),
        }
    };
    (0..options.raid_devices).map(member).collect()
}

/// A case: in each turn all variants run, one after the other, and then the limit.
fn measure(
    case: Case,
    options: &EngineBench,
    host: &Host,
    variants: &[Variant],
    mut limit: Option<&mut Limit>,
    threads: usize,
) -> Result<Vec<Figure>, ArrayError> {
    let mut turns: Vec<Turns> = variants.iter().map(|_| Turns::default()).collect();
    for seed in 0..=options.turns as u64 {
        let turn =
            Turn { case, length: Duration::from_secs_f64(options.seconds), seed, latency: options.latency };
        let mut done = Vec::new();
        for variant in variants {
            choose(host, variant)?;
            done.push(engine_turn(&turn, host, &variant.array));
        }
        let bare = limit.as_mut().map(|limit| limit.turn(&turn));
        if seed > 0 {
            // The first turn warms all up.
            turns.iter_mut().zip(done).for_each(|(turns, done)| turns.add(done, bare));
        }
    }
    let figure = |(variant, turns): (&Variant, Turns)| turns.figure(case, options, variant, threads);
    Ok(variants.iter().zip(turns).map(figure).collect())
}

fn choose(host: &Host, variant: &Variant) -> Result<(), ArrayError> {
    let (array, policy) = (variant.array.clone(), variant.policy);
    host.block_on(async move { array.set_policy(policy).await })
}

/// Writes everything once, so that no page fault of the memory members falls into the measurement.
fn touch_all(host: &Host, array: &Array) -> Result<(), ArrayError> {
    let array = array.clone();
    host.block_on(async move {
        let capacity = array.geometry().capacity_bytes();
        array.write_zeroes(0, capacity, ZeroFlags::default()).await
    })
}

/// As many of the cores as there are threads, the last ones, for everything this thread does and starts from here on.
fn pin_to(cores: &rustix::thread::CpuSet, threads: usize) {
    let mut set = rustix::thread::CpuSet::new();
    let allowed = (0..rustix::thread::CpuSet::MAX_CPU).rev().filter(|core| cores.is_set(*core));
    allowed.take(threads).for_each(|core| set.set(core));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
