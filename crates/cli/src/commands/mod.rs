//! The commands, each with its arguments. What several commands share is in this module.

pub(crate) mod assemble;
pub(crate) mod cache;
pub(crate) mod class;
pub(crate) mod create;
pub(crate) mod endurance;
pub(crate) mod examine;
pub(crate) mod exports;
pub(crate) mod jobs;
#[cfg(feature = "lab")]
pub(crate) mod lab;
mod mdadm;
pub(crate) mod members;
pub(crate) mod policy;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod trace;
mod workers;

use std::process::ExitCode;

use anyhow::Context;
use stripewise_wire::{ArrayStatus, MemberStatus, Request};

use crate::{client, given::is_same_device, printable::printable, said::say};

/// Sends a request whose only answer is that it was done.
fn done(name: &str, request: &Request) -> anyhow::Result<ExitCode> {
    client::command(name, request).map(|()| ExitCode::SUCCESS)
}

/// Does the same, and tells people.
fn said(name: &str, request: &Request, json: bool, what: &str) -> anyhow::Result<ExitCode> {
    let code = done(name, request)?;
    tell(name, json, what);
    Ok(code)
}

/// Tells people what was done. Says nothing with `--json`.
fn tell(name: &str, json: bool, what: &str) {
    if !json {
        say!("{name}: {}", printable(what));
    }
}

/// All members, or only the named one.
fn chosen<'a>(status: &'a ArrayStatus, device: Option<&str>) -> anyhow::Result<Vec<&'a MemberStatus>> {
    let Some(device) = device else { return Ok(status.members.iter().collect()) };
    let member = status.members.iter().find(|member| is_same_device(&member.device, device));
    let name = &status.name;
    Ok(vec![member.with_context(|| format!("{name}: {device} is not a member; `detail {name}` lists them"))?])
}
