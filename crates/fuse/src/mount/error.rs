//! Why a mount cannot be made or ended.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// A mount that cannot be made or ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The kernel's device is missing.
    #[error(
        "/dev/fuse cannot be opened ({0}): load the kernel module `fuse`, or let the container have the device"
    )]
    NoDevice(#[source] io::Error),
    /// The helper is missing.
    #[error("mount(2) is not permitted, and `fusermount3` cannot be run ({0}): be root, or install fuse3")]
    NoHelper(#[source] io::Error),
    /// The helper has refused.
    #[error("fusermount3 refuses to {what} {}: {said}", point.display())]
    Helper {
        /// What it should do.
        what: &'static str,
        /// The mount point.
        point: PathBuf,
        /// What it said.
        said: String,
    },
    /// Somebody uses the mount.
    #[error("{} is in use: end what uses it, or detach it", point.display())]
    Busy {
        /// The mount point.
        point: PathBuf,
    },
    /// An option does not fit.
    #[error("mount option {option} is refused: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// What would do.
        why: &'static str,
    },
    /// What should be cleared is no dead mount of ours.
    #[error("{}: {why}", point.display())]
    NotOurs {
        /// The folder.
        point: PathBuf,
        /// What it is.
        why: &'static str,
    },
    /// The system has refused.
    #[error("cannot {what} {} ({source})", path.display())]
    System {
        /// What should be done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl MountError {
    /// For `map_err`.
    pub(super) fn system<E: Into<io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |error| Self::System { what, path: path.to_owned(), source: error.into() }
    }
}
