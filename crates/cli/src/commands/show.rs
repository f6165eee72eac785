//! `stripewise status` and `stripewise detail`.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use stripewise_wire::ArrayStatus;

use crate::{
    client, errors, output,
    rundir::{self, parse_name},
    said::{note, print_json, print_text, say},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    /// Only these arrays.
    #[arg(value_parser = parse_name)]
    names: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DetailArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Exit with 0 if all is well, 1 if degraded, 2 if unusable, 4 if that cannot be told.
    #[arg(long, short)]
    test: bool,
}

pub(crate) fn status(args: &StatusArgs, json: bool) -> anyhow::Result<ExitCode> {
    let all = args.names.is_empty();
    let names = if all { rundir::array_names()? } else { args.names.clone() };
    let (mut found, mut untold) = (Vec::new(), Vec::new());
    let mut failed = false;
    for name in names {
        match client::status(&name) {
            Ok(status) => found.push(status),
            Err(error) => {
                note!("stripewise: {}", errors::printable_line(&error));
                // An array that was stopped since it was listed is no failure. One that does not answer is.
                let is_stopped = error.is::<client::NotRunning>();
                failed |= !all || !is_stopped;
                untold.extend((!is_stopped).then(|| not_told(name, &error)));
            }
        }
    }
    if json {
        found.append(&mut untold);
        print_json(&found)?;
    } else {
        if found.is_empty() && !failed {
            note!("no array is running");
        }
        found.iter().for_each(|status| say!("{}", output::mdstat(status)));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What programs are told of an array that does not answer, and why it does not.
fn not_told(name: String, error: &anyhow::Error) -> ArrayStatus {
    let state = if error.is::<client::Dead>() { "dead" } else { "unknown" };
    let warnings = vec![errors::line(error)];
    ArrayStatus { name, state: state.to_owned(), warnings, ..ArrayStatus::default() }
}

/// Prints an array that was just opened.
pub(super) fn opened(status: &ArrayStatus, json: bool) -> anyhow::Result<()> {
    match (json, status.is_known()) {
        (true, _) => print_json(status),
        (false, true) => print_text(&output::mdstat(status)),
        (false, false) => print_text(&format!("{} : open, and does not answer yet\n", status.name)),
    }
}

/// `detail --test`: more members are lost than the level tolerates.
const UNUSABLE: u8 = 2;
/// `detail --test`: degraded.
const DEGRADED: u8 = 1;
/// `detail --test`: the array's state cannot be told.
pub(crate) const CANNOT_TELL: u8 = 4;

pub(crate) fn detail(args: &DetailArgs, json: bool) -> anyhow::Result<ExitCode> {
    let told = client::status(&args.name).and_then(|status| print_detail(&status, json).map(|()| status));
    if !args.test {
        return told.map(|_| ExitCode::SUCCESS);
    }
    let tested = told.and_then(|status| tested(&status));
    Ok(tested.map_or_else(
        |error| {
            note!("stripewise: {}", errors::printable_line(&error));
            CANNOT_TELL.into()
        },
        ExitCode::from,
    ))
}

fn print_detail(status: &ArrayStatus, json: bool) -> anyhow::Result<()> {
    let text = if json { serde_json::to_string_pretty(status)? + "\n" } else { output::detail(status) };
    print_text(&text)
}

/// The exit code for an array's state.
fn tested(status: &ArrayStatus) -> anyhow::Result<u8> {
    let name = &status.name;
    ensure!(status.is_known(), "{name}: its daemon does not say which of its members are in sync");
    Ok(match (status.failed, status.in_sync.iter().all(|in_sync| *in_sync)) {
        (true, _) => UNUSABLE,
        (false, false) => DEGRADED,
        (false, true) => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_not_taken_for_good() {
        assert!(tested(&ArrayStatus::default()).is_err(), "no member out of sync is told, and none in sync");
        let status = |in_sync: &[bool], failed| ArrayStatus {
            raid_devices: 3,
            in_sync: in_sync.to_vec(),
            failed,
            ..ArrayStatus::default()
        };
        assert!(tested(&status(&[true], false)).is_err());
        assert_eq!(tested(&status(&[true; 3], false)).unwrap(), 0);
        assert_eq!(tested(&status(&[true, false, true], false)).unwrap(), DEGRADED);
        assert_eq!(tested(&status(&[true, false, false], true)).unwrap(), UNUSABLE);
    }
}
