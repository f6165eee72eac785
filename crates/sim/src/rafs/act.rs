//! What clients and operators do, by name.

use std::{fmt, str::FromStr};

/// Something that a client does, or the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// It makes a file.
    Create,
    /// It writes to one.
    Write,
    /// It gives a file another length.
    Truncate,
    /// It gives a file other permissions.
    SetMode,
    /// It gives a file an extended attribute, or takes it away.
    SetAttribute,
    /// It makes a hole in a file.
    Punch,
    /// It gives a file one more name.
    Link,
    /// It makes a symbolic link.
    Symlink,
    /// It removes a name.
    Unlink,
    /// It renames a file, perhaps over another one.
    Rename,
    /// It reads a file.
    Read,
    /// It makes a file durable.
    Fsync,
    /// It makes everything durable.
    Sync,
    /// It makes everything durable, and writes to a file meanwhile.
    SyncBeside,
    /// It reads a file, and writes to it meanwhile.
    ReadBeside,
    /// It uses a file that it has removed.
    UseRemoved,
    /// The volume fails to write once.
    Fault,
    /// It rests.
    Rest,
    /// The operator fails a member of the array.
    FailMember,
    /// The operator adds a device, which takes the place of a failed member.
    AddMember,
    /// The operator has redundancy checked, or repaired.
    Scrub,
    /// The operator stops the array's job.
    StopJob,
    /// The operator gives the array another cache.
    SetCache,
    /// The operator changes when the buffer is written out.
    SetPace,
    /// The operator has fsck look at the mounted file system.
    Fsck,
}

impl Act {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Create,
        Self::Write,
        Self::Truncate,
        Self::SetMode,
        Self::SetAttribute,
        Self::Punch,
        Self::Link,
        Self::Symlink,
        Self::Unlink,
        Self::Rename,
        Self::Read,
        Self::Fsync,
        Self::Sync,
        Self::SyncBeside,
        Self::ReadBeside,
        Self::UseRemoved,
        Self::Fault,
        Self::Rest,
        Self::FailMember,
        Self::AddMember,
        Self::Scrub,
        Self::StopJob,
        Self::SetCache,
        Self::SetPace,
        Self::Fsck,
    ];

    /// Numbers below this stand for acts.
    pub(super) const DRAWN: u64 = 34;

    /// The one that a number stands for.
    pub(super) fn drawn(number: u64) -> Self {
        match number {
            2..9 => Self::Write,
            9 | 32 => Self::Truncate,
            10 => Self::Unlink,
            11..13 => Self::Rename,
            13..15 => Self::Read,
            15..19 => Self::Fsync,
            19 => Self::Sync,
            20..23 => Self::SyncBeside,
            23 => Self::ReadBeside,
            24..26 => Self::UseRemoved,
            26 => Self::Fault,
            27 => Self::SetMode,
            28 => Self::SetAttribute,
            29 => Self::Punch,
            30 => Self::Link,
            31 => Self::Symlink,
            _ => Self::Create,
        }
    }

    /// Numbers below this stand for acts of the operator.
    pub(super) const OPERATED: u64 = 13;

    /// The operator's act that a number stands for.
    pub(super) fn operated(number: u64) -> Self {
        match number {
            0..3 => Self::FailMember,
            3..6 => Self::AddMember,
            6 | 7 => Self::Scrub,
            8 => Self::StopJob,
            9 => Self::SetCache,
            10 => Self::SetPace,
            _ => Self::Fsck,
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Write => "write",
            Self::Truncate => "truncate",
            Self::SetMode => "set-mode",
            Self::SetAttribute => "set-attribute",
            Self::Punch => "punch",
            Self::Link => "link",
            Self::Symlink => "symlink",
            Self::Unlink => "unlink",
            Self::Rename => "rename",
            Self::Read => "read",
            Self::Fsync => "fsync",
            Self::Sync => "sync",
            Self::SyncBeside => "sync-beside",
            Self::ReadBeside => "read-beside",
            Self::UseRemoved => "use-removed",
            Self::Fault => "fault",
            Self::Rest => "rest",
            Self::FailMember => "fail-member",
            Self::AddMember => "add-member",
            Self::Scrub => "scrub",
            Self::StopJob => "stop-job",
            Self::SetCache => "set-cache",
            Self::SetPace => "set-pace",
            Self::Fsck => "fsck",
        })
    }
}

impl FromStr for Act {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(|act| act.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|act| act.to_string() == text);
        found.ok_or_else(|| format!("unknown act {text}; known acts: {}", names()))
    }
}
