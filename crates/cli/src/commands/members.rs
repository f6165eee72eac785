//! Commands that bring members in: add, replace.

use std::process::ExitCode;

use super::{done, jobs::and_wait};
use crate::{
    args::{AddArgs, ReplaceArgs},
    client,
    given::{absolute_path, absolute_paths, check_given_once, given_classes},
    protocol::Request,
};

pub(super) fn add(args: &AddArgs) -> anyhow::Result<ExitCode> {
    let devices = absolute_paths(&args.devices)?;
    check_given_once(&devices)?;
    let classes = given_classes(&args.class, &devices)?;
    let add_all = || {
        for device in devices {
            let class = classes.get(&device).copied();
            client::command(&args.name, &Request::Add { device, force: args.force, class })?;
        }
        Ok(ExitCode::SUCCESS)
    };
    if args.wait { and_wait(&args.name, add_all) } else { add_all() }
}

pub(super) fn replace(args: ReplaceArgs) -> anyhow::Result<ExitCode> {
    let (member, with) = (absolute_path(&args.device)?, absolute_path(&args.with)?);
    check_given_once([&member, &with])?;
    let class = given_classes(&args.class, std::slice::from_ref(&with))?.get(&with).copied();
    let order = || done(&args.name, &Request::Replace { member, with, force: args.force, class });
    if args.wait { and_wait(&args.name, order) } else { order() }
}
