//! The command line of `stripewise bench engine`. The laboratory does the work
//! ([`stripewise_lab::engine_bench`]).

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Args;
use stripewise::{
    CacheKind,
    geometry::{Level, MEMBERS_MAX},
    internals::plan::selection::{DEFAULT_POLICY, Policy},
};
use stripewise_lab::{
    engine_bench::{self, BitmapMode, Case, Figure, LockSetting, MemberKind, Options, cache_name, page},
    machine::Machine,
    runner::shell_line,
};

use crate::{
    choices::one_of,
    numbers::{THREADS_MAX, within},
    policies::policy_parser,
    said::note,
    sizes::parse_size,
    times::parse_time,
    words::parse_level,
};

/// More would not make a median better.
const TURNS_MAX: usize = 1000;
/// No client puts a larger load on one thread.
const QUEUE_MAX: usize = 1024;
/// From the size of the smallest write. Each thread holds this much, beside the members.
const SOURCE_BYTES: RangeInclusive<u64> = 4 << 10..=256 << 20;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct EngineBench {
    /// Level: 4, 5 or 6.
    #[arg(long, default_value = "5", value_parser = parse_level)]
    pub(crate) level: i32,
    /// Members: data and parity; several shapes, as 3,5,7, run one after the other.
    #[arg(long, value_delimiter = ',', default_value = "5", value_parser = within(2..=MEMBERS_MAX))]
    pub(crate) raid_devices: Vec<usize>,
    /// Chunk size.
    #[arg(long, default_value = "64K", value_parser = parse_size)]
    pub(crate) chunk: u64,
    /// Size of each member; beyond the caches by default.
    #[arg(long, default_value = "256M", value_parser = parse_size)]
    pub(crate) size: u64,
    /// What members are.
    #[arg(long, default_value = "memory", value_parser = one_of(&MemberKind::ALL, MemberKind::name, MemberKind::about))]
    pub(crate) members: MemberKind,
    /// Worker threads, each with clients of its own and a core of its own while there are as many; several
    /// counts run one after the other.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = within(1..=THREADS_MAX))]
    pub(crate) threads: Vec<usize>,
    /// Operations under way for each thread. With more than one, the time of an operation counts from when it
    /// was asked for, so that it waits for those before it on its thread.
    #[arg(long, default_value_t = 1, value_parser = within(1..=QUEUE_MAX))]
    pub(crate) queue: usize,
    /// Data that each thread's writes are taken from, one part after the other; raised to the largest write.
    /// By default neither all in cache nor the bottleneck.
    #[arg(long, default_value = "4M", value_parser = parse_source)]
    pub(crate) source: u64,
    /// How long each turn is: seconds, or a number with ms, s, m, h or d.
    #[arg(long, default_value = "0.5", value_parser = parse_time)]
    pub(crate) seconds: Duration,
    /// Turns of engine and limit each.
    #[arg(long, default_value_t = 7, value_parser = within(1..=TURNS_MAX))]
    pub(crate) turns: usize,
    /// This case, and those given besides; full-stripe, random-write and random-read, if left out.
    #[arg(long, value_parser = one_of(&Case::ALL, Case::name, Case::about))]
    pub(crate) case: Vec<Case>,
    /// Whether writes are noted in the bitmap; `internal`, if left out. Given again, both take turns, on
    /// arrays of their own.
    #[arg(long, value_parser = one_of(&BitmapMode::ALL, BitmapMode::name, BitmapMode::about))]
    pub(crate) bitmap: Vec<BitmapMode>,
    /// How partly written rows are written; `classic`, if left out. Given again, the policies take turns.
    #[arg(long, value_parser = policy_parser())]
    pub(crate) policy: Vec<&'static Policy>,
    /// Which requests wait for which: a preset (default, orig, hemi, scala), and behind it what differs:
    /// `+stripes=COUNT` or `+stripes=buckets`, `+counters=global`, `per-counter` or `atomic`, `+map=linear`
    /// or `distributed`, as in `orig+counters=atomic`; `default`, if left out. Without a bitmap there are no
    /// counters. Given again, they take turns, on arrays of their own.
    #[arg(long, value_name = "PRESET[+WHAT=HOW]...")]
    pub(crate) locking: Vec<LockSetting>,
    /// The cache of writes; `none`, if left out, and for cases of hits `none` and `stripe`. Given again, they take
    /// turns, on arrays of their own.
    #[arg(long, value_parser = one_of(&CACHES, cache_name, cache_about))]
    pub(crate) cache: Vec<CacheKind>,
    /// Memory of a cache; a twentieth of the array by default. Hits are in half of that.
    #[arg(long, value_parser = parse_size)]
    pub(crate) cache_size: Option<u64>,
    /// Random operations are in so much at the start of the array; in all of it, if left out.
    #[arg(long, value_parser = parse_size)]
    pub(crate) span: Option<u64>,
    /// Flush after so many writes of each thread.
    #[arg(long, value_name = "WRITES", value_parser = within(1..=u64::MAX))]
    pub(crate) flush_every: Option<u64>,
    /// Bytes of each member that one bit of the bitmap stands for, as `create` takes it.
    #[arg(long, value_parser = parse_size)]
    pub(crate) bitmap_chunk: Option<u64>,
    /// Take the time of each operation, too, and tell percentiles; costs some nanoseconds each.
    #[arg(long)]
    pub(crate) latency: bool,
    /// Look at what the workers are at, and tell the share of each part of the time of clients' operations:
    /// locks, parity, copies, asking members, all else. Jobs have none. Takes some percent of the workers'
    /// time.
    #[arg(long)]
    pub(crate) parts: bool,
    /// Write a report into this folder, a new or an empty one or that of an earlier report: report.html,
    /// which needs nothing else, with plots, and CSV files.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}

fn parse_source(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    let fits = SOURCE_BYTES.contains(&bytes);
    fits.then_some(bytes).ok_or_else(|| format!("'{text}': give a size from 4K to 256M"))
}

impl EngineBench {
    /// What is measured if no cache is given.
    fn usual_caches(&self) -> &'static [CacheKind] {
        let is_of_hits = |case: &Case| matches!(case, Case::WriteHit | Case::ReadHit);
        if self.case.iter().any(is_of_hits) {
            &[CacheKind::None, CacheKind::Stripe]
        } else {
            &[CacheKind::None]
        }
    }

    fn options(&self) -> anyhow::Result<Options> {
        let level = Level::from_number(self.level).filter(|level| level.has_parity());
        Ok(Options {
            level: level.with_context(|| format!("--level {}: give 4, 5 or 6", self.level))?,
            raid_devices: self.raid_devices.clone(),
            chunk_bytes: u32::try_from(self.chunk)?,
            member_bytes: self.size,
            members: self.members,
            threads: self.threads.clone(),
            queue: self.queue,
            source_bytes: self.source,
            turn: self.seconds,
            turns: self.turns,
            cases: or_default(&self.case, &Case::USUAL),
            bitmaps: or_default(&self.bitmap, &[BitmapMode::Internal]),
            policies: or_default(&self.policy, &[DEFAULT_POLICY]),
            locks: or_default(&self.locking, &[LockSetting::default()]),
            caches: or_default(&self.cache, self.usual_caches()),
            cache_bytes: self.cache_size,
            span_bytes: self.span,
            flush_every: self.flush_every,
            region_bytes: self.bitmap_chunk,
            limit: true,
            latency: self.latency,
            parts: self.parts,
        })
    }
}

/// What `--cache` takes.
const CACHES: [CacheKind; 5] = CacheKind::ALL;

fn cache_about(kind: CacheKind) -> &'static str {
    match kind {
        CacheKind::None => "None: a write is done when members have it",
        CacheKind::Pbg => "By rows, as md's stripe cache",
        CacheKind::Stripe => "By stripes",
        CacheKind::StripeCt => "By stripes, and short gaps are filled",
        CacheKind::Auto => "The same, and past a full cache while members have less to do so",
    }
}

fn or_default<T: Clone>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

/// Runs the cases and returns their figures, calling `tell` as each is done. Writes a report if a folder for
/// it was given.
pub(crate) fn run_engine(bench: &EngineBench, tell: impl FnMut(&Figure)) -> anyhow::Result<Vec<Figure>> {
    let options = bench.options()?;
    if let Some(folder) = &bench.out {
        // Fails now rather than after everything was measured.
        page::take(folder)?;
    }
    let figures = engine_bench::run(&options, tell)?;
    if let Some(folder) = &bench.out {
        let command = shell_line(std::env::args_os().skip(1));
        let (command, machine) = (format!("stripewise {command}"), Machine::here());
        let page = page::Page { command: &command, machine: &machine, options: &options, figures: &figures };
        page.write_to(folder)?;
        note!("{}", folder.join("report.html").display());
    }
    Ok(figures)
}
