//! What loop and nbd devices have in common once they exist: claiming them for removal, and tuning.

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
    users::{self, BlockUser, BlockUsers, users_of},
};

/// How long a process that merely has the device open may take to close it: udev looks at every new device.
const OPENER_WAIT: Duration = Duration::from_secs(2);
/// How long the kernel may take to remove an unused device.
const GONE_WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// Polled during a wait that may hang; false gives up.
pub(super) type GoesOn<'a> = &'a mut dyn FnMut() -> bool;

/// Opens the device exclusively, which keeps others from mounting it.
///
/// # Errors [`AttachError::InUse`] if the device has users, apart from `own_descriptors` of this process;
/// [`AttachError::UsersUnknown`] if they cannot be determined.
fn claim(node: &Path, own_descriptors: usize) -> Result<File, AttachError> {
    let deadline = Instant::now() + OPENER_WAIT;
    loop {
        let BlockUsers { found: mut users, is_complete } = users_of(node);
        if users::own_descriptors(node) == own_descriptors {
            users.retain(|user| !is_self(user));
        }
        check_known(node, &users, is_complete)?;
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

/// Refuses to report no users if the search was not complete.
fn check_known(node: &Path, found: &[BlockUser], is_complete: bool) -> Result<(), AttachError> {
    if found.is_empty() && !is_complete {
        return Err(AttachError::UsersUnknown { block: node.to_owned() });
    }
    Ok(())
}

fn is_self(user: &BlockUser) -> bool {
    matches!(user, BlockUser::Process { pid, .. } if *pid == std::process::id())
}

/// Read-only, because udev probes a device anew when a writer closes it.
fn open_alone(node: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(node)
}

/// Claims the device as [`claim`] does, and writes out its cached data, for as long as `goes_on` allows.
/// Another process does that: a thread of this one could never be killed while it waits for writes that this
/// process serves.
pub(super) fn claim_written_out(
    node: &Path,
    own_descriptors: usize,
    goes_on: GoesOn<'_>,
) -> Result<File, AttachError> {
    // Do not begin what would be given up at once.
    if !goes_on() {
        return Err(AttachError::NotWrittenOut { block: node.to_owned() });
    }
    let claimed = claim(node, own_descriptors)?;
    let spawned = Command::new("sync").arg(node).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    match spawned {
        Ok(child) => wait_for_sync(claimed, child, node, goes_on),
        Err(error) => {
            tracing::debug!(%error, "there is no program `sync`");
            sync_here(claimed, node, goes_on)
        }
    }
}

fn wait_for_sync(
    claimed: File,
    mut child: Child,
    node: &Path,
    goes_on: GoesOn<'_>,
) -> Result<File, AttachError> {
    let failed = AttachError::system("write out the cached data of", node);
    loop {
        match child.try_wait().map_err(AttachError::system("wait for the program `sync` on", node))? {
            Some(status) if status.success() => return Ok(claimed),
            // Do not try it here as well: if somebody killed `sync` because it hung, this would hang too.
            Some(status) => return Err(failed(io::Error::other(format!("`sync`: {status}")))),
            None if goes_on() => thread::sleep(POLL),
            None => {
                // Before `sync` closes the device: the last one to close it would wait for the writes.
                drop(claimed);
                abandon(child);
                return Err(AttachError::NotWrittenOut { block: node.to_owned() });
            }
        }
    }
}

/// Without the program `sync`: on a thread, which keeps the device claimed if it hangs.
fn sync_here(claimed: File, node: &Path, goes_on: GoesOn<'_>) -> Result<File, AttachError> {
    let failed = || AttachError::system("write out the cached data of", node);
    let sync = move || claimed.sync_all().map(|()| claimed);
    let thread = thread::Builder::new().name("stripewise-sync".into()).spawn(sync).map_err(failed())?;
    while !thread.is_finished() {
        if !goes_on() {
            return Err(AttachError::NotWrittenOut { block: node.to_owned() });
        }
        thread::sleep(POLL);
    }
    let synced = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
    synced.map_err(failed())
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

/// The number that the kernel gives to each new content of a disk; empty where it gives none. A node that is
/// bound anew has another.
pub fn sequence_of(node: &Path) -> String {
    let sequence = fs::read_to_string(sysfs(node).join("diskseq")).unwrap_or_default();
    sequence.trim().to_owned()
}

/// Sets the queue for a device with an array behind it. Refusals do no harm.
///
/// The kernel keeps these settings with the node, not with its binding: call [`untune`] at the end.
pub(super) fn tune(node: &Path, media: MediaKind) {
    // File systems and schedulers use it: ext4 spreads its files differently over a disk that seeks.
    set(node, "rotational", if media == MediaKind::Hdd { "1" } else { "0" });
    // Whole requests of the layer below: the default, 1280 KiB, would be cut into 1 MiB and a rest.
    set(node, "max_sectors_kb", "1024");
    // Reading one file from several members at once needs more read-ahead than the default 128 KiB.
    set(node, "read_ahead_kb", "1024");
}

/// Restores the kernel's defaults, for the node's next user.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed() -> File {
        tempfile::tempfile().unwrap()
    }

    fn child(program: &str, argument: &str) -> Child {
        Command::new(program).arg(argument).spawn().unwrap()
    }

    #[test]
    fn a_search_that_did_not_end_does_not_make_a_device_free() {
        let node = Path::new("/dev/loop0");
        assert!(check_known(node, &[], true).is_ok());
        let said = check_known(node, &[], false).unwrap_err();
        assert!(matches!(said, AttachError::UsersUnknown { .. }), "{said}");
        assert!(check_known(node, &[BlockUser::Swap], false).is_ok(), "they are told of by name");
    }

    #[test]
    fn nothing_is_begun_where_nobody_waits() {
        let node = Path::new("/nonexistent");
        let said = claim_written_out(node, 0, &mut || false).unwrap_err();
        assert!(matches!(said, AttachError::NotWrittenOut { .. }), "{said}");
    }

    #[test]
    fn a_sync_that_fails_or_is_killed_is_an_error_and_one_that_hangs_is_left() {
        let node = Path::new("/dev/loop0");
        let wait = |child, goes_on: GoesOn<'_>| wait_for_sync(claimed(), child, node, goes_on);
        assert!(wait(child("true", ""), &mut || true).is_ok());
        let failed = wait(child("false", ""), &mut || true).unwrap_err();
        assert!(matches!(failed, AttachError::System { .. }), "{failed}");
        let mut killed = child("sleep", "1000");
        killed.kill().unwrap();
        let killed = wait(killed, &mut || true).unwrap_err();
        assert!(matches!(killed, AttachError::System { .. }), "{killed}");
        let hangs = wait(child("sleep", "1000"), &mut || false).unwrap_err();
        assert!(matches!(hangs, AttachError::NotWrittenOut { .. }), "{hangs}");
        assert!(sync_here(claimed(), node, &mut || true).is_ok());
    }
}
