//! `stripewise class`: what kind of device members are.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use stripewise_wire::{ClassChoice, MemberStatus, Request};

use super::{chosen, said};
use crate::{
    choices::class_parser,
    client,
    given::absolute_path,
    printable::printable,
    rundir::parse_name,
    said::{print_json, say},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct ClassArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Only this member.
    device: Option<String>,
    /// What the member is, whatever was detected or said before; printed, if left out.
    #[arg(value_parser = class_parser())]
    class: Option<ClassChoice>,
}

pub(crate) fn class(args: &ClassArgs, json: bool) -> anyhow::Result<ExitCode> {
    if let (Some(device), Some(class)) = (&args.device, args.class) {
        let member = absolute_path(device)?;
        let what = format!("{member} is {}", class.name());
        return said(&args.name, &Request::Class { member, class }, json, &what);
    }
    let status = client::status(&args.name)?;
    let members = chosen(&status, args.device.as_deref())?;
    if json {
        let entry = |member: &&MemberStatus| json!({ "device": member.device, "class": member.class, "given": member.class_given });
        print_json(&members.iter().map(entry).collect::<Vec<_>>())?;
    } else {
        members.iter().for_each(|member| {
            say!("{:<8} {:<9} {}", member.class, source(member), printable(&member.device))
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// Where a member's class comes from.
fn source(member: &MemberStatus) -> &'static str {
    match member.class.as_str() {
        _ if member.class_given => "as said",
        "unknown" => "",
        _ => "detected",
    }
}
