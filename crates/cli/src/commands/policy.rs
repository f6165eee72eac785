//! `stripewise policy`: how partly written rows are written.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use stripewise::internals::plan::selection::{self, Policy};
use stripewise_wire::Request;

use super::said;
use crate::{
    client,
    policies::{self, policy_parser},
    rundir::parse_name,
    said::{print_json, say, tell_notes},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyArgs {
    /// The array.
    #[arg(value_parser = parse_name, required_unless_present = "list")]
    name: Option<String>,
    /// The policy that it shall have; printed, if left out.
    #[arg(value_parser = policy_parser())]
    policy: Option<&'static Policy>,
    /// List the policies there are.
    #[arg(long, conflicts_with = "name")]
    list: bool,
}

pub(crate) fn policy(args: &PolicyArgs, json: bool) -> anyhow::Result<ExitCode> {
    let Some(name) = args.name.as_deref() else { return list(json) };
    match args.policy {
        Some(policy) => {
            let request = Request::Policy { policy: policy.name.to_owned() };
            said(name, &request, json, &format!("rows are written by {}", policy.name))
        }
        None => print(name, json),
    }
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    if json {
        let entry = |(policy, chosen_for): (&Policy, Option<&str>)| {
            let Policy { name, summary, .. } = policy;
            json!({ "name": name, "summary": summary, "chosen_for_new_arrays": chosen_for })
        };
        print_json(&policies::all().map(entry).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = policies::all().map(|(policy, _)| policy.name.len()).max().unwrap_or(0);
    for (policy, chosen_for) in policies::all() {
        let mark = chosen_for.map_or(String::new(), |which| format!("; chosen for new arrays {which}"));
        say!("{:<width$}  {}{mark}", policy.name, policy.summary);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let status = client::status(name)?;
    tell_notes(name, &status.warnings);
    policies::check_selects(status.level).with_context(|| name.to_owned())?;
    let policy = selection::policy(&status.selection).context("an array of another version")?;
    if json {
        print_json(&json!({ "name": name, "policy": policy.name, "summary": policy.summary }))?;
    } else {
        say!("{name}: {}: {}", policy.name, policy.summary);
    }
    Ok(ExitCode::SUCCESS)
}
