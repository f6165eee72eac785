//! Why a session does not begin, or has ended badly.

use std::io;

use thiserror::Error;

use crate::{Errno, MountError, protocol::MINOR_MIN};

/// A session that did not begin, or ended badly.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The kernel is too old.
    #[error("the kernel speaks FUSE {major}.{minor}, and 7.{MINOR_MIN} is the least: use Linux 5.4 or later")]
    OldKernel {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The mount went away before the session had begun.
    #[error("the mount was ended before its session began: mount again")]
    Gone,
    /// Something else than INIT came first.
    #[error(
        "the kernel did not begin with INIT but with opcode {opcode}: the descriptor is not that of a new mount"
    )]
    NoInit {
        /// What came.
        opcode: u32,
    },
    /// A request could not be read from the kernel.
    #[error("requests cannot be read from /dev/fuse ({0}): unmount, and mount again")]
    Receive(#[source] Errno),
    /// A thread could not be started.
    #[error("no thread for requests can be started ({0}): see the limits of processes and memory")]
    Thread(#[source] io::Error),
    /// The mount could not be ended.
    #[error(transparent)]
    Mount(#[from] MountError),
}
