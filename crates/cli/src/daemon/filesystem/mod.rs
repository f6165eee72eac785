//! The array's own file system: made, looked at and mounted in this process, over the array's rows and blocks.
//!
//! One use at a time ([`FileSystem`]), and none beside a block device or NBD servers: whatever begins takes the exports' lock,
//! looks whether all others rest, and claims its use before it lets go of the lock. What takes long goes on on a thread of its
//! own, and commands ask how far it has come ([`Working`]).

mod ending;
mod ground;
mod mounting;
mod requests;
mod work;

use std::{
    path::Path,
    sync::{Arc, mpsc::Sender},
};

use anyhow::bail;
use parking_lot::{Condvar, Mutex};
use stripewise_mount::fuse::own_mounts;
use stripewise_wire::MountedStatus;

use self::mounting::Event;
pub(super) use self::work::Working;
use crate::printable::printable;

/// What goes on with the file system while a command waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Make,
    Mount,
    Check,
    Mend,
    Look,
}

impl Work {
    /// What to tell others.
    fn told(self) -> &'static str {
        match self {
            Self::Make => "a file system is being made on it",
            Self::Mount => "its file system is being mounted",
            Self::Check => "its file system is being checked",
            Self::Mend => "its file system is being mended",
            Self::Look => "a command reads its file system",
        }
    }

    /// Whether it only reads, so that it may fail halfway.
    fn only_reads(self) -> bool {
        matches!(self, Self::Check | Self::Look)
    }
}

/// What uses the file system.
#[derive(Debug, Default)]
enum Use {
    #[default]
    None,
    Work(Work),
    Mounted {
        status: MountedStatus,
        /// To the thread that waits for its end.
        tell: Sender<Event>,
    },
}

#[derive(Debug, Default)]
struct State {
    used: Use,
    /// The array is being stopped.
    is_closed: bool,
    /// Why the last mount did not end well.
    lost: Option<String>,
}

/// The use of an array's file system.
#[derive(Debug, Default)]
pub(super) struct FileSystem {
    state: Mutex<State>,
    changed: Condvar,
}

/// A use that has begun. Dropped, it ends.
struct Claim(Arc<FileSystem>);

impl FileSystem {
    /// What is mounted.
    pub(super) fn mounted(&self) -> Option<MountedStatus> {
        match &self.state.lock().used {
            Use::Mounted { status, .. } => Some(status.clone()),
            Use::None | Use::Work(_) => None,
        }
    }

    /// Why the last mount did not end well, for people.
    pub(super) fn lost(&self) -> Option<String> {
        self.state.lock().lost.clone()
    }

    /// Refuses while it is in use.
    pub(super) fn check_unused(&self) -> anyhow::Result<()> {
        self.state.lock().check_unused()
    }

    /// Claims it, if it is not in use.
    fn claim(self: &Arc<Self>, work: Work) -> anyhow::Result<Claim> {
        let mut state = self.state.lock();
        state.check_unused()?;
        if state.is_closed {
            bail!("the array is being stopped; `stripewise stop` waits for that");
        }
        state.used = Use::Work(work);
        Ok(Claim(self.clone()))
    }

    /// The end of a use. `lost` says why it was a bad one.
    fn release(&self, lost: Option<String>) {
        let mut state = self.state.lock();
        state.used = Use::None;
        if lost.is_some() {
            state.lost = lost;
        }
        self.changed.notify_all();
    }
}

impl State {
    fn check_unused(&self) -> anyhow::Result<()> {
        match &self.used {
            Use::None => Ok(()),
            Use::Work(work) => bail!("{}; wait for that, and try again", work.told()),
            Use::Mounted { status, .. } => bail!("{}", in_use(&status.point)),
        }
    }
}

/// What to say about a mount that is in the way.
fn in_use(point: &Path) -> String {
    let told = printable(&point.display().to_string());
    let is_detached = own_mounts().is_ok_and(|mounts| !mounts.iter().any(|mount| mount == point));
    match is_detached {
        true => {
            format!("its file system was detached from {told}, and is in use still; close what is open in it")
        }
        false => format!("its file system is mounted on {told}; `stripewise umount {told}` first"),
    }
}

impl Claim {
    /// The use is a mount from now on, which ends by [`FileSystem::release`].
    fn mounted(self, status: MountedStatus, tell: Sender<Event>) {
        let mut state = self.0.state.lock();
        state.used = Use::Mounted { status, tell };
        state.lost = None;
        self.0.changed.notify_all();
        drop(state);
        std::mem::forget(self);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.release(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_uses_it_at_a_time_and_is_named_to_others() {
        let own = Arc::new(FileSystem::default());
        let claim = own.claim(Work::Check).unwrap();
        let said = own.claim(Work::Make).err().unwrap().to_string();
        assert!(said.contains("being checked"), "{said}");
        assert!(own.check_unused().is_err());
        drop(claim);
        let (tell, _events) = std::sync::mpsc::channel();
        let status = MountedStatus { point: "/srv".into(), ..MountedStatus::default() };
        own.claim(Work::Mount).unwrap().mounted(status, tell);
        assert_eq!(own.mounted().unwrap().point, Path::new("/srv"));
        let said = own.check_unused().unwrap_err().to_string();
        assert!(said.contains("detached from /srv"), "nothing is mounted there: {said}");
        own.release(Some("why".to_owned()));
        assert!(own.mounted().is_none() && own.check_unused().is_ok());
        assert_eq!(own.lost().as_deref(), Some("why"));
    }
}
