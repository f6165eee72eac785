//! What loop and nbd devices have in common once they are there: being claimed for removal, and tuned.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use stripewise_device::MediaKind;

use super::{
    AttachError,
    users::{self, BlockUser, users_of},
};

/// How long a process that merely has the device open may take to close it: udev looks at every new device.
const OPENER_WAIT: Duration = Duration::from_secs(2);
/// How long the kernel may take to remove a device that nobody uses.
const GONE_WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// Asked again and again while something is waited for that may hang: whether to go on.
pub(super) type GoesOn<'a> = &'a mut dyn FnMut() -> bool;

/// Opens the device for us alone, which keeps others from mounting it.
///
/// # Errors
/// [`AttachError::InUse`] if somebody uses it, apart from `own_descriptors` of this process.
pub(super) fn claim(node: &Path, own_descriptors: usize) -> Result<File, AttachError> {
    let deadline = Instant::now() + OPENER_WAIT;
    loop {
        let mut users = users_of(node);
        if users::own_descriptors(node) == own_descriptors {
            users.retain(|user| !is_self(user));
        }
        if users.is_empty() {
            match open_alone(node) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                result => return result.map_err(AttachError::system("open", node)),
            }
        }
        let may_leave = users.iter().all(|user| matches!(user, BlockUser::Process { .. }));
        if !may_leave || Instant::now() >= deadline {
            return Err(AttachError::InUse { block: node.to_owned(), users });
        }
        thread::sleep(POLL);
    }
}

fn is_self(user: &BlockUser) -> bool {
    matches!(user, BlockUser::Process { pid, .. } if *pid == std::process::id())
}

/// Read-only, because udev probes a device anew when a writer closes it.
fn open_alone(node: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(node)
}

/// Writes out what is cached of the device, for as long as somebody waits: by another process, because a thread of this one
/// that waited for writes which this process serves could never be killed.
pub(super) fn write_out(claimed: File, node: &Path, goes_on: GoesOn<'_>) -> Result<File, AttachError> {
    let spawned = Command::new("sync").arg(node).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else { return sync_here(claimed, node) };
    loop {
        match child.try_wait().map_err(AttachError::system("wait for the program `sync` on", node))? {
            Some(status) if status.success() => return Ok(claimed),
            Some(_) => return sync_here(claimed, node),
            None if goes_on() => thread::sleep(POLL),
            None => {
                // Before the other lets go: the last one to close the device would wait in its place.
                drop(claimed);
                abandon(child);
                return Err(AttachError::NotWrittenOut { block: node.to_owned() });
            }
        }
    }
}

/// Where there is no such program, or it failed: with an error that the file was opened early enough to be told too.
fn sync_here(claimed: File, node: &Path) -> Result<File, AttachError> {
    claimed.sync_all().map_err(AttachError::system("write out the cached data of", node))?;
    Ok(claimed)
}

/// Kills a process that may take long to die.
fn abandon(mut child: Child) {
    let _ = child.kill();
    let collected = thread::Builder::new().name("stripewise-linger".into()).spawn(move || child.wait());
    if let Err(error) = collected {
        tracing::debug!(%error, "a process that hangs is not collected");
    }
}

/// Waits until `is_gone`.
pub(super) fn wait_gone(node: &Path, is_gone: impl Fn() -> bool) -> Result<(), AttachError> {
    let deadline = Instant::now() + GONE_WAIT;
    while !is_gone() {
        if Instant::now() >= deadline {
            return Err(AttachError::StillThere { what: node.to_owned(), waited_s: GONE_WAIT.as_secs() });
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// A block device's folder in sysfs.
pub fn sysfs(node: &Path) -> PathBuf {
    Path::new("/sys/block").join(node.file_name().unwrap_or_default())
}

/// The number that the kernel gives to each new content of a disk, empty where it does not: a node that is bound anew
/// has another.
pub fn sequence_of(node: &Path) -> String {
    let sequence = fs::read_to_string(sysfs(node).join("diskseq")).unwrap_or_default();
    sequence.trim().to_owned()
}

/// Sets the queue for a device behind which an array stands. Refusals do no harm.
///
/// The kernel keeps these settings with the node, not with what it is bound to: [`untune`] belongs to the end.
pub(super) fn tune(node: &Path, media: MediaKind) {
    // File systems and schedulers go by it: ext4 spreads its files otherwise over what seeks.
    set(node, "rotational", if media == MediaKind::Hdd { "1" } else { "0" });
    // Whole requests of the layer below: 1280 KiB, the default, would be cut into 1 MiB and a rest.
    set(node, "max_sectors_kb", "1024");
    // Reading one file from several members at once takes more than the default 128 KiB ahead.
    set(node, "read_ahead_kb", "1024");
}

/// Puts the kernel's defaults back, for the node's next user.
pub(super) fn untune(node: &Path) {
    // Zero asks for the default.
    set(node, "max_sectors_kb", "0");
    set(node, "read_ahead_kb", "128");
    set(node, "rotational", "0");
}

fn set(node: &Path, name: &str, value: &str) {
    let path = sysfs(node).join("queue").join(name);
    if let Err(error) = fs::write(&path, value) {
        tracing::debug!(path = %path.display(), %error, "queue setting refused");
    }
}
