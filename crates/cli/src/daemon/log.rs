//! The daemon's log, which takes the place of its caller's terminal.

use std::{fs, path::PathBuf};

use anyhow::Context;

use crate::{logging, rundir::log_path};

/// The log of a daemon that is starting.
pub(super) struct Log {
    path: PathBuf,
    is_new: bool,
}

impl Log {
    /// Sends messages and standard error to the log. Only the holder of the name may call this, as the log
    /// belongs to the name.
    pub(super) fn begin(name: &str) -> anyhow::Result<Self> {
        let path = log_path(name);
        let is_new = fs::metadata(&path).map_or(0, |metadata| metadata.len()) == 0;
        logging::send_to(&path).with_context(|| format!("{}: cannot open the log", path.display()))?;
        Ok(Self { path, is_new })
    }

    /// Removes the log of an array that did not start: its command is told why. A log that an earlier array
    /// of this name left stays.
    pub(super) fn forget(&self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }
}
