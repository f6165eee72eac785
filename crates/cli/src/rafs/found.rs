//! Finds the file system of a block device or a file, and tells one that is damaged from one that something else has taken the place of: that
//! leaves copies of the superblock alone, and a mount or fsck would destroy it.

use std::sync::Arc;

use anyhow::ensure;
use stripewise::{Host, file::FileDevice};
use stripewise_mount::target::{self, Found, Seen, TargetError};

use crate::{
    daemon::holding,
    probe::{self, probe_opened},
};

/// # Errors
/// If there is none, or its first stripe is lost.
pub(crate) fn find(host: &Host, path: &str, device: Arc<FileDevice>) -> anyhow::Result<Found> {
    let looked = device.clone();
    let found = host.block_on(async move { target::find(looked).await });
    if matches!(found, Ok(Found { is_first: false, .. }) | Err(TargetError::FirstLost { .. })) {
        // What cannot be read is not recognised.
        check_not_foreign(path, probe_opened(&*device).unwrap_or_default())?;
    }
    Ok(found?)
}

/// As [`find`], also if only the last copy of the superblock is left.
///
/// # Errors
/// If there is none.
pub(crate) fn find_damaged(host: &Host, path: &str, device: Arc<FileDevice>) -> anyhow::Result<Found> {
    let error = match find(host, path, device.clone()) {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    match error.downcast() {
        Ok(TargetError::FirstLost { last, .. }) => {
            Ok(target::found(device, Seen { superblock: *last, is_first: false })?)
        }
        Ok(other) => Err(other.into()),
        Err(other) => Err(other),
    }
}

/// Refuses what holds something else than a RAFS, where the first superblock is damaged.
///
/// # Errors
/// If it does.
pub(crate) fn check_not_foreign(name: &str, mut found: Vec<String>) -> anyhow::Result<()> {
    found.retain(|what| what != probe::RAFS);
    ensure!(
        found.is_empty(),
        "{}, and of a RAFS file system only copies of the superblock; if it is not to hold that, have wipefs(8) erase it, \
         and run `stripewise fsck -y`",
        holding(name, &found)
    );
    Ok(())
}
