//! The commands, each with its words on the command line. What several of them do is here.

pub(crate) mod assemble;
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

/// A request whose answer is that it was done.
fn done(name: &str, request: &Request) -> anyhow::Result<ExitCode> {
    client::command(name, request).map(|()| ExitCode::SUCCESS)
}

/// The same, and people are told.
fn said(name: &str, request: &Request, json: bool, what: &str) -> anyhow::Result<ExitCode> {
    let code = done(name, request)?;
    tell(name, json, what);
    Ok(code)
}

/// Says what was done, to people.
fn tell(name: &str, json: bool, what: &str) {
    if !json {
        say!("{name}: {}", printable(what));
    }
}

/// All members, or the one that is named.
fn chosen<'a>(status: &'a ArrayStatus, device: Option<&str>) -> anyhow::Result<Vec<&'a MemberStatus>> {
    let Some(device) = device else { return Ok(status.members.iter().collect()) };
    let member = status.members.iter().find(|member| is_same_device(&member.device, device));
    let name = &status.name;
    Ok(vec![member.with_context(|| format!("{name}: {device} is not a member; `detail {name}` lists them"))?])
}
