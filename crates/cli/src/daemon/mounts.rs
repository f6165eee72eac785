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

/// How long writing out may stand still before the device is taken away all the same, and how long it may take in all.
const WRITE_OUT_STILL: Duration = Duration::from_secs(10);
const WRITE_OUT_MAX: Duration = Duration::from_secs(600);
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

/// Writes out what file systems on the device and its own cache hold, for as long as the array is written to: `written`
/// says how much it was so far. File systems that no path of ours leads to are written out with all of the machine's.
pub(super) fn write_out(node: &Path, users: &[BlockUser], written: &dyn Fn() -> u64) {
    let give_up = Instant::now() + WRITE_OUT_MAX;
    let is_hidden =
        |user: &BlockUser| matches!(user, BlockUser::Mount { .. }) && user.mount_point().is_none();
    for point in users.iter().filter_map(BlockUser::mount_point) {
        sync(&["--file-system".as_ref(), point.as_os_str()], written, give_up);
    }
    if users.iter().any(is_hidden) {
        sync(&[], written, give_up);
    }
    sync(&[node.as_os_str()], written, give_up);
}

fn sync(arguments: &[&OsStr], written: &dyn Fn() -> u64, give_up: Instant) {
    let Ok(mut child) = Command::new("sync").args(arguments).spawn() else { return };
    let (mut before, mut since) = (written(), Instant::now());
    while let Ok(None) = child.try_wait() {
        let now = written();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        if since.elapsed() >= WRITE_OUT_STILL || Instant::now() >= give_up {
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
