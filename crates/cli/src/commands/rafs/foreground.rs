//! `mount --foreground` of an array. Its daemon serves the mount, and the command stays until that has ended. A signal unmounts; a
//! second one detaches, if the mount is in use; after a third one the command no longer waits.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::bail;
use stripewise_mount::fuse::{self, Unmount, is_own_mount};
use stripewise_wire::{Reply, Request};

use super::goes_on;
use crate::{
    client::{Attended, Interrupted, NotRunning},
    said::note,
};

/// How often a mount that is in use is tried to be unmounted again.
const RETRY: Duration = Duration::from_secs(1);

/// Waits for the end of the array's mount on this folder, and until all is written out.
///
/// # Errors
/// If not all of it could be written, or the third signal came.
pub(super) fn stay(attended: &mut Attended, point: &Path) -> anyhow::Result<()> {
    let (goes_on, mut end) = (goes_on("mount"), None::<End<'_>>);
    loop {
        match attended.ask(&Request::Unmounted, &goes_on) {
            Ok(Reply::Working { .. }) => {}
            Ok(Reply::Done(_)) => return Ok(()),
            Ok(other) => bail!("{}: unexpected answer {other:?}", attended.name()),
            // The array was stopped. All is written out then, unless it was stopped by force: its log tells that.
            Err(error) if error.is::<NotRunning>() => return Ok(()),
            Err(error) if !error.is::<Interrupted>() => return Err(error),
            Err(error) => {
                end = match end {
                    None => Some(End::new(point, Unmount::Now)),
                    Some(End { how: Unmount::Now, .. }) => Some(End::new(point, Unmount::Detach)),
                    Some(_) => return Err(error),
                };
                attended.hear_again()?;
            }
        }
        end.iter_mut().for_each(End::attempt);
    }
}

/// The end that a signal has asked for.
struct End<'a> {
    point: &'a Path,
    how: Unmount,
    /// When it was tried last.
    tried: Option<Instant>,
    is_told: bool,
}

impl<'a> End<'a> {
    fn new(point: &'a Path, how: Unmount) -> Self {
        Self { point, how, tried: None, is_told: false }
    }

    /// Tries, now and then.
    fn attempt(&mut self) {
        // What else is mounted there by now is none of its business.
        let is_due = self.tried.is_none_or(|tried| tried.elapsed() >= RETRY);
        if !is_due || !is_own_mount(self.point).unwrap_or(true) {
            return;
        }
        self.tried = Some(Instant::now());
        if let Err(error) = fuse::unmount(self.point, self.how)
            && !self.is_told
        {
            self.is_told = true;
            let next = match self.how {
                Unmount::Now => "another signal detaches it",
                Unmount::Detach | Unmount::Abort => "after another signal it is no longer waited for",
            };
            note!("stripewise: {error}; it is tried again, and {next}");
        }
    }
}
