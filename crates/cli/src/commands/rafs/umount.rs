//! `stripewise umount`.

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use stripewise_mount::{
    fuse::{self, Unmount, mount::is_dead_mount},
    report::Report,
};
use stripewise_wire::{Reply, Request};

use super::{
    place::{Target, target_of},
    report_of,
};
use crate::{
    client, mounted,
    printable::printable,
    said::{print_json, say},
};

/// How long what is buffered may take to be written out, once it is unmounted.
const END_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Args)]
pub(crate) struct UmountArgs {
    /// The folder that it is mounted on, or the running array.
    target: String,
    /// Take it out of the tree now, although it is in use; it is served until its last user is gone.
    #[arg(long, short)]
    lazy: bool,
}

pub(crate) fn umount(args: &UmountArgs, json: bool) -> anyhow::Result<ExitCode> {
    let point = match target_of(&args.target)? {
        Target::Array(name) => point_of(&name)?,
        Target::Path(folder) => folder.into(),
    };
    let folder = printable(&point.display().to_string());
    if is_dead_mount(&point)? {
        fuse::clear_dead_mount(&point)?;
        return tell(&folder, "cleared: its server had died", json);
    }
    let Some(report) = report_of(&point)? else {
        bail!("{folder}: no RAFS file system is mounted there; `stripewise df` lists those that are")
    };
    // Taken before it ends, so that it cannot be another process.
    let server = Pid::from_raw(report.identity.pid.cast_signed())
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let how = if args.lazy { Unmount::Detach } else { Unmount::Now };
    fuse::unmount(&point, how).context("--lazy detaches it")?;
    if args.lazy {
        return tell(&folder, "detached", json);
    }
    match (&report.identity.array, server) {
        (Some(name), _) => wait_for_daemon(name, report.identity.pid)?,
        (None, Some(server)) => wait_for_server(&point, &report, &server)?,
        (None, None) => {}
    }
    tell(&folder, "unmounted", json)
}

/// Where an array's file system is mounted.
fn point_of(name: &str) -> anyhow::Result<PathBuf> {
    let mounted = client::status(name)?.mounted;
    Ok(mounted.with_context(|| format!("{name}: its daemon has no file system mounted"))?.point)
}

/// Waits until the array's daemon has written all out. One of another run directory cannot be asked.
fn wait_for_daemon(name: &str, pid: u32) -> anyhow::Result<()> {
    if client::status(name).is_ok_and(|status| status.pid != pid) {
        return Ok(());
    }
    let deadline = Instant::now() + END_TIMEOUT;
    loop {
        match client::ask(name, &Request::Unmounted) {
            Ok(Reply::Working { .. }) => {}
            // It was stopped meanwhile, which it is when all is written out.
            Err(error) if error.is::<client::NotRunning>() => return Ok(()),
            other => return other.map(drop),
        }
        if Instant::now() >= deadline {
            bail!("{name}: unmounted, but its daemon still writes out; see its log");
        }
    }
}

/// Waits until a process that serves the mount alone has ended. One of another run directory leaves word elsewhere.
fn wait_for_server(point: &Path, report: &Report, server: &OwnedFd) -> anyhow::Result<()> {
    let (folder, pid) = (printable(&point.display().to_string()), report.identity.pid);
    let mut ended = [PollFd::new(server, PollFlags::IN)];
    let limit = Timespec { tv_sec: END_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
    if poll(&mut ended, Some(&limit))? == 0 {
        bail!("{folder}: unmounted, but its server (process {pid}) still writes out");
    }
    // The server knows it without symbolic links.
    let served = fs::canonicalize(point).unwrap_or_else(|_| point.to_owned());
    match mounted::lost(&served, pid) {
        Some(why) => bail!("{folder}: unmounted, but what was not synced is lost: {}", printable(&why)),
        None => Ok(()),
    }
}

fn tell(folder: &str, what: &str, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(&serde_json::json!({ "folder": folder, "done": what }))?;
    } else {
        say!("{folder}: {what}");
    }
    Ok(ExitCode::SUCCESS)
}
