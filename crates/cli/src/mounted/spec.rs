//! What a mounting process is told, and how a command starts it.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, anyhow, bail};
use serde::{Deserialize, Serialize};
use stripewise_wire::{MountChoice, MountedStatus};

use super::FirstWord;
use crate::{
    daemon,
    printable::printable_list,
    rundir::{RUN_DIR_VARIABLE, log_path, named_run_dir},
    sigpipe,
};

/// Everything that a mounting process needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MountSpec {
    pub(crate) target: String,
    pub(crate) choice: MountChoice,
    pub(crate) threads: usize,
}

impl MountSpec {
    /// A name for its log.
    pub(super) fn name(&self) -> String {
        log_name(&self.choice.point)
    }
}

/// The name of the log of what is mounted on this folder.
pub(super) fn log_name(point: &Path) -> String {
    let point = point.to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
    let name: String = point.trim_matches('/').chars().map(plain).collect();
    // A file's name has 255 bytes, and the end tells most.
    format!("mount-{}", &name[name.len().saturating_sub(200)..])
}

/// Starts the process in the background, and waits until the file system is mounted.
pub(crate) fn start(spec: &MountSpec) -> anyhow::Result<MountedStatus> {
    daemon::keep_descriptors().context("keeping this command's files from the server")?;
    let mut command = Command::new(std::env::current_exe().context("finding this program's own path")?);
    if let Some(dir) = named_run_dir() {
        command.env(RUN_DIR_VARIABLE, dir);
    }
    let mut child = command
        // The folder shows in lists of processes.
        .arg("mount-daemon")
        .arg(&spec.choice.point)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .current_dir("/")
        .spawn()
        .context("starting the server")?;
    let mut stdin = child.stdin.take().ok_or_else(|| anyhow!("the server has no standard input"))?;
    // A process that cannot be written to has ended; the code below finds that out.
    let _ = sigpipe::survived(|| stdin.write_all(&serde_json::to_vec(spec)?));
    drop(stdin);
    let stdout = child.stdout.take().ok_or_else(|| anyhow!("the server has no standard output"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    match serde_json::from_str(&line) {
        Ok(FirstWord::Mounted(mounted)) => Ok(mounted),
        Ok(FirstWord::Error(message)) => bail!("{}", printable_list(&message)),
        Err(_) => {
            let (end, log) = (child.wait()?, log_path(&spec.name()));
            bail!("the server ended before anything was mounted ({end}); see {}", log.display())
        }
    }
}
