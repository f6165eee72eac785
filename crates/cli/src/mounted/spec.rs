//! What a mounting process is told, and how a command starts it.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use serde::{Deserialize, Serialize};
use stripewise_mount::{
    fuse::MountOptions as FuseOptions,
    rafs::{fs::MountOptions, shape::BLOCK_BYTES},
    served::ServeOptions,
};

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
    pub(crate) point: PathBuf,
    pub(crate) kernel: KernelOptions,
    pub(crate) is_read_only: bool,
    pub(crate) buffer_bytes: u64,
    pub(crate) free_percent: u8,
    pub(crate) age: Duration,
    pub(crate) threads: usize,
    /// Whether a loop device is put under the mount.
    pub(crate) has_loop: bool,
}

/// What the kernel is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KernelOptions {
    pub(crate) allow_other: bool,
    pub(crate) nosuid: bool,
    pub(crate) nodev: bool,
    pub(crate) noexec: bool,
    pub(crate) noatime: bool,
}

/// What was mounted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Mounted {
    pub(crate) target: String,
    pub(crate) point: PathBuf,
    pub(crate) uuid: String,
    pub(crate) label: String,
    pub(crate) is_read_only: bool,
    /// Whether sync(2) reaches it.
    pub(crate) is_block: bool,
    pub(crate) pid: u32,
}

impl MountSpec {
    /// A name for its log.
    pub(super) fn name(&self) -> String {
        let point = self.point.to_string_lossy();
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
        let name: String = point.trim_matches('/').chars().map(plain).collect();
        // A file's name has 255 bytes, and the end tells most.
        format!("mount-{}", &name[name.len().saturating_sub(200)..])
    }

    pub(super) fn options(&self) -> ServeOptions {
        let KernelOptions { allow_other, nosuid, nodev, noexec, noatime } = self.kernel;
        let source = self.target.clone().into();
        ServeOptions {
            fs: MountOptions {
                is_read_only: self.is_read_only,
                buffer_blocks: self.buffer_bytes / BLOCK_BYTES as u64,
                free_percent: self.free_percent,
                age: self.age,
                ..MountOptions::default()
            },
            fuse: FuseOptions {
                source,
                allow_other,
                nosuid,
                nodev,
                noexec,
                noatime,
                ..FuseOptions::default()
            },
            anchor: self.has_loop.then(|| PathBuf::from(&self.target)),
        }
    }
}

/// Starts the process in the background, and waits until the file system is mounted.
pub(crate) fn start(spec: &MountSpec) -> anyhow::Result<Mounted> {
    daemon::keep_descriptors().context("keeping this command's files from the server")?;
    let mut command = Command::new(std::env::current_exe().context("finding this program's own path")?);
    if let Some(dir) = named_run_dir() {
        command.env(RUN_DIR_VARIABLE, dir);
    }
    let mut child = command
        // The folder shows in lists of processes.
        .arg("mount-daemon")
        .arg(&spec.point)
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
