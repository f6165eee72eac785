//! Removes what a killed daemon left behind.
//!
//! The kernel ends a FUSE connection with its process, so nothing hangs: every request to such a mount fails
//! with ENOTCONN, and to the loop device on it with EIO. But mount and loop device stay, and would be in the
//! way of a new attachment of the same name. Kernel nbd devices end with their process by themselves.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};

use super::{
    AttachError, AttachOptions, blockdev,
    fuse::MOUNT_KIND,
    loopdev,
    mounts::{self, Mount},
    users::{BlockUser, users_of},
};

/// What [`clean_stale`] found and did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// Mount points of dead servers, now unmounted.
    pub mounts: Vec<PathBuf>,
    /// Loop devices on them, now unbound.
    pub loop_devices: Vec<PathBuf>,
    /// Loop devices on them that are still in use. They are dead (every request fails), and disappear once
    /// the named users do: unmount the file systems.
    pub in_use: Vec<(PathBuf, Vec<BlockUser>)>,
}

/// Finds mounts under `runtime_dir` whose server is dead, unbinds the loop devices on them and unmounts them.
/// Live attachments are left alone.
///
/// # Errors
/// If mounts cannot be read or cleared, mostly for lack of privilege.
pub fn clean_stale(runtime_dir: &Path) -> Result<Cleaned, AttachError> {
    clean(runtime_dir, |mount, folder| mounts::lies_under(&mount.point, folder))
}

/// [`clean_stale`] for the remains of an attachment with these options, and nothing else.
///
/// # Errors
/// As [`clean_stale`].
pub fn clean_stale_of(options: &AttachOptions) -> Result<Cleaned, AttachError> {
    let point = options.mount_point();
    let name = point.file_name().unwrap_or_default();
    clean(&options.runtime_dir, |mount, folder| mount.point == folder.join(name))
}

fn clean(runtime_dir: &Path, is_meant: impl Fn(&Mount, &Path) -> bool) -> Result<Cleaned, AttachError> {
    let mut cleaned = Cleaned::default();
    let folder = match fs::canonicalize(runtime_dir) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(cleaned),
        Err(error) => return Err(AttachError::system("find", runtime_dir)(error)),
    };
    let mounts = mounts::own().map_err(AttachError::system("read", "/proc/self/mountinfo"))?;
    let is_ours = |mount: &&Mount| mount.kind == MOUNT_KIND && is_meant(mount, &folder);
    // Newest first, as one mount may cover another.
    for mount in mounts.iter().rev().filter(is_ours).filter(|mount| is_dead(&mount.point)) {
        clear(&mount.point, &mut cleaned)?;
    }
    Ok(cleaned)
}

/// Asks the server: statfs is never answered from a cache.
fn is_dead(point: &Path) -> bool {
    matches!(rustix::fs::statfs(point), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

fn clear(point: &Path, cleaned: &mut Cleaned) -> Result<(), AttachError> {
    for (node, _) in loopdev::all_bound().into_iter().filter(|(_, backing)| backing.starts_with(point)) {
        release(node, cleaned)?;
    }
    unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        .map_err(AttachError::system("unmount", point))?;
    let _ = fs::remove_dir(point);
    cleaned.mounts.push(point.to_owned());
    Ok(())
}

fn release(node: PathBuf, cleaned: &mut Cleaned) -> Result<(), AttachError> {
    loopdev::clear_node(&node)?;
    blockdev::untune(&node);
    let holders: Vec<_> =
        users_of(&node).found.into_iter().filter(|u| !matches!(u, BlockUser::Process { .. })).collect();
    if holders.is_empty() && blockdev::wait_gone(&node, || loopdev::backing_of(&node).is_none()).is_ok() {
        cleaned.loop_devices.push(node);
    } else {
        let users = users_of(&node).found;
        cleaned.in_use.push((node, users));
    }
    Ok(())
}
