//! Which ways to a block device this machine has.

use std::fmt;

use super::{AttachError, error::Reasons, fuse, kernel_nbd, loopdev};

/// A way to make a block device, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AttachMethod {
    /// The kernel's user-space block driver. It has its place here, but this build does not include it.
    Ublk,
    /// The kernel's NBD client on a socket to a server in this process.
    KernelNbd,
    /// A file served over FUSE, under a loop device.
    FuseLoop,
}

impl AttachMethod {
    /// All methods, in the order of preference.
    pub const ALL: [Self; 3] = [Self::Ublk, Self::KernelNbd, Self::FuseLoop];

    /// Whether this machine and this process can use the method. May load the nbd module.
    ///
    /// # Errors
    /// What is missing, and what to do about it.
    pub fn probe(self) -> Result<(), AttachError> {
        match self {
            // Its probe will be for /dev/ublk-control.
            Self::Ublk => Err(AttachError::NotBuilt(self)),
            Self::KernelNbd => require_root().and_then(|()| kernel_nbd::probe()),
            Self::FuseLoop => require_root()
                .and_then(|()| fuse::open_channel())
                .and_then(|_| loopdev::open_control().map(drop)),
        }
    }
}

impl fmt::Display for AttachMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ublk => "ublk",
            Self::KernelNbd => "kernel nbd",
            Self::FuseLoop => "FUSE file and loop device",
        })
    }
}

/// The best method that works here.
///
/// # Errors
/// [`AttachError::NotRoot`], or [`AttachError::NoMethod`] with each method's reason.
pub fn best_method() -> Result<AttachMethod, AttachError> {
    require_root()?;
    let mut reasons = Vec::new();
    for method in AttachMethod::ALL {
        match method.probe() {
            Ok(()) => return Ok(method),
            Err(error) => reasons.push((method, error)),
        }
    }
    Err(AttachError::NoMethod(Reasons(reasons)))
}

fn require_root() -> Result<(), AttachError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(AttachError::NotRoot) }
}
