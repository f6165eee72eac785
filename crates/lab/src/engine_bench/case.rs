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
    /// Sequential writes of 4 KiB.
    SmallSequential,
    /// Random writes of 4 KiB over what a cache holds.
    WriteHit,
    /// Random reads of 4 KiB of what a cache holds.
    ReadHit,
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

/// What hits read or replace at once.
pub(super) const HIT_BYTES: usize = 4 << 10;
/// About the size of a large operation: as many whole stripes as that.
const LARGE_BYTES: u64 = 16 << 20;

/// Where operations go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    /// Anywhere.
    Random,
    /// From one to the next.
    Sequential,
    /// Anywhere in a part of the array that fits into a cache. The last block of each stripe is left out: a
    /// stripe that is all dirty would be destaged.
    Held,
}

/// What is done over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Clients read so many bytes.
    Read { bytes: usize, places: Places },
    /// Clients write so many bytes.
    Write { bytes: usize, places: Places },
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

    /// Whether its operations are to find in the cache what they read or replace.
    pub(super) fn is_of_hits(self) -> bool {
        matches!(self, Self::Read { places: Places::Held, .. } | Self::Write { places: Places::Held, .. })
    }
}

impl Case {
    /// All, those that leave a member lost at the end.
    pub const ALL: [Self; 17] = [
        Self::FullStripe,
        Self::RandomWrite,
        Self::RandomWrite64K,
        Self::RandomWrite128K,
        Self::RandomRead,
        Self::SmallSequential,
        Self::WriteHit,
        Self::ReadHit,
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
            Self::SmallSequential => "small-sequential",
            Self::WriteHit => "write-hit",
            Self::ReadHit => "read-hit",
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
            Self::SmallSequential => "Sequential writes of 4 KiB",
            Self::WriteHit => "Random writes of 4 KiB over what a cache holds",
            Self::ReadHit => "Random reads of 4 KiB of what a cache holds",
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
        let read = |bytes, places| Work::Read { bytes, places };
        let write = |bytes, places| Work::Write { bytes, places };
        let stripe_bytes = geometry.stripe_bytes();
        let large = ((LARGE_BYTES / stripe_bytes).max(1) * stripe_bytes) as usize;
        match self {
            Self::FullStripe => write(stripe_bytes as usize, Places::Sequential),
            Self::RandomWrite | Self::DegradedWrite => write(4 << 10, Places::Random),
            Self::RandomWrite64K => write(64 << 10, Places::Random),
            Self::RandomWrite128K => write(128 << 10, Places::Random),
            Self::RandomRead | Self::DegradedRead => read(4 << 10, Places::Random),
            Self::SmallSequential => write(4 << 10, Places::Sequential),
            Self::WriteHit => write(HIT_BYTES, Places::Held),
            Self::ReadHit => read(HIT_BYTES, Places::Held),
            Self::SequentialRead => read(1 << 20, Places::Sequential),
            Self::LargeRead | Self::DegradedLargeRead => read(large, Places::Sequential),
            Self::LargeWrite | Self::DegradedLargeWrite => write(large, Places::Sequential),
            Self::Check => Work::Check,
            Self::Rebuild => Work::Rebuild,
        }
    }
}
