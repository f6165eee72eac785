//! Commands on members and background jobs: add, replace, scrub.

use std::process::ExitCode;

use super::{absolute_path, done, print_json};
use crate::{
    args::{AddArgs, ReplaceArgs, ScrubArgs},
    client, output, progress,
    protocol::{JobStatus, Request, ScrubAction},
};

pub(super) fn add(args: &AddArgs) -> anyhow::Result<ExitCode> {
    for device in &args.devices {
        let device = absolute_path(device)?;
        client::ask(&args.name, &Request::Add { device, force: args.force })?;
    }
    if args.wait { wait(&args.name) } else { Ok(ExitCode::SUCCESS) }
}

pub(super) fn replace(args: ReplaceArgs) -> anyhow::Result<ExitCode> {
    let (member, with) = (absolute_path(&args.device)?, absolute_path(&args.with)?);
    client::ask(&args.name, &Request::Replace { member, with, force: args.force })?;
    if args.wait { wait(&args.name) } else { Ok(ExitCode::SUCCESS) }
}

/// Waits for jobs; fails if the last one did.
fn wait(name: &str) -> anyhow::Result<ExitCode> {
    let status = progress::wait_for_jobs(name)?;
    match status.last_job.and_then(|job| job.outcome).as_deref() {
        None | Some("done") => Ok(ExitCode::SUCCESS),
        Some(outcome) => anyhow::bail!("{name}: {outcome}"),
    }
}

pub(super) fn scrub(args: &ScrubArgs, json: bool) -> anyhow::Result<ExitCode> {
    if args.action == ScrubAction::Status {
        return scrub_status(&args.name, json);
    }
    done(&args.name, &Request::Scrub { action: args.action })?;
    let starts = matches!(args.action, ScrubAction::Start | ScrubAction::Repair);
    if !(args.wait && starts) {
        return Ok(ExitCode::SUCCESS);
    }
    wait(&args.name)?;
    scrub_status(&args.name, json)
}

/// Prints how a scrub stands or ended; exit code 1 if anything disagreed.
fn scrub_status(name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let status = client::status(name)?;
    let is_scrub = |job: &JobStatus| matches!(job.kind.as_str(), "check" | "repair");
    let Some(job) = status.job.filter(is_scrub).or(status.last_scrub) else {
        if json {
            print_json(&serde_json::Value::Null)?
        } else {
            println!("{name}: no scrub since it was opened")
        }
        return Ok(ExitCode::SUCCESS);
    };
    if json {
        print_json(&job)?;
    } else {
        let outcome = job.outcome.as_deref().unwrap_or("under way");
        println!("{name}: {}, {outcome}, mismatch_cnt {}", output::job_line(&job), job.mismatch_count);
        if !job.mismatched_stripes.is_empty() {
            let stripes: Vec<_> = job.mismatched_stripes.iter().take(20).map(u64::to_string).collect();
            println!("    stripes that disagreed: {}", stripes.join(" "));
        }
    }
    Ok(if job.mismatch_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
