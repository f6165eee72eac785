//! `stripewise bench engine`: the engine over memory members on one core, beside the bare loop's limit.
//!
//! Both run in turns in the same process and the ratio is the median of the turns, so a noisy machine disturbs both.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use fastrand::Rng;
use serde::Serialize;
use stripewise::{
    Array, ArrayError, CreateOptions, Device, Host, HostOptions, IoBuf, SharedBuf, WriteFlags, ZeroFlags,
    geometry::Level,
    memory::MemoryDevice,
    plan::selection::{DEFAULT_POLICY, Policy},
};

use super::limit::BareArray;
use crate::{policies::policy_parser, sizes::parse_size};

/// What to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct EngineBench {
    /// Members: data and one parity.
    #[arg(long, default_value_t = 5)]
    pub(crate) raid_devices: usize,
    /// Chunk size.
    #[arg(long, default_value = "64K", value_parser = parse_size)]
    pub(crate) chunk: u64,
    /// Size of each memory member; beyond the caches by default.
    #[arg(long, default_value = "256M", value_parser = parse_size)]
    pub(crate) size: u64,
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
}

/// One case's figures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    case: &'static str,
    policy: &'static str,
    bytes_per_operation: usize,
    engine_per_s: f64,
    limit_per_s: f64,
    /// Median over the turns of engine / limit.
    ratio: f64,
}

/// Source data that rotates, so that it is neither all in cache nor the bottleneck: 4 MiB.
const SOURCE_BYTES: usize = 4 << 20;
/// Operations between two looks at the clock.
const BATCH: u64 = 64;

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
}

/// Runs the cases and returns their figures, calling `tell` as each is done.
pub(crate) fn run_engine(
    options: &EngineBench,
    mut tell: impl FnMut(&Figure),
) -> anyhow::Result<Vec<Figure>> {
    pin_to_one_core();
    let host = Host::start(&HostOptions::default())?;
    let members: Vec<Arc<dyn Device>> = (0..options.raid_devices)
        .map(|i| Arc::new(MemoryDevice::new(format!("memory{i}"), options.size)) as Arc<dyn Device>)
        .collect();
    let mut create = CreateOptions::new("bench", Level::Raid5, members);
    create.chunk_bytes = u32::try_from(options.chunk)?;
    create.assume_clean = true;
    let array = host.create(create)?;
    touch_all(&host, &array)?;
    let mut bare = BareArray::new(options.raid_devices, options.size as usize, options.chunk as usize);
    let cases = Case::ALL.into_iter().filter(|case| options.case.is_none_or(|only| only == *case));
    let mut figures = Vec::new();
    for case in cases {
        let measured = measure(case, options, &host, &array, &mut bare)?;
        measured.iter().for_each(&mut tell);
        figures.extend(measured);
    }
    host.block_on(async move { array.stop().await })?;
    Ok(figures)
}

/// A case under each policy: in each turn they all run, one after the other, and then the limit.
fn measure(
    case: Case,
    options: &EngineBench,
    host: &Host,
    array: &Array,
    bare: &mut BareArray,
) -> Result<Vec<Figure>, ArrayError> {
    let stripe_bytes = array.geometry().stripe_bytes() as usize;
    let bytes_per_operation = if case == Case::FullStripe { stripe_bytes } else { 4096 };
    let turn = Duration::from_secs_f64(options.seconds);
    let policies = if options.policy.is_empty() { vec![DEFAULT_POLICY] } else { options.policy.clone() };
    let mut pairs = vec![Vec::new(); policies.len()];
    for seed in 0..=options.turns as u64 {
        let mut engines = Vec::new();
        for policy in &policies {
            choose(host, array, policy)?;
            engines.push(engine_turn(case, turn, host, array, seed));
        }
        let limit = limit_turn(case, turn, bare, stripe_bytes, seed);
        if seed > 0 {
            // The first turn warms all up.
            pairs.iter_mut().zip(engines).for_each(|(pairs, engine)| pairs.push((engine, limit)));
        }
    }
    let figure = |(policy, pairs): (&&'static Policy, Vec<(f64, f64)>)| Figure {
        case: case.name(),
        policy: policy.name,
        bytes_per_operation,
        engine_per_s: median(pairs.iter().map(|p| p.0).collect()),
        limit_per_s: median(pairs.iter().map(|p| p.1).collect()),
        ratio: median(pairs.iter().map(|(e, l)| e / l).collect()),
    };
    Ok(policies.iter().zip(pairs).map(figure).collect())
}

fn choose(host: &Host, array: &Array, policy: &'static Policy) -> Result<(), ArrayError> {
    let array = array.clone();
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Operations a second of the engine in one turn.
fn engine_turn(case: Case, turn: Duration, host: &Host, array: &Array, seed: u64) -> f64 {
    let array = array.clone();
    host.block_on(async move {
        let mut rng = Rng::with_seed(seed);
        let source = source();
        let (stripe_bytes, capacity) = (array.geometry().stripe_bytes(), array.geometry().capacity_bytes());
        let (mut done, mut block, start) = (0, IoBuf::with_len(4096), Instant::now());
        while start.elapsed() < turn {
            for _ in 0..BATCH {
                let at = rng.u64(..capacity / 4096) * 4096;
                match case {
                    Case::FullStripe => {
                        let at = done % (capacity / stripe_bytes) * stripe_bytes;
                        let data = slice(&source, done, stripe_bytes as usize);
                        array
                            .write(at, data, WriteFlags::default())
                            .await
                            .expect("memory members do not fail");
                    }
                    Case::RandomWrite => {
                        let data = slice(&source, done, 4096);
                        array
                            .write(at, data, WriteFlags::default())
                            .await
                            .expect("memory members do not fail");
                    }
                    Case::RandomRead => {
                        block = array.read(at, block).await.expect("memory members do not fail");
                    }
                }
                done += 1;
            }
        }
        done as f64 / start.elapsed().as_secs_f64()
    })
}

/// Operations a second of the bare loop in one turn.
fn limit_turn(case: Case, turn: Duration, bare: &mut BareArray, stripe_bytes: usize, seed: u64) -> f64 {
    let mut rng = Rng::with_seed(seed);
    let source = source();
    let (mut done, mut block, start) = (0, vec![0; 4096], Instant::now());
    while start.elapsed() < turn {
        for _ in 0..BATCH {
            match case {
                Case::FullStripe => bare.full_stripe(done as usize, &slice(&source, done, stripe_bytes)),
                Case::RandomWrite => bare.small_write(&mut rng, &slice(&source, done, 4096)),
                Case::RandomRead => bare.small_read(&mut rng, &mut block),
            }
            done += 1;
        }
    }
    std::hint::black_box(&block);
    done as f64 / start.elapsed().as_secs_f64()
}

fn source() -> SharedBuf {
    let mut source = IoBuf::with_len(SOURCE_BYTES);
    Rng::with_seed(1).fill(&mut source);
    source.freeze()
}

fn slice(source: &SharedBuf, index: u64, len: usize) -> SharedBuf {
    let at = index as usize % (SOURCE_BYTES / len) * len;
    source.slice(at..at + len)
}

/// One core for everything this process does from here on; threads started later inherit it.
fn pin_to_one_core() {
    let mut set = rustix::thread::CpuSet::new();
    if let Ok(allowed) = rustix::thread::sched_getaffinity(None)
        && let Some(core) = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|core| allowed.is_set(*core))
    {
        set.set(core);
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gb = |per_s: f64| per_s * self.bytes_per_operation as f64 / 1e9;
        write!(
            f,
            "{:<13} {:<9} {:>7} B  engine {:>9.0}/s {:>6.2} GB/s   limit {:>9.0}/s {:>6.2} GB/s   ratio {:.2}",
            self.case,
            self.policy,
            self.bytes_per_operation,
            self.engine_per_s,
            gb(self.engine_per_s),
            self.limit_per_s,
            gb(self.limit_per_s),
            self.ratio
        )
    }
}
