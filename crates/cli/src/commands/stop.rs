//! `stripewise stop`.

use std::process::ExitCode;

use clap::Args;

use super::tell;
use crate::{
    client,
    rundir::{self, parse_name},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct StopArgs {
    /// The array.
    #[arg(value_parser = parse_name, required_unless_present = "all")]
    name: Option<String>,
    /// Every running array.
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Also if its block device or file system is in use, or the array has failed: what is not written out is lost.
    ///
    /// File systems that are mounted from a running array stay mounted and fail every request; what is to be
    /// unmounted is named. Of an array whose daemon was killed, they are unmounted. A RAFS that the array's daemon serves
    /// is detached, and what is buffered is written out for 30 s at most.
    #[arg(long, short)]
    force: bool,
}

pub(crate) fn stop(args: &StopArgs, json: bool) -> anyhow::Result<ExitCode> {
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => rundir::names_to_stop()?,
    };
    client::stop_all(&names, args.force, |name| tell(name, json, "stopped"))
}
