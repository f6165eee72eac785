//! What is left of an array's block device once nothing stands behind it: a device on which every request
//! fails, kept by a file system that is still mounted or by a process. A killed daemon also leaves its
//! socket, lock file and FUSE mount.
//!
//! The kernel no longer tells which array such a device belonged to, so the run directory keeps a list until
//! the devices are gone.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use stripewise::export::attach::{self, AttachOptions, users_of};
use stripewise_wire::Notes;

use super::{
    link,
    mounts::unmount_all,
    name::NameLock,
    patience::{Deadline, Patience},
};
use crate::rundir::{make_run_dir, remains_path, run_dir, socket_path};

/// How long a device may take to go after its last mount has gone.
const GONE_WAIT: Duration = Duration::from_secs(2);
const GONE_POLL: Duration = Duration::from_millis(10);

/// A dead block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadDevice {
    node: PathBuf,
    /// The kernel's number for the device's contents: the node's next user has another.
    sequence: String,
}

impl DeadDevice {
    /// The device as it is now. The caller must know whose it is.
    pub(super) fn at(node: &Path) -> Self {
        Self { node: node.to_owned(), sequence: attach::sequence_of(node) }
    }

    fn is_left(&self) -> bool {
        let is_nbd = self.node.as_os_str().as_encoded_bytes().starts_with(b"/dev/nbd");
        let folder = attach::sysfs(&self.node);
        let is_there = match is_nbd {
            // A device that a process serves again is not dead.
            true => !folder.join("pid").exists() && !users_of(&self.node).is_nobody(),
            false => folder.join("loop/backing_file").exists(),
        };
        is_there && Self::at(&self.node) == *self
    }

    fn parse(line: &str) -> Option<Self> {
        let (sequence, node) = line.split_once(' ')?;
        Some(Self { node: node.into(), sequence: sequence.to_owned() })
    }

    /// Says who keeps the device, and what to do.
    fn describe(&self) -> String {
        let users = users_of(&self.node).found;
        let told = users.iter().map(|user| match user.mount_point() {
            Some(point) => format!("{user}, `umount --lazy {}` ends that", point.display()),
            None => user.to_string(),
        });
        let told: Vec<_> = told.collect();
        let who = if told.is_empty() { "somebody has a file open on it".to_owned() } else { told.join("; ") };
        format!("{} fails every request now, and is kept: {who}", self.node.display())
    }

    /// Unmounts lazily, as nothing can be written to the device any more.
    fn unmount(&self) {
        let patience = Patience::while_written(&|| 0, Deadline::of_command());
        unmount_all(|| users_of(&self.node).found, &["--lazy"], patience);
        let deadline = Instant::now() + GONE_WAIT;
        while self.is_left() && Instant::now() < deadline {
            thread::sleep(GONE_POLL);
        }
    }
}

/// Clears what is left of an array that no daemon runs. With `force`, also unmounts file systems that are
/// still mounted. Returns what is still kept, and by whom.
///
/// # Errors
/// If a daemon of this name is alive.
pub(crate) fn clear(name: &str, force: bool) -> anyhow::Result<Notes> {
    let _name = NameLock::take(&make_run_dir()?, name)?;
    clear_unused(name);
    if force {
        kept(name).iter().for_each(DeadDevice::unmount);
    }
    Ok(tell(name))
}

/// Does the same without force, for the holder of the name.
pub(super) fn clear_under_lock(name: &str) -> Notes {
    clear_unused(name);
    tell(name)
}

/// Whether an array without a socket left something to clear.
pub(crate) fn are_listed(name: &str) -> bool {
    remains_path(name).exists()
}

/// Takes note of a device that was taken from its users, and says who keeps it.
pub(super) fn take_note(name: &str, device: DeadDevice) -> Notes {
    if device.is_left() {
        let told = vec![device.describe()];
        add(name, [device]);
        return told;
    }
    Notes::new()
}

fn clear_unused(name: &str) {
    let _ = fs::remove_file(socket_path(name));
    // A killed daemon's nbd device ends with the daemon, but file systems mounted from it do not.
    let linked = link::node(name).filter(|node| node.starts_with("/dev/nbd"));
    link::remove(name);
    let cleaned = attach::clean_stale_of(&AttachOptions::new(run_dir(), name)).unwrap_or_else(|error| {
        tracing::warn!(%error, "remains of a killed daemon could not be removed");
        Default::default()
    });
    tracing::debug!(?cleaned, "looked for remains of a killed daemon");
    let in_use = cleaned.in_use.into_iter().map(|(node, _)| node).chain(linked);
    add(name, in_use.map(|node| DeadDevice::at(&node)));
}

fn tell(name: &str) -> Notes {
    let kept = kept(name);
    if kept.is_empty() {
        let _ = fs::remove_file(remains_path(name));
    }
    kept.iter().map(DeadDevice::describe).collect()
}

/// The devices on the list that are still there.
fn kept(name: &str) -> Vec<DeadDevice> {
    let list = fs::read_to_string(remains_path(name)).unwrap_or_default();
    list.lines().filter_map(DeadDevice::parse).filter(DeadDevice::is_left).collect()
}

fn add(name: &str, devices: impl IntoIterator<Item = DeadDevice>) {
    let mut list = kept(name);
    for device in devices {
        if device.is_left() && !list.contains(&device) {
            list.push(device);
        }
    }
    if list.is_empty() {
        return;
    }
    let lines = list.iter().map(|device| format!("{} {}\n", device.sequence, device.node.display()));
    if let Err(error) = fs::write(remains_path(name), lines.collect::<String>()) {
        tracing::warn!(%error, "cannot write down what is left of the block device");
    }
}
