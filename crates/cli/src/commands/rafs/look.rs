//! A look at a file system that is mounted: the process that serves it looks, and tells by an attribute of the root.

use std::{path::Path, thread, time::Duration};

use anyhow::{anyhow, bail};
use rustix::io::Errno;
use stripewise_mount::report::{BEGIN_LOOK_ATTRIBUTE, LOOK_ATTRIBUTE, Look, LookFound, LookStep, Report};
use stripewise_wire::CheckedStatus;

use super::canceled::{Under, Watch};
use crate::{printable::printable, progress::StepsBar};

/// How often it is asked.
const POLL: Duration = Duration::from_millis(100);
/// The longest value of an attribute.
const BYTES_MAX: usize = 64 << 10;

/// Has the file system that is mounted there make a checkpoint and look at its tree, and shows a bar.
///
/// # Errors
/// If it cannot be looked at.
pub(super) fn look(point: &Path, report: &Report, watch: &Watch) -> anyhow::Result<CheckedStatus> {
    let told = || printable(&point.display().to_string());
    let mut look = asked(point, BEGIN_LOOK_ATTRIBUTE).map_err(|error| match error {
        Errno::PERM => anyhow!("{}: only root, and the user who mounted it, can have it looked at", told()),
        Errno::BUSY => anyhow!("{}: it is being looked at already; wait for that, and try again", told()),
        Errno::OPNOTSUPP => {
            anyhow!("{}: an older release serves this mount, and cannot look at it; unmount it first", told())
        }
        other => anyhow!("{}: {other}", told()),
    })?;
    let bar = StepsBar::new();
    watch.set(Some(Under { bar: bar.clone(), mends: false }));
    loop {
        match look {
            Look::UnderWay(LookStep { what, done, all }) => bar.show(&what, done, all),
            Look::Failed(why) => bail!("{}: {why}", told()),
            Look::Found(found) => {
                watch.set(None);
                bar.clear();
                return Ok(status(point, report, found));
            }
        }
        thread::sleep(POLL);
        look = asked(point, LOOK_ATTRIBUTE).map_err(|error| match error {
            Errno::OPNOTSUPP | Errno::NODATA | Errno::NOTCONN | Errno::NOENT | Errno::IO => {
                anyhow!("{}: it was unmounted meanwhile; look at it again", told())
            }
            other => anyhow!("{}: {other}", told()),
        })?;
    }
}

/// What an attribute tells.
fn asked(point: &Path, attribute: &str) -> Result<Look, Errno> {
    let mut value = vec![0; BYTES_MAX];
    let len = rustix::fs::getxattr(point, attribute, &mut value[..])?;
    serde_json::from_slice(&value[..len]).map_err(|_| Errno::BADMSG)
}

fn status(point: &Path, report: &Report, found: LookFound) -> CheckedStatus {
    let LookFound { inodes, folders, orphans, file_blocks, nodes, counts, problems } = found;
    CheckedStatus {
        target: report.identity.target.clone(),
        uuid: report.identity.uuid.clone(),
        clean: counts.is_empty(),
        inodes,
        folders,
        orphans,
        file_blocks,
        nodes,
        counts,
        problems,
        mounted: Some(point.to_owned()),
        ..CheckedStatus::default()
    }
}
