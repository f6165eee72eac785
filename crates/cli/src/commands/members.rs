//! Commands that bring members in: add, replace.

use std::process::ExitCode;

use super::jobs::wait_for_success;
use crate::{
    args::{AddArgs, ReplaceArgs},
    client,
    given::{absolute_path, absolute_paths, check_given_once},
    protocol::Request,
};

pub(super) fn add(args: &AddArgs) -> anyhow::Result<ExitCode> {
    let devices = absolute_paths(&args.devices)?;
    check_given_once(&devices)?;
    for device in devices {
        client::command(&args.name, &Request::Add { device, force: args.force })?;
    }
    if args.wait { wait_for_success(&args.name) } else { Ok(ExitCode::SUCCESS) }
}

pub(super) fn replace(args: ReplaceArgs) -> anyhow::Result<ExitCode> {
    let (member, with) = (absolute_path(&args.device)?, absolute_path(&args.with)?);
    check_given_once([&member, &with])?;
    client::command(&args.name, &Request::Replace { member, with, force: args.force })?;
    if args.wait { wait_for_success(&args.name) } else { Ok(ExitCode::SUCCESS) }
}
