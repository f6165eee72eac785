//! Numbers with a meaning, and points in time.

use std::time::{Duration, SystemTime};

use super::input::InHeader;

/// What the kernel calls an inode by. The server gives it out with an entry, and keeps it until it is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root folder (`FUSE_ROOT_ID`). It is known without a lookup.
    pub const ROOT: Self = Self(1);
}

/// What the server calls an open file or folder by; any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle(pub u64);

/// A request's number, unique among those under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

impl RequestId {
    pub(crate) fn of(header: &InHeader) -> Self {
        Self(header.unique)
    }
}

/// A point in time: seconds since 1970, which may be negative, and nanoseconds below a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// The rest, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self::after_epoch(after),
            Err(before) => Self::before_epoch(before.duration()),
        }
    }
}

impl Timestamp {
    fn after_epoch(time: Duration) -> Self {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Self { seconds, nanoseconds: time.subsec_nanos() }
    }

    fn before_epoch(time: Duration) -> Self {
        let whole = Self::after_epoch(time);
        match whole.nanoseconds {
            0 => Self { seconds: -whole.seconds, nanoseconds: 0 },
            nanoseconds => Self { seconds: -whole.seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
        }
    }
}

/// The type of a folder's entry, as in `d_type`: bits 12 to 15 of the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FileType {
    /// Not known here: whoever asks must ask for the attributes.
    Unknown = 0,
    /// A named pipe.
    Fifo = 1,
    /// A character device.
    CharacterDevice = 2,
    /// A folder.
    Directory = 4,
    /// A block device.
    BlockDevice = 6,
    /// A file.
    Regular = 8,
    /// A symbolic link.
    Symlink = 10,
    /// A socket.
    Socket = 12,
}

impl FileType {
    /// The type in a file's mode.
    pub fn of_mode(mode: u32) -> Self {
        match mode >> 12 & 0xf {
            1 => Self::Fifo,
            2 => Self::CharacterDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::Regular,
            10 => Self::Symlink,
            12 => Self::Socket,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_round_down() {
        let time = SystemTime::UNIX_EPOCH - Duration::from_millis(250);
        assert_eq!(Timestamp::from(time), Timestamp { seconds: -1, nanoseconds: 750_000_000 });
        let time = SystemTime::UNIX_EPOCH - Duration::from_secs(2);
        assert_eq!(Timestamp::from(time), Timestamp { seconds: -2, nanoseconds: 0 });
    }

    #[test]
    fn a_mode_tells_the_type() {
        assert_eq!(FileType::of_mode(0o100_644), FileType::Regular);
        assert_eq!(FileType::of_mode(0o040_755), FileType::Directory);
        assert_eq!(FileType::of_mode(0o644), FileType::Unknown);
    }
}
