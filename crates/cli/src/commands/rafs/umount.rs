//! `stripewise umount`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use stripewise_mount::fuse::{self, Unmount, mount::is_dead_mount};

use super::report_of;
use crate::{
    printable::printable,
    said::{print_json, say},
};

/// How long what is buffered may take to be written out, once it is unmounted.
const END_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Args)]
pub(crate) struct UmountArgs {
    /// The folder that it is mounted on.
    folder: PathBuf,
    /// Take it out of the tree now, although it is in use; it is served until its last user is gone.
    #[arg(long, short)]
    lazy: bool,
}

pub(crate) fn umount(args: &UmountArgs, json: bool) -> anyhow::Result<ExitCode> {
    let folder = printable(&args.folder.display().to_string());
    if is_dead_mount(&args.folder)? {
        fuse::clear_dead_mount(&args.folder)?;
        return tell(&folder, "cleared: its server had died", json);
    }
    let Some(report) = report_of(&args.folder)? else {
        bail!("{folder}: no RAFS file system is mounted there; `stripewise df` lists those that are")
    };
    // Taken before it ends, so that it cannot be another process.
    let server = Pid::from_raw(report.identity.pid.cast_signed())
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let how = if args.lazy { Unmount::Detach } else { Unmount::Now };
    fuse::unmount(&args.folder, how).context("--lazy detaches it")?;
    if args.lazy {
        return tell(&folder, "detached", json);
    }
    if let Some(server) = server {
        let mut ended = [PollFd::new(&server, PollFlags::IN)];
        let limit = Timespec { tv_sec: END_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
        if poll(&mut ended, Some(&limit))? == 0 {
            bail!("{folder}: unmounted, but its server (process {}) still writes out", report.identity.pid);
        }
    }
    tell(&folder, "unmounted", json)
}

fn tell(folder: &str, what: &str, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(&serde_json::json!({ "folder": folder, "done": what }))?;
    } else {
        say!("{folder}: {what}");
    }
    Ok(ExitCode::SUCCESS)
}
