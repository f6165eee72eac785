//! The error of one member I/O: what kind of trouble, and the errno behind it.

use thiserror::Error;

/// How a member failed, as far as the engine reacts differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoErrorKind {
    /// The medium could not deliver or take the data here; other places may be fine (EIO, ENODATA, EILSEQ, EREMOTEIO;
    /// EBADMSG and EUCLEAN of a file system below that finds damage).
    Medium,
    /// The device is gone altogether (ENODEV, ENXIO, ESHUTDOWN, EBADF).
    Gone,
    /// The device did not answer in time (a [`Deadline`](crate::wrap::Deadline)).
    Silent,
    /// The device ended before the requested range: a truncated file or a shrunken volume.
    Truncated,
    /// The store below is full (ENOSPC, EDQUOT): a sparse file on a full file system.
    NoSpace,
    /// The request itself was refused (EINVAL, EOPNOTSUPP): our bug or a missing feature.
    Refused,
    /// The member's bad-block log lists the place. The device was not asked, as it would return something
    /// else.
    BadBlock,
    /// The request was made, or awaited, where it cannot be served: outside the workers of an io_uring
    /// runtime, or after the runtime has ended.
    NoRuntime,
    /// Anything else; treated as [`IoErrorKind::Medium`] by the engine.
    Other,
}

fn errno_text(errno: i32) -> String {
    if errno == 0 { String::new() } else { format!(" (errno {errno})") }
}

/// A failed member I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{}{}", self.describe(), errno_text(*errno))]
pub struct IoError {
    /// What kind of failure this is.
    pub kind: IoErrorKind,
    /// The operating system's error number; 0 where none applies.
    pub errno: i32,
}

impl IoError {
    /// An error made by Stripewise itself, without errno.
    pub const fn new(kind: IoErrorKind) -> Self {
        Self { kind, errno: 0 }
    }

    /// Classifies an errno from io_uring or a system call.
    pub fn from_errno(errno: i32) -> Self {
        let kind = match errno {
            libc::EIO | libc::EILSEQ | libc::EREMOTEIO | libc::EBADMSG | libc::EUCLEAN | libc::ENODATA => {
                IoErrorKind::Medium
            }
            libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::EBADF | libc::ENOTCONN | libc::EPIPE => {
                IoErrorKind::Gone
            }
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => IoErrorKind::NoSpace,
            libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS => IoErrorKind::Refused,
            _ => IoErrorKind::Other,
        };
        Self { kind, errno }
    }

    fn describe(&self) -> &'static str {
        match self.kind {
            IoErrorKind::Medium => "medium error",
            IoErrorKind::Gone => "device is gone",
            IoErrorKind::Silent => "no answer in time",
            IoErrorKind::Truncated => "device ends before the requested range",
            IoErrorKind::NoSpace => "no space left under the device",
            IoErrorKind::Refused => "request refused by the device",
            IoErrorKind::BadBlock => "listed as a bad block",
            IoErrorKind::NoRuntime => {
                "no worker of a running io_uring runtime was there to serve the request"
            }
            IoErrorKind::Other => "I/O error",
        }
    }
}

impl From<std::io::Error> for IoError {
    fn from(error: std::io::Error) -> Self {
        error.raw_os_error().map_or(Self::new(IoErrorKind::Other), Self::from_errno)
    }
}
