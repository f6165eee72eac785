//! Commands that change the members: add, fail, remove, replace.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use stripewise_wire::{ClassChoice, Request};

use super::{done_when_measured, jobs::and_wait, tell};
use crate::{
    client,
    given::{absolute_path, absolute_paths, check_given_once, given_classes},
    rundir::parse_name,
    words::parse_class,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct AddArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Overwrite what is found on the devices.
    #[arg(long, short)]
    force: bool,
    /// Wait until a rebuild that this starts is done.
    #[arg(long, short = 'W')]
    wait: bool,
    /// What kind of device one is, where that is not to be detected: DEVICE=hdd or DEVICE=ssd. Can be given
    /// again.
    #[arg(long, value_name = "DEVICE=CLASS", value_parser = parse_class)]
    class: Vec<(String, ClassChoice)>,
    /// Block devices or files.
    #[arg(required = true)]
    devices: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MemberArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// The member's device; for `remove`, also the word `failed` for all that are faulty.
    device: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ReplaceArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// The member to be replaced.
    device: String,
    /// The device to take its place: a spare, or one to be added.
    #[arg(long)]
    with: String,
    /// What kind of device that is, where it is not to be detected: DEVICE=hdd or DEVICE=ssd.
    #[arg(long, value_name = "DEVICE=CLASS", value_parser = parse_class)]
    class: Vec<(String, ClassChoice)>,
    /// Overwrite what is found on the device.
    #[arg(long, short)]
    force: bool,
    /// Wait until it is done.
    #[arg(long, short = 'W')]
    wait: bool,
}

/// mdadm's word for all faulty members.
const FAILED: &str = "failed";

pub(crate) fn add(args: &AddArgs, json: bool) -> anyhow::Result<ExitCode> {
    let devices = absolute_paths(&args.devices)?;
    check_given_once(&devices)?;
    let classes = given_classes(&args.class, &devices)?;
    let add_all = || {
        for device in devices {
            let class = classes.get(&device).copied();
            let request = Request::Add { device: device.clone(), force: args.force, class, steps: true };
            let otherwise = format!("{device} is added all the same, once it is measured");
            let again = Request::Added { device: device.clone() };
            done_when_measured(&args.name, &request, &again, &otherwise)?;
            tell(&args.name, json, &format!("added {device}"));
        }
        Ok(ExitCode::SUCCESS)
    };
    if args.wait { and_wait(&args.name, add_all) } else { add_all() }
}

pub(crate) fn fail(args: &MemberArgs, json: bool) -> anyhow::Result<ExitCode> {
    let member = absolute_path(&args.device)?;
    client::command(&args.name, &Request::Fail { member: member.clone() })?;
    tell(&args.name, json, &format!("declared {member} faulty"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn remove(args: &MemberArgs, json: bool) -> anyhow::Result<ExitCode> {
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

/// All faulty members.
fn faulty(name: &str) -> anyhow::Result<Vec<String>> {
    let members = client::status(name)?.members.into_iter().filter(|member| member.state == "faulty");
    let members: Vec<_> = members.map(|member| member.device).collect();
    ensure!(!members.is_empty(), "{name}: no member is faulty");
    Ok(members)
}

pub(crate) fn replace(args: ReplaceArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (member, with) = (absolute_path(&args.device)?, absolute_path(&args.with)?);
    check_given_once([&member, &with])?;
    let class = given_classes(&args.class, std::slice::from_ref(&with))?.get(&with).copied();
    let what = format!("{with} is being filled to take the place of {member}");
    let told = (member.clone(), with.clone());
    let order = || {
        let otherwise = format!("{with} takes the place of {member} all the same, once it is measured");
        let again = Request::Added { device: with.clone() };
        let request = Request::Replace { member, with, force: args.force, class, steps: true };
        done_when_measured(&args.name, &request, &again, &otherwise)?;
        tell(&args.name, json, &what);
        Ok(ExitCode::SUCCESS)
    };
    if !args.wait {
        return order();
    }
    let ended = and_wait(&args.name, order)?;
    tell(&args.name, json, &format!("{} has taken the place of {}", told.1, told.0));
    Ok(ended)
}
