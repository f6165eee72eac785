//! `stripewise cache`: the write-back cache of an array.

use std::{process::ExitCode, time::Duration};

use anyhow::bail;
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};
use stripewise::{
    CacheAlloc, CacheError, CacheKind, CachePast, ReadCache,
    internals::{
        destage::{WHAT, WHEN},
        plan::passes::GapRule,
    },
};
use stripewise_wire::{CacheChange, CacheStatus, Request};

use super::{done_when_emptied, done_when_measured, tell};
use crate::{
    client,
    numbers::within,
    output,
    rundir::parse_name,
    said::{print_json, say},
    sizes::{format_size, parse_size},
    times::parse_time_or_off,
};

/// The longest stride in a chunk: one of 1 MiB has 256 blocks.
const STRIDE_GIVEN_MAX: u16 = 256;

#[derive(Debug, Clone, Args)]
pub(crate) struct CacheArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Which cache; printed with all settings, if nothing is given.
    #[arg(value_parser = kind_parser())]
    kind: Option<String>,
    /// Memory that it may take: 512M, if left out, and at most a quarter of the memory of the machine or its control group.
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// When room is made; `lt`, if never given.
    #[arg(long, value_parser = when_parser())]
    when: Option<String>,
    /// What is destaged first; `gain`, if never given.
    #[arg(long, value_parser = what_parser())]
    what: Option<String>,
    /// The share of what may be dirty, in percent, below which no room is made; 85, if never given.
    #[arg(long, value_name = "PERCENT", value_parser = within(1..=99_u8))]
    low: Option<u8>,
    /// The share from which on members destage as fast as they can; 95, if never given.
    #[arg(long, value_name = "PERCENT", value_parser = within(1..=100_u8))]
    high: Option<u8>,
    /// The longest that a write stays off the members, under load too; or `off`. 30s, if never given.
    #[arg(long, value_name = "TIME", value_parser = parse_time_or_off)]
    age: Option<Duration>,
    /// After so long without requests everything is destaged; or `off`. 1s, if never given.
    #[arg(long, value_name = "TIME", value_parser = parse_time_or_off)]
    idle: Option<Duration>,
    /// Limits what is dirty to what members write in this time, once that was measured; or `off`. 10s, if never given.
    #[arg(long, value_name = "TIME", value_parser = parse_time_or_off)]
    flush: Option<Duration>,
    /// What is kept for readers; `ahead`, if never given.
    #[arg(long, value_parser = read_parser())]
    read: Option<String>,
    /// What memory is taken for. Stripes that are in the cache already keep what they have.
    #[arg(long, value_parser = alloc_parser())]
    alloc: Option<String>,
    /// Which writes of parts of stripes go past it while it is full, or flushed all the time.
    #[arg(long, value_parser = past_parser())]
    past: Option<String>,
    /// By which rule `stripe+ct` and `auto` fill gaps where no limit is given.
    #[arg(long, value_parser = gaps_parser())]
    gaps: Option<String>,
    /// On all members, the smallest stride between reads, in blocks, whose gap `stripe+ct` does not fill; or `measured`.
    #[arg(long, value_name = "BLOCKS", value_parser = parse_s_max)]
    s_max_read: Option<u16>,
    /// The same between writes.
    #[arg(long, value_name = "BLOCKS", value_parser = parse_s_max)]
    s_max_write: Option<u16>,
    /// Measure on all members which gaps `stripe+ct` and `auto` should fill, while clients work; about 15 s. Some hundred
    /// MiB of each member are read, and written as they were. `detail` shows what was found.
    #[arg(long)]
    measure: bool,
}

/// Parses a bound on strides; 0: as measured.
fn parse_s_max(text: &str) -> Result<u16, String> {
    match text.parse() {
        _ if text == "measured" => Ok(0),
        Ok(blocks @ 1..=STRIDE_GIVEN_MAX) => Ok(blocks),
        _ => Err(format!(
            "give a whole number from 1 (nothing is filled) to {STRIDE_GIVEN_MAX}, or `measured`"
        )),
    }
}

/// Parses the name of a cache.
pub(crate) fn kind_parser() -> PossibleValuesParser {
    let help = |kind: CacheKind| match kind {
        CacheKind::None => "a write is acknowledged when members have it",
        CacheKind::Pbg => "rows are cached and destaged one by one, as md does",
        CacheKind::Stripe => "what is dirty in a stripe is destaged together",
        CacheKind::StripeCt => {
            "the same, and short gaps between dirty blocks are filled where members are faster so"
        }
        CacheKind::Auto => {
            "the same, and writes go past a full cache while members have less to do so, as measured"
        }
    };
    PossibleValuesParser::new(CacheKind::ALL.map(|kind| PossibleValue::new(kind.name()).help(help(kind))))
}

fn when_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(WHEN.iter().map(|policy| PossibleValue::new(policy.name).help(policy.summary)))
}

fn what_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(WHAT.iter().map(|policy| PossibleValue::new(policy.name).help(policy.summary)))
}

fn read_parser() -> PossibleValuesParser {
    let help = |read: ReadCache| match read {
        ReadCache::Ahead => {
            "what was written, and the next stripe of sequential reads while that is measured to be faster"
        }
        ReadCache::Written => "what was written, in the memory that dirty blocks leave",
        ReadCache::Nothing => "nothing",
    };
    PossibleValuesParser::new(ReadCache::ALL.map(|read| PossibleValue::new(read.name()).help(help(read))))
}

/// Parses which writes go past the cache.
fn past_parser() -> PossibleValuesParser {
    let help = |past: CachePast| match past {
        CachePast::Measured => "those for which that is better, as is measured",
        CachePast::Never => "none, as in msc-ct's driver",
    };
    PossibleValuesParser::new(CachePast::ALL.map(|past| PossibleValue::new(past.name()).help(help(past))))
}

/// Parses by which rule gaps are filled.
fn gaps_parser() -> PossibleValuesParser {
    let help = |rule: GapRule| match rule {
        GapRule::Weighed => "those by which members gain time, as the measured curve has it",
        GapRule::Thresholds => "those of strides below S_max, as msc-ct does",
    };
    PossibleValuesParser::new(GapRule::ALL.map(|rule| PossibleValue::new(rule.name()).help(help(rule))))
}

/// Parses what memory is taken for.
pub(crate) fn alloc_parser() -> PossibleValuesParser {
    let help = |alloc: CacheAlloc| match alloc {
        CacheAlloc::Block => "the blocks that are cached",
        CacheAlloc::Stripe => "all blocks of a stripe as soon as one is cached, as msc-ct's driver did",
    };
    PossibleValuesParser::new(CacheAlloc::ALL.map(|alloc| PossibleValue::new(alloc.name()).help(help(alloc))))
}

/// A time in the words of the control socket: whole milliseconds, rounded up, since 0 is without limit.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

pub(crate) fn cache(args: &CacheArgs, json: bool) -> anyhow::Result<ExitCode> {
    let change = CacheChange {
        kind: args.kind.clone(),
        size_bytes: args.size,
        when: args.when.clone(),
        what: args.what.clone(),
        low_percent: args.low,
        high_percent: args.high,
        age_ms: args.age.map(ms),
        idle_ms: args.idle.map(ms),
        flush_ms: args.flush.map(ms),
        read: args.read.clone(),
        alloc: args.alloc.clone(),
        past: args.past.clone(),
        gaps: args.gaps.clone(),
        s_max_read: args.s_max_read,
        s_max_write: args.s_max_write,
    };
    let name = &args.name;
    if args.measure {
        let otherwise = "its members are measured all the same";
        done_when_measured(name, &Request::Measure, &Request::Measured, otherwise)?;
        tell(name, json, "the strides of its members were measured");
    }
    if change != CacheChange::default() {
        done_when_emptied(
            name,
            &Request::Cache { change },
            "what is cached is written all the same, and then the cache changes",
        )?;
        let cache = known(name)?;
        tell(name, json, &text(&cache));
        return Ok(ExitCode::SUCCESS);
    }
    let cache = known(name)?;
    if json {
        print_json(&cache)?;
    } else {
        say!("{name}: {}", text(&cache));
    }
    Ok(ExitCode::SUCCESS)
}

fn text(cache: &CacheStatus) -> String {
    let settings = output::cache_settings(cache);
    match cache.kind.as_str() {
        "none" => {
            let size = format_size(cache.chosen_bytes);
            format!("no cache; of one that is switched on: size {size}, {settings}")
        }
        kind => format!("cache {kind} of {}: {settings}", format_size(cache.size_bytes)),
    }
}

fn known(name: &str) -> anyhow::Result<CacheStatus> {
    let status = client::status(name)?;
    let level = status.level;
    match status.cache {
        Some(cache) => Ok(cache),
        None => bail!("{name}: {}", CacheError::Level(level)),
    }
}
