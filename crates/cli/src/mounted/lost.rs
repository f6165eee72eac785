//! What the server of a mount leaves for `umount` where it could not write all out: `umount` waits for its end, and must not say that
//! all is well.

use std::{fs, path::Path, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::spec::log_name;
use crate::rundir::run_dir;

/// Why a server did not end well.
#[derive(Debug, Serialize, Deserialize)]
struct Lost {
    /// The server: another one may have served the same folder before.
    pid: u32,
    why: String,
}

fn path_of(point: &Path) -> PathBuf {
    run_dir().join(format!("{}.lost", log_name(point)))
}

/// Leaves word of this process.
pub(super) fn leave(point: &Path, why: String) {
    let lost = Lost { pid: std::process::id(), why };
    let left = serde_json::to_vec(&lost)
        .map_err(std::io::Error::from)
        .and_then(|text| fs::write(path_of(point), text));
    if let Err(error) = left {
        tracing::error!("`umount` cannot be told of it: {error}");
    }
}

/// What an earlier server has left.
pub(super) fn clear(point: &Path) {
    let _ = fs::remove_file(path_of(point));
}

/// What this process has left, which has served the folder and ended.
pub(crate) fn taken(point: &Path, pid: u32) -> Option<String> {
    let lost: Lost = serde_json::from_slice(&fs::read(path_of(point)).ok()?).ok()?;
    (lost.pid == pid).then(|| {
        clear(point);
        lost.why
    })
}
