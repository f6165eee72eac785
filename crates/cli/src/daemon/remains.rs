//! What a killed daemon leaves: its socket and lock file, and where it was attached a FUSE mount and a loop device, on
//! which every request fails.

use std::{fs, path::PathBuf, process::Command};

use stripewise::export::attach::{self, BlockUser};

use super::{exports, name::NameLock};
use crate::rundir::{make_run_dir, run_dir, socket_path};

/// Clears what a daemon of this name left when it was killed. Returned are the block devices that somebody keeps, and
/// who; with `force`, file systems on them are unmounted first.
///
/// # Errors
/// If a daemon of the name lives.
pub(crate) fn clear(name: &str, force: bool) -> anyhow::Result<Vec<String>> {
    let _name = NameLock::take(&make_run_dir()?, name)?;
    let kept = clear_under_lock(name);
    if force {
        kept.iter().flat_map(|(_, users)| users).for_each(unmount);
        return Ok(Vec::new());
    }
    let told = |(device, users): &(PathBuf, Vec<BlockUser>)| {
        let users: Vec<_> = users.iter().map(BlockUser::to_string).collect();
        format!("{} ({})", device.display(), users.join(", "))
    };
    Ok(kept.iter().map(told).collect())
}

/// The same for the holder of the name.
pub(super) fn clear_under_lock(name: &str) -> Vec<(PathBuf, Vec<BlockUser>)> {
    let _ = fs::remove_file(socket_path(name));
    exports::remove_link(name);
    match attach::clean_stale(&run_dir()) {
        Ok(cleaned) => {
            tracing::debug!(?cleaned, "looked for remains of killed daemons");
            cleaned.in_use
        }
        Err(error) => {
            tracing::warn!(%error, "remains of a killed daemon could not be removed");
            Vec::new()
        }
    }
}

/// Lazily, as nothing can be written to a dead device any more.
fn unmount(user: &BlockUser) {
    if let BlockUser::Mount(place) = user {
        let _ = Command::new("umount").arg("--lazy").arg(place).status();
    }
}
