//! The commands of the file system: `mkfs`, `mount`, `umount`, `fsck`, `dump` and `df`.

mod args;
pub(crate) mod df;
pub(crate) mod dump;
pub(crate) mod fsck;
mod geometry;
pub(crate) mod mkfs;
pub(crate) mod mount;
pub(crate) mod umount;

use std::{path::Path, sync::Arc};

use anyhow::{Context, bail};
use stripewise::Host;
use stripewise_mount::{
    report::{ATTRIBUTE, Report},
    target::{self, Found},
};

use crate::daemon;

/// The longest report that is read, in bytes.
const REPORT_BYTES_MAX: usize = 16 << 10;

/// What the file system that is mounted on this folder tells; none if no RAFS is.
///
/// # Errors
/// If the folder cannot be looked into, as where the server has died.
fn report_of(point: &Path) -> anyhow::Result<Option<Report>> {
    use rustix::io::Errno;
    let mut value = vec![0; REPORT_BYTES_MAX];
    match rustix::fs::getxattr(point, ATTRIBUTE, &mut value[..]) {
        Ok(len) => Ok(Some(serde_json::from_slice(&value[..len]).context("reading the mount's report")?)),
        Err(Errno::OPNOTSUPP | Errno::NODATA | Errno::INVAL) => Ok(None),
        Err(Errno::NOTCONN | Errno::CONNABORTED) => {
            let point = point.display();
            bail!("{point}: the server of this mount has died; `stripewise umount {point}` clears it")
        }
        Err(error) => Err(error).with_context(|| point.display().to_string()),
    }
}

/// Opens the file system of a target that is not mounted, for this process alone.
fn open(host: &Host, path: &str) -> anyhow::Result<Found> {
    let device = Arc::new(daemon::open_exclusively(host, path)?);
    Ok(host.block_on(async move { target::find(device).await })?)
}

/// As [`open`], also if only the last copy of the superblock is left.
fn open_damaged(host: &Host, path: &str) -> anyhow::Result<Found> {
    let device = Arc::new(daemon::open_exclusively(host, path)?);
    Ok(host.block_on(async move { target::find_damaged(device).await })?)
}
