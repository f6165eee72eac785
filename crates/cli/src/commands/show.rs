//! `stripewise status` and `stripewise detail`.

use std::process::ExitCode;

use super::print_json;
use crate::{
    args::{DetailArgs, StatusArgs},
    client, errors, output, rundir,
};

pub(super) fn status(args: &StatusArgs, json: bool) -> anyhow::Result<ExitCode> {
    let all = args.names.is_empty();
    let names = if all { rundir::array_names()? } else { args.names.clone() };
    let mut found = Vec::new();
    let mut failed = false;
    for name in names {
        match client::status(&name) {
            Ok(status) => found.push(status),
            Err(error) => {
                eprintln!("stripewise: {}", errors::printable_line(&error));
                // One that was listed and has been stopped since is no failure; one that cannot be asked is.
                failed |= !all || !error.is::<client::NotRunning>();
            }
        }
    }
    if json {
        print_json(&found)?;
    } else {
        if found.is_empty() && !failed {
            eprintln!("no array is running");
        }
        found.iter().for_each(|status| println!("{}", output::mdstat(status)));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// `detail --test`: the array cannot be asked.
const CANNOT_TELL: u8 = 4;
/// `detail --test`: more members are lost than the level tolerates.
const UNUSABLE: u8 = 2;
/// `detail --test`: degraded.
const DEGRADED: u8 = 1;

pub(super) fn detail(args: &DetailArgs, json: bool) -> anyhow::Result<ExitCode> {
    let status = match client::status(&args.name) {
        Ok(status) => status,
        Err(error) if args.test => {
            eprintln!("stripewise: {}", errors::printable_line(&error));
            return Ok(CANNOT_TELL.into());
        }
        Err(error) => return Err(error),
    };
    if json {
        print_json(&status)?
    } else {
        print!("{}", output::detail(&status))
    }
    if !args.test {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(match (status.failed, status.in_sync.iter().all(|in_sync| *in_sync)) {
        (true, _) => UNUSABLE.into(),
        (false, false) => DEGRADED.into(),
        (false, true) => ExitCode::SUCCESS,
    })
}
