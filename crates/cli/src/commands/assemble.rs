//! `stripewise assemble`.

use std::process::ExitCode;

use clap::Args;
use stripewise_wire::ArrayStatus;

use super::{show, workers::WorkerArgs};
use crate::{
    client,
    daemon::{DaemonSpec, Opening, start_daemon},
    given::{absolute_paths, check_given_once},
    rundir::parse_name,
    said::{note, tell_notes},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct AssembleArgs {
    /// The array's name while it runs.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Start although members are absent that were there when it was last used.
    #[arg(long)]
    run: bool,
    /// Start although data may be lost.
    ///
    /// An array that was being written while it was degraded is started: rows under way may have lost what
    /// was on the missing member. Where too few members are current, the least stale of the others are taken,
    /// and what was written since they left is lost; `detail` names them.
    #[arg(long, short)]
    force: bool,
    /// Write nothing.
    #[arg(long, short = 'o')]
    readonly: bool,
    #[command(flatten)]
    workers: WorkerArgs,
    /// The members, in any order.
    #[arg(required = true)]
    devices: Vec<String>,
}

pub(crate) fn assemble(args: AssembleArgs, json: bool) -> anyhow::Result<ExitCode> {
    let AssembleArgs { name, run, force, readonly, workers, devices } = args;
    let devices = absolute_paths(&devices)?;
    client::check_name(&name)?;
    check_given_once(&devices)?;
    let workers = workers.spec();
    let opening = Opening::Assemble { devices, run, force, read_only: readonly };
    let status = start_daemon(&DaemonSpec { name, workers, opening })?;
    for device in &status.forced {
        let lost = "taken by force, what was written since it left is lost";
        note!("stripewise: {}: {lost}: {device}", status.name);
    }
    tell_notes(&status.name, &status.warnings);
    tell_notes(&status.name, &absent_roles(&status));
    show::opened(&status, json)?;
    Ok(ExitCode::SUCCESS)
}

/// A note on each role whose member is absent, with what takes its place, and on data in doubt.
fn absent_roles(status: &ArrayStatus) -> Vec<String> {
    let absent = status.in_sync.iter().enumerate().filter(|(_, in_sync)| !**in_sync).map(|(role, _)| role);
    let filled =
        |role| status.members.iter().find(|member| member.role == Some(role) && member.state != "faulty");
    let told = absent.map(|role| match filled(role) {
        Some(member) => format!("role {role} is being filled: {}", member.device),
        None if status.read_only => format!("the member of role {role} is absent"),
        None => format!(
            "the member of role {role} is absent; to rebuild it: `stripewise add {} DEVICE`",
            status.name
        ),
    });
    told.chain(in_doubt(status)).collect()
}

/// A note on data that a read-only array does not read, as a crash may have left it half written. With
/// `--force` the array reads it.
fn in_doubt(status: &ArrayStatus) -> Option<String> {
    let lacks_member = status.in_sync.iter().any(|in_sync| !in_sync);
    let marked = status.bitmap.as_ref().map_or(0, |bitmap| bitmap.marked);
    let is_in_doubt = status.read_only && status.parity_devices > 0 && lacks_member && marked > 0;
    is_in_doubt.then(|| {
        format!(
            "it was not stopped cleanly, and members are absent: what they had in the bitmap's marked regions ({marked}) \
             may be half written, and is an error unless the array is assembled with --force"
        )
    })
}
