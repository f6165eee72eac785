//! What can go wrong on the way to a block device, with a remedy for each.

use std::{fmt, io, path::PathBuf};

use thiserror::Error;

use super::{AttachMethod, users::BlockUser};
use crate::nbd::ServerError;

/// A failed attach, detach or clean-up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The caller lacks the right to make block devices.
    #[error("making a block device needs root: run as root, or use `serve` and an NBD client instead")]
    NotRoot,
    /// This build does not include the method.
    #[error("{0} is not part of this build: choose another method")]
    NotBuilt(AttachMethod),
    /// The kernel lacks a facility.
    #[error("{} is not usable ({source}): {remedy}", node.display())]
    Missing {
        /// The device node of the facility.
        node: PathBuf,
        /// How to get it.
        remedy: &'static str,
        /// The error of opening it.
        source: io::Error,
    },
    /// No method works here.
    #[error("this machine offers no way to make a block device:{0}")]
    NoMethod(Reasons),
    /// An option does not fit the device or this machine.
    #[error("{option} {value} is refused: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// The value given.
        value: String,
        /// Which values would do.
        why: String,
    },
    /// Every device node of a kind is taken.
    #[error("no free {kind} device: detach one, or {remedy}")]
    NoFreeDevice {
        /// `nbd` or `loop`.
        kind: &'static str,
        /// How to have more.
        remedy: &'static str,
    },
    /// The block device is still in use.
    #[error("{} is in use: {}; stop that first", block.display(), Listed(users))]
    InUse {
        /// The block device.
        block: PathBuf,
        /// Its users. Empty if the kernel does not name any.
        users: Vec<BlockUser>,
    },
    /// It is unknown whether the block device has users.
    #[error("cannot tell who uses {}: a process hangs that would have to be looked at", block.display())]
    UsersUnknown {
        /// The block device.
        block: PathBuf,
    },
    /// The kernel was told to release it and did not do so in time.
    #[error("{} is still there {waited_s} s after it was told to go; look for its users, then detach again", what.display())]
    StillThere {
        /// The block device or mount point.
        what: PathBuf,
        /// How long we waited.
        waited_s: u64,
    },
    /// The device's cached data could not be written out in time.
    #[error(
        "what is cached of {} is not written out in time: its writes are slow, or hang; try again, and more will be written",
        block.display()
    )]
    NotWrittenOut {
        /// The block device.
        block: PathBuf,
    },
    /// The kernel read the device to look for partitions, and got no answer.
    #[error(
        "the device did not answer a read in {waited_s} s, so that no block device can be made of it: look for the member that hangs"
    )]
    Unanswered {
        /// How long we waited.
        waited_s: u64,
    },
    /// The NBD server on the other end of the socket did not offer what we need.
    #[error("the NBD server refused the kernel's connection: {0}")]
    Handshake(String),
    /// The NBD server for the kernel could not be started.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A system call failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    System {
        /// What we tried, in words that follow "cannot".
        doing: &'static str,
        /// The path it was tried on.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl AttachError {
    /// Turns a system call's failure into an error that says what we tried, and on which path.
    pub(super) fn system<E: Into<io::Error>>(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::System { doing, path: path.into(), source: source.into() }
    }
}

/// Why each method was skipped, in probe order.
#[derive(Debug)]
pub struct Reasons(pub Vec<(AttachMethod, AttachError)>);

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(method, error)| write!(f, "\n  {method}: {error}"))
    }
}

struct Listed<'a>(&'a [BlockUser]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("somebody has it open exclusively");
        }
        for (index, user) in self.0.iter().enumerate() {
            write!(f, "{}{user}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
