//! Commands that change the members: add, fail, remove, replace.

use std::process::ExitCode;

use anyhow::ensure;
use stripewise_wire::Request;

use super::{done, jobs::and_wait, tell};
use crate::{
    args::{AddArgs, MemberArgs, ReplaceArgs},
    client,
    given::{absolute_path, absolute_paths, check_given_once, given_classes},
};

/// mdadm's word for every member that is faulty.
const FAILED: &str = "failed";

pub(super) fn add(args: &AddArgs, json: bool) -> anyhow::Result<ExitCode> {
    let devices = absolute_paths(&args.devices)?;
    check_given_once(&devices)?;
    let classes = given_classes(&args.class, &devices)?;
    let add_all = || {
        for device in devices {
            let class = classes.get(&device).copied();
            client::command(&args.name, &Request::Add { device: device.clone(), force: args.force, class })?;
            tell(&args.name, json, &format!("added {device}"));
        }
        Ok(ExitCode::SUCCESS)
    };
    if args.wait { and_wait(&args.name, add_all) } else { add_all() }
}

pub(super) fn fail(args: &MemberArgs, json: bool) -> anyhow::Result<ExitCode> {
    let member = absolute_path(&args.device)?;
    client::command(&args.name, &Request::Fail { member: member.clone() })?;
    tell(&args.name, json, &format!("declared {member} faulty"));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn remove(args: &MemberArgs, json: bool) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    let members = match args.device.as_str() {
        FAILED => faulty(name)?,
        device => vec![absolute_path(device)?],
    };
    for member in members {
        client::command(name, &Request::Remove { member: member.clone() })?;
        tell(name, json, &format!("removed {member}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// All members that are faulty.
fn faulty(name: &str) -> anyhow::Result<Vec<String>> {
    let members = client::status(name)?.members.into_iter().filter(|member| member.state == "faulty");
    let members: Vec<_> = members.map(|member| member.device).collect();
    ensure!(!members.is_empty(), "{name}: no member is faulty");
    Ok(members)
}

pub(super) fn replace(args: ReplaceArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (member, with) = (absolute_path(&args.device)?, absolute_path(&args.with)?);
    check_given_once([&member, &with])?;
    let class = given_classes(&args.class, std::slice::from_ref(&with))?.get(&with).copied();
    let what = format!("{with} is being filled to take the place of {member}");
    let order = || {
        let code = done(&args.name, &Request::Replace { member, with, force: args.force, class })?;
        tell(&args.name, json, &what);
        Ok(code)
    };
    if args.wait { and_wait(&args.name, order) } else { order() }
}
