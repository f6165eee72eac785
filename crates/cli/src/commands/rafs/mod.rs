//! The commands of the file system: `mkfs`, `mount`, `umount`, `fsck`, `dump`, `df` and `stat`.

mod args;
mod buffer;
mod canceled;
pub(crate) mod df;
pub(crate) mod dump;
mod foreground;
pub(crate) mod fsck;
mod geometry;
mod helper;
mod look;
pub(crate) mod mkfs;
pub(crate) mod mount;
mod options;
mod place;
pub(crate) mod stat;
pub(crate) mod umount;

pub(crate) use helper::{Called, FAILED as HELPER_FAILED, called};

use std::{path::Path, sync::Arc};

use anyhow::{Context, bail};
use stripewise::Host;
use stripewise_mount::{
    report::{ATTRIBUTE, Report},
    target::Found,
};
use stripewise_wire::{Reply, Request};

use crate::{
    client::{self, Attended},
    daemon,
    progress::WorkBar,
    rafs::{find, find_damaged},
};

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

/// Has the daemon do something with the array's file system, and shows a bar while that takes long. Interrupted, it goes on.
fn worked(name: &str, request: &Request, what: &'static str) -> anyhow::Result<Reply> {
    client::check_knows(name, request)?;
    worked_for(&mut Attended::new(name)?, request, what)
}

/// As [`worked`], of a daemon that knows the request, for a command that waits for the daemon afterwards, too.
fn worked_for(attended: &mut Attended, request: &Request, what: &'static str) -> anyhow::Result<Reply> {
    let name = attended.name().to_owned();
    let goes_on = goes_on(what);
    let mut bar = WorkBar::new(what);
    let mut answer = attended.ask(request, &goes_on)?;
    let mut work = None;
    loop {
        match answer {
            Reply::Working { done_bytes, work: of, step } => {
                bar.show(&name, done_bytes, step.as_ref());
                work = work.or(of);
            }
            done => return Ok(done),
        }
        answer = attended.ask(&Request::Worked { work }, &goes_on)?;
    }
}

/// What becomes of work that is no longer waited for.
fn goes_on(what: &str) -> String {
    format!("the {what} goes on in the array's daemon")
}

/// Opens the file system of a target that is not mounted, for this process alone, to read it.
fn open(host: &Host, path: &str) -> anyhow::Result<Found> {
    find(host, path, Arc::new(daemon::open_to_read(host, path)?))
}

/// Opens it, also if only the last copy of the superblock is left. May it be mended, it is opened for writing, too.
fn open_damaged(host: &Host, path: &str, may_mend: bool) -> anyhow::Result<Found> {
    let open = if may_mend { daemon::open_exclusively } else { daemon::open_to_read };
    find_damaged(host, path, Arc::new(open(host, path)?))
}
