//! File systems on an array's block device, mounted in this process's own mount namespace: unmounted, or written out.
//! What is mounted elsewhere cannot be reached by its path, and is only named.
//!
//! All by processes of their own: a thread of this one that waited for writes which this process serves could not be
//! killed.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use stripewise::export::attach::BlockUser;

/// The longest that writing out may take before the device is taken away all the same.
const WRITE_OUT_WAIT: Duration = Duration::from_secs(10);
const WRITE_OUT_POLL: Duration = Duration::from_millis(10);

/// Unmounts all that can be. What lay below another mount can be once that one has gone, so users are looked at again
/// after each.
pub(super) fn unmount_all(users: impl Fn() -> Vec<BlockUser>, options: &[&str]) {
    while users().iter().filter_map(BlockUser::mount_point).any(|point| unmount(point, options)) {}
}

fn unmount(point: &Path, options: &[&str]) -> bool {
    tracing::info!(point = %point.display(), "unmounting");
    Command::new("umount").args(options).arg(point).status().is_ok_and(|status| status.success())
}

/// Writes out what file systems on the device and its own cache hold, as far as they do in time.
pub(super) fn write_out(node: &Path, users: &[BlockUser]) {
    let deadline = Instant::now() + WRITE_OUT_WAIT;
    for point in users.iter().filter_map(BlockUser::mount_point) {
        sync(["--file-system".as_ref(), point.as_os_str()], deadline);
    }
    sync([node.as_os_str()], deadline);
}

fn sync<'a>(arguments: impl IntoIterator<Item = &'a OsStr>, deadline: Instant) {
    let Ok(mut child) = Command::new("sync").args(arguments).spawn() else { return };
    while let Ok(None) = child.try_wait() {
        if Instant::now() >= deadline {
            tracing::warn!("what is cached of the device could not be written out in time");
            abandon(child);
            return;
        }
        thread::sleep(WRITE_OUT_POLL);
    }
}

/// Kills a process that may take long to die.
fn abandon(mut child: Child) {
    let _ = child.kill();
    thread::spawn(move || child.wait());
}
