//! Commands on background jobs: scrub, speed, wait.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, builder::TypedValueParser};
use serde_json::json;
use stripewise_wire::{JobStatus, Request, ScrubAction};

use super::{done, said};
use crate::{
    choices::one_of,
    client, output, progress,
    rundir::parse_name,
    said::{print_json, say},
    sizes::{format_size, parse_speed},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct ScrubArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// What to do.
    #[arg(value_parser = action_parser())]
    action: ScrubAction,
    /// Wait until it is done; exit with 1 if anything disagreed, as `status` does.
    #[arg(long, short = 'W')]
    wait: bool,
}

fn action_parser() -> impl TypedValueParser<Value = ScrubAction> {
    one_of(ScrubAction::ALL, ScrubAction::name, |action| match action {
        ScrubAction::Start => "Read all and count what disagrees (md's `check`)",
        ScrubAction::Repair => {
            "Read all and mend what disagrees: data is taken for right and P and Q are written anew from it, at level 6 too; \
             at level 1 the first copy is"
        }
        ScrubAction::Pause => "Pause the job under way, whatever it is; fails if there is none",
        ScrubAction::Resume => "Let it go on; fails if there is none",
        ScrubAction::Stop => "End it; fails if there is none",
        ScrubAction::Status => "Print how the last scrub ended, or how the current one stands",
    })
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SpeedArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Bytes a second that jobs may take while clients are busy, with a unit; 50M until it is set.
    #[arg(long, value_parser = parse_speed)]
    min: Option<u64>,
    /// Bytes a second that jobs may take at most, with a unit; 0 for no limit, as it is until it is set.
    #[arg(long, value_parser = parse_speed)]
    max: Option<u64>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WaitArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
}

/// Waits until no job is under way.
pub(crate) fn wait(args: &WaitArgs, json: bool) -> anyhow::Result<ExitCode> {
    let status = progress::wait_for_jobs(&args.name)?;
    if json {
        print_json(&status)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Carries out a command, then waits for the jobs that it starts; fails if the last of them does.
pub(super) fn and_wait(
    name: &str,
    command: impl FnOnce() -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let earlier = client::status(name)?.last_job.map(|job| job.started_ns);
    command()?;
    let last = progress::wait_for_jobs(name)?.last_job;
    // A job from before the command says nothing about the command.
    let new = last.filter(|job| earlier.is_none_or(|earlier| job.started_ns > earlier));
    match new.and_then(|job| job.outcome).as_deref() {
        None | Some("done") => Ok(ExitCode::SUCCESS),
        Some(outcome) => bail!("{name}: {outcome}"),
    }
}

pub(crate) fn scrub(args: &ScrubArgs, json: bool) -> anyhow::Result<ExitCode> {
    if args.action == ScrubAction::Status {
        return scrub_status(&args.name, json);
    }
    let request = Request::Scrub { action: args.action };
    let order = || said(&args.name, &request, json, &begun(&args.name, args.action));
    let starts = matches!(args.action, ScrubAction::Start | ScrubAction::Repair);
    if !(args.wait && starts) {
        return order();
    }
    and_wait(&args.name, || done(&args.name, &request))?;
    scrub_status(&args.name, json)
}

/// What to tell people after an order.
fn begun(name: &str, action: ScrubAction) -> String {
    let of_scrub =
        |what: &str| format!("the {what} has begun; `stripewise scrub {name} status` tells how it stands");
    match action {
        ScrubAction::Start => of_scrub("check"),
        ScrubAction::Repair => of_scrub("repair"),
        ScrubAction::Pause => "the job is paused".to_owned(),
        ScrubAction::Resume => "the job goes on".to_owned(),
        ScrubAction::Stop => "the job is ended".to_owned(),
        ScrubAction::Status => String::new(),
    }
}

/// Prints how a scrub stands or ended; exit code 1 if anything disagreed.
fn scrub_status(name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let status = client::status(name)?;
    let is_scrub = |job: &JobStatus| matches!(job.kind.as_str(), "check" | "repair");
    let Some(job) = status.job.filter(is_scrub).or(status.last_scrub) else {
        if json {
            print_json(&serde_json::Value::Null)?
        } else {
            say!("{name}: no scrub since it was opened")
        }
        return Ok(ExitCode::SUCCESS);
    };
    if json {
        print_json(&job)?;
    } else {
        let outcome = job.outcome.as_deref().unwrap_or("under way");
        say!("{name}: {}, {outcome}, mismatch_cnt {}", output::progress_line(&job), job.mismatch_count);
        if !job.mismatched_stripes.is_empty() {
            let stripes: Vec<_> = job.mismatched_stripes.iter().take(20).map(u64::to_string).collect();
            say!("    stripes that disagreed: {}", stripes.join(" "));
        }
    }
    Ok(if job.mismatch_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sets limits, or prints them if none is given.
pub(crate) fn speed(args: &SpeedArgs, json: bool) -> anyhow::Result<ExitCode> {
    if let (Some(min), Some(max @ 1..)) = (args.min, args.max)
        && min > max
    {
        bail!("--min is above --max");
    }
    if args.min.is_none() && args.max.is_none() {
        return print_speed(&args.name, json);
    }
    let request = Request::Speed { min_bytes_per_s: args.min, max_bytes_per_s: args.max };
    // Does not ask for the status: it may not come, although the limits are set.
    said(&args.name, &request, json, &limits_set(args.min, args.max))
}

/// The limits that were given. A maximum of 0 means no limit.
fn limits_set(min: Option<u64>, max: Option<u64>) -> String {
    let min = min.map(min_text);
    let max = max.map(|max| max_text((max > 0).then_some(max)));
    min.into_iter().chain(max).collect::<Vec<_>>().join(", ")
}

fn min_text(min_bytes_per_s: u64) -> String {
    format!("min {}/s", format_size(min_bytes_per_s))
}

fn max_text(max_bytes_per_s: Option<u64>) -> String {
    max_bytes_per_s.map_or_else(|| "max no limit".to_owned(), |max| format!("max {}/s", format_size(max)))
}

fn print_speed(name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let status = client::status(name)?;
    let (min, max) = (status.speed_min_bytes_per_s, status.speed_max_bytes_per_s);
    if json {
        print_json(&json!({ "name": name, "min_bytes_per_s": min, "max_bytes_per_s": max }))?;
    } else {
        say!("{name}: {}, {}", min_text(min), max_text(max));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_that_were_set_are_told_and_no_others() {
        assert_eq!(limits_set(Some(20 << 20), Some(0)), "min 20 MiB/s, max no limit");
        assert_eq!(limits_set(None, Some(1 << 30)), "max 1 GiB/s");
        assert_eq!(limits_set(Some(0), None), "min 0 B/s");
    }
}
