//! Makes and ends mounts.
//!
//! Root mounts with mount(2) itself. Others ask `fusermount3`, which is set-user-ID root and hands back the
//! descriptor.

mod clean;
mod direct;
mod error;
mod helper;
mod options;

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::mount::UnmountFlags;

pub use self::{
    clean::{clear_dead_mount, is_dead_mount, is_own_mount, own_mounts, owner_of_mount},
    error::MountError,
    options::{BlockMount, MountOptions},
};
use crate::Errno;

/// The device of the protocol.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// How to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmount {
    /// Now, or not at all if somebody uses the mount.
    Now,
    /// Takes it out of the tree now (`MNT_DETACH`). It is served until its last user is gone.
    Detach,
    /// As `Detach`, and requests under way and to come fail (`MNT_FORCE`). For root alone. To a mount on a block device it is
    /// a `Detach`.
    Abort,
}

impl Unmount {
    fn flags(self) -> UnmountFlags {
        let more = match self {
            Self::Now => UnmountFlags::empty(),
            Self::Detach => UnmountFlags::DETACH,
            Self::Abort => UnmountFlags::DETACH | UnmountFlags::FORCE,
        };
        UnmountFlags::NOFOLLOW | more
    }
}

/// Who has made a mount, and can end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Root,
    Helper,
}

/// A mount. Dropped, it is taken out of the tree.
#[derive(Debug)]
pub struct Mount {
    /// Absolute, and without symbolic links.
    point: PathBuf,
    maker: Maker,
    /// `None` once a session has it.
    descriptor: Option<OwnedFd>,
    is_mounted: bool,
}

impl Mount {
    /// Mounts on the folder `point`, by mount(2); without the right to that, by `fusermount3`. The mount works once a
    /// [`Session`](crate::Session) serves it; until then, whoever looks into it waits.
    ///
    /// # Errors
    /// If there is no `/dev/fuse`, no such folder, no right, or an option does not fit.
    pub fn new(point: &Path, options: &MountOptions) -> Result<Self, MountError> {
        match Self::direct(point, options) {
            Err(MountError::System { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Self::by_helper(point, options)
            }
            result => result,
        }
    }

    /// Mounts by mount(2), which needs root.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn direct(point: &Path, options: &MountOptions) -> Result<Self, MountError> {
        options.check()?;
        let point = resolved(point)?;
        let descriptor = direct::mount(&point, options)?;
        Ok(Self { point, maker: Maker::Root, descriptor: Some(descriptor), is_mounted: true })
    }

    /// Mounts by `fusermount3`.
    ///
    /// # Errors
    /// If it is not installed, or refuses.
    pub fn by_helper(point: &Path, options: &MountOptions) -> Result<Self, MountError> {
        options.check()?;
        let point = resolved(point)?;
        let descriptor = helper::mount(&point, options)?;
        Ok(Self { point, maker: Maker::Helper, descriptor: Some(descriptor), is_mounted: true })
    }

    /// The folder that it is mounted on.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// The descriptor, once.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// The kernel has let go of it. What is on the folder now may be another's mount, unless it is this one, dead.
    pub(crate) fn note_its_end(&mut self) {
        self.is_mounted = is_dead_mount(&self.point).unwrap_or(false);
    }

    /// Ends the mount. If another process has done so, that is as good.
    ///
    /// # Errors
    /// If it is in use, or may not be ended.
    pub fn unmount(&mut self, how: Unmount) -> Result<(), MountError> {
        if !self.is_mounted {
            return Ok(());
        }
        match self.maker {
            Maker::Root => end(&self.point, how)?,
            Maker::Helper => helper::unmount(&self.point, how)?,
        }
        self.is_mounted = false;
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount(Unmount::Detach) {
            tracing::warn!(%error, "a FUSE mount stays behind");
        }
    }
}

/// Ends a mount of this or another process: by umount2(2), and without the right to that by `fusermount3`.
///
/// # Errors
/// If it is in use, or may not be ended.
pub fn unmount(point: &Path, how: Unmount) -> Result<(), MountError> {
    let point = resolved(point)?;
    match end(&point, how) {
        Err(MountError::System { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            helper::unmount(&point, how)
        }
        result => result,
    }
}

/// Unmounts by umount2(2).
fn end(point: &Path, how: Unmount) -> Result<(), MountError> {
    match rustix::mount::unmount(point, how.flags()) {
        // Nothing is mounted there any more.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy { point: point.to_owned() }),
        Err(error) => Err(MountError::system("unmount", point)(error)),
    }
}

fn resolved(point: &Path) -> Result<PathBuf, MountError> {
    std::fs::canonicalize(point).map_err(MountError::system("find the folder", point))
}
