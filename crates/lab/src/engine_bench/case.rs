//! What is measured: operations of clients, and jobs.

use stripewise_engine::geometry::Geometry;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Sequential writes of whole stripes.
    FullStripe,
    /// Random writes of 4 KiB.
    RandomWrite,
    /// Random writes of 64 KiB.
    RandomWrite64K,
    /// Random writes of 128 KiB.
    RandomWrite128K,
    /// Random reads of 4 KiB.
    RandomRead,
    /// Sequential reads of 1 MiB.
    SequentialRead,
    /// A check of all redundancy, in bytes of each member.
    Check,
    /// A rebuild onto a new member, in bytes of it.
    Rebuild,
    /// Random reads of 4 KiB with a member lost.
    DegradedRead,
    /// Random writes of 4 KiB with a member lost.
    DegradedWrite,
    /// Sequential reads of 16 MiB, in whole stripes.
    LargeRead,
    /// Sequential writes of 16 MiB, in whole stripes.
    LargeWrite,
    /// The same reads with a member lost.
    DegradedLargeRead,
    /// The same writes with a member lost.
    DegradedLargeWrite,
}

/// About the size of a large operation: as many whole stripes as that.
const LARGE_BYTES: u64 = 16 << 20;

/// What is done over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Clients read so many bytes.
    Read { bytes: usize, sequential: bool },
    /// Clients write so many bytes.
    Write { bytes: usize, sequential: bool },
    /// A check of the whole array.
    Check,
    /// A rebuild of a whole member.
    Rebuild,
}

impl Work {
    /// What a client writes at once.
    pub(super) fn written_bytes(self) -> Option<usize> {
        match self {
            Self::Write { bytes, .. } => Some(bytes),
            Self::Read { .. } | Self::Check | Self::Rebuild => None,
        }
    }
}

impl Case {
    /// All, those that leave a member lost at the end.
    pub const ALL: [Self; 14] = [
        Self::FullStripe,
        Self::RandomWrite,
        Self::RandomWrite64K,
        Self::RandomWrite128K,
        Self::RandomRead,
        Self::SequentialRead,
        Self::LargeRead,
        Self::LargeWrite,
        Self::Check,
        Self::Rebuild,
        Self::DegradedRead,
        Self::DegradedWrite,
        Self::DegradedLargeRead,
        Self::DegradedLargeWrite,
    ];
    /// What is measured if nothing is said.
    pub const USUAL: [Self; 3] = [Self::FullStripe, Self::RandomWrite, Self::RandomRead];

    /// On the command line, and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::FullStripe => "full-stripe",
            Self::RandomWrite => "random-write",
            Self::RandomWrite64K => "random-write-64k",
            Self::RandomWrite128K => "random-write-128k",
            Self::RandomRead => "random-read",
            Self::SequentialRead => "sequential-read",
            Self::Check => "check",
            Self::Rebuild => "rebuild",
            Self::DegradedRead => "degraded-read",
            Self::DegradedWrite => "degraded-write",
            Self::LargeRead => "large-read",
            Self::LargeWrite => "large-write",
            Self::DegradedLargeRead => "degraded-large-read",
            Self::DegradedLargeWrite => "degraded-large-write",
        }
    }

    /// In a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::FullStripe => "Sequential writes of whole stripes",
            Self::RandomWrite => "Random writes of 4 KiB",
            Self::RandomWrite64K => "Random writes of 64 KiB",
            Self::RandomWrite128K => "Random writes of 128 KiB",
            Self::RandomRead => "Random reads of 4 KiB",
            Self::SequentialRead => "Sequential reads of 1 MiB",
            Self::Check => "A check of all redundancy, in bytes of each member",
            Self::Rebuild => "A rebuild onto a new member, in bytes of it",
            Self::DegradedRead => "Random reads of 4 KiB with a member lost",
            Self::DegradedWrite => "Random writes of 4 KiB with a member lost",
            Self::LargeRead => "Sequential reads of 16 MiB, in whole stripes",
            Self::LargeWrite => "Sequential writes of 16 MiB, in whole stripes",
            Self::DegradedLargeRead => "Sequential reads of 16 MiB with a member lost",
            Self::DegradedLargeWrite => "Sequential writes of 16 MiB with a member lost",
        }
    }

    pub(super) fn is_degraded(self) -> bool {
        matches!(
            self,
            Self::DegradedRead | Self::DegradedWrite | Self::DegradedLargeRead | Self::DegradedLargeWrite
        )
    }

    pub(super) fn work(self, geometry: &Geometry) -> Work {
        let random_write = |bytes| Work::Write { bytes, sequential: false };
        let stripe_bytes = geometry.stripe_bytes();
        let large = ((LARGE_BYTES / stripe_bytes).max(1) * stripe_bytes) as usize;
        match self {
            Self::FullStripe => Work::Write { bytes: stripe_bytes as usize, sequential: true },
            Self::RandomWrite | Self::DegradedWrite => random_write(4 << 10),
            Self::RandomWrite64K => random_write(64 << 10),
            Self::RandomWrite128K => random_write(128 << 10),
            Self::RandomRead | Self::DegradedRead => Work::Read { bytes: 4 << 10, sequential: false },
            Self::SequentialRead => Work::Read { bytes: 1 << 20, sequential: true },
            Self::LargeRead | Self::DegradedLargeRead => Work::Read { bytes: large, sequential: true },
            Self::LargeWrite | Self::DegradedLargeWrite => Work::Write { bytes: large, sequential: true },
            Self::Check => Work::Check,
            Self::Rebuild => Work::Rebuild,
        }
    }
}
