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
pub(crate) mod rafs;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod trace;
mod workers;

use std::process::ExitCode;

use anyhow::{Context, bail};
use stripewise_wire::{ArrayStatus, MemberStatus, Reply, Request};

use crate::{
    client::{self, Attended},
    given::is_same_device,
    printable::printable,
    progress::{EmptyingBar, MeasuringBar},
    said::{say, tell_notes},
};

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

/// Sends a request that ends when what is cached is on the members, and shows how much is left. Interrupted, it goes on;
/// `otherwise` says what comes to pass then.
fn done_when_emptied(name: &str, request: &Request, otherwise: &str) -> anyhow::Result<()> {
    client::check_knows(name, request)?;
    let (mut attended, mut bar) = (Attended::new(name)?, EmptyingBar::default());
    let mut answer = attended.ask(request, otherwise)?;
    loop {
        match answer {
            Reply::Done(notes) => {
                bar.clear();
                tell_notes(name, &notes);
                return Ok(());
            }
            Reply::Emptying { left_bytes } => bar.show(name, left_bytes),
            other => bail!("{name}: unexpected answer {other:?}"),
        }
        answer = attended.ask(&Request::Emptied, otherwise)?;
    }
}

/// Sends a request that ends when devices have been measured, with a bar; `again` asks how far that has come. Interrupted,
/// it goes on; `otherwise` says what comes to pass then.
fn done_when_measured(name: &str, request: &Request, again: &Request, otherwise: &str) -> anyhow::Result<()> {
    client::check_knows(name, request)?;
    let (mut attended, mut bar) = (Attended::new(name)?, MeasuringBar::default());
    let mut answer = attended.ask(request, otherwise)?;
    loop {
        match answer {
            Reply::Done(notes) => {
                drop(bar);
                tell_notes(name, &notes);
                return Ok(());
            }
            Reply::Measuring { passed_s, most_s } => bar.show(name, passed_s, most_s),
            other => bail!("{name}: unexpected answer {other:?}"),
        }
        answer = attended.ask(again, otherwise)?;
    }
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
