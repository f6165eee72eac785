//! `stripewise bench run`: load on an array, a block device or a file, described in fio's terms. The same
//! generator also loads modelled disks, so both can run the same load.

mod places;
mod text;

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{bail, ensure};
use clap::{Args, builder::TypedValueParser};
use stripewise_wire::{Ended, LoadSpec, Pattern};

use crate::{
    choices::one_of,
    numbers::within,
    rundir::{parse_name, socket_path},
    said::{print_json, say},
    sizes::parse_size,
    times::parse_time,
};

use text::Text;

/// How long a load runs if neither a size nor a time is given.
const RUNTIME_DEFAULT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArgs {
    /// The name of a running array; or a block device or file, with a slash in its path.
    target: String,
    /// What to do, as fio's.
    #[arg(long, value_parser = pattern_parser(), default_value = "randread")]
    rw: Pattern,
    /// Bytes of each request.
    #[arg(long, value_parser = parse_size, default_value = "4K")]
    bs: u64,
    /// Requests that each job keeps under way.
    #[arg(long, default_value_t = 1, value_parser = within(1..=1024_u32))]
    iodepth: u32,
    /// Jobs: clients that each do all that the other options say, at the same time and in the same region.
    #[arg(long, default_value_t = 1, value_parser = within(1..=256_u32))]
    numjobs: u32,
    /// How much each job reads and writes in all, and the region in which it does: so much from the target's
    /// begin. The whole target is the region, if left out.
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// How long to go on, over and over the region (fio's `time_based`), however much that is: seconds, or a
    /// number with ms, s, m, h or d, as 500ms. If neither this nor --size is given, 10 seconds.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    runtime: Option<Duration>,
    /// Of a hundred requests of rw and randrw, how many read.
    #[arg(long, default_value_t = 50, value_parser = within(0..=100_u8))]
    rwmixread: u8,
    /// Where requests go, and what is written, follow from it.
    #[arg(long, default_value_t = 1, value_parser = within(0..=u64::MAX))]
    seed: u64,
    /// Overwrite what is there: whoever asks for writes must say so.
    #[arg(long, short)]
    force: bool,
}

fn pattern_parser() -> impl TypedValueParser<Value = Pattern> {
    one_of(Pattern::ALL, Pattern::name, |pattern| match pattern {
        Pattern::Read => "Reads, one after another",
        Pattern::Write => "Writes, one after another",
        Pattern::RandRead => "Reads anywhere",
        Pattern::RandWrite => "Writes anywhere",
        Pattern::Rw => "Reads and writes, one after another",
        Pattern::RandRw => "Reads and writes anywhere",
    })
}

/// Runs a load and prints its figures.
pub(crate) fn run_load(args: &LoadArgs, json: bool) -> anyhow::Result<ExitCode> {
    let spec = args.spec();
    if spec.writes() && !args.force {
        bail!("{}: what is on it would be overwritten; give --force if that is meant", args.target);
    }
    let target = &args.target;
    let figures = if target.contains('/') {
        places::on_device(target, &spec)?
    } else {
        let name = parse_name(target);
        let is_running = name.as_ref().is_ok_and(|name| socket_path(name).exists());
        ensure!(
            is_running || !Path::new(target).exists(),
            "{target}: no such array is running; for the file of that name, give ./{target}"
        );
        places::on_array(&name.map_err(anyhow::Error::msg)?, &spec)?
    };
    if json {
        print_json(&figures)?;
    } else {
        say!(part: "{}", Text(&figures));
    }
    Ok(if figures.ended == Ended::Complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl LoadArgs {
    fn spec(&self) -> LoadSpec {
        let time = self.runtime.or(self.size.is_none().then_some(RUNTIME_DEFAULT));
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        LoadSpec {
            rw: self.rw,
            block_bytes: self.bs,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            size_bytes: self.size,
            runtime_ms: time.map(milliseconds),
            read_percent: self.rwmixread,
            seed: self.seed,
        }
    }
}
