//! The daemon's log, which takes the place of its caller's terminal.

use std::{
    fs::{self, File},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use anyhow::Context;

use crate::rundir::log_path;

/// The log of a daemon that is starting.
pub(super) struct Log {
    path: PathBuf,
    is_new: bool,
}

impl Log {
    /// Sends standard error there. To be called by the holder of the name, as the log goes with the name.
    pub(super) fn begin(name: &str) -> anyhow::Result<Self> {
        let path = log_path(name);
        let file = File::options().create(true).append(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("{}: cannot open the log", path.display()))?;
        let is_new = file.metadata()?.len() == 0;
        rustix::stdio::dup2_stderr(&file).context("sending standard error to the log")?;
        Ok(Self { path, is_new })
    }

    /// Leaves no log of an array that did not start: its command is told why. What an earlier array of the name left
    /// stays.
    pub(super) fn forget(&self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }
}
