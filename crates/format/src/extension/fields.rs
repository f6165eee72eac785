//! The extension header's small types. Numbers on disk become enums here; a number without a meaning is an
//! error.

use thiserror::Error;

use super::raw::{STRIDE_REGIONS, STRIDES};

/// A field whose value has no meaning in this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "extension header field {field} has the value {value}, which has no meaning; use the version that wrote it"
)]
pub struct FieldError {
    /// The field's name in the format document.
    pub field: &'static str,
    /// What it holds.
    pub value: u64,
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident, $field:literal: $($(#[$case_doc:meta])* $case:ident = $number:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        #[repr(u8)]
        pub enum $name { $($(#[$case_doc])* $case = $number),+ }

        impl $name {
            /// Every value, by number.
            pub const ALL: &[Self] = &[$(Self::$case),+];

            pub(crate) fn from_number(number: u8) -> Result<Self, FieldError> {
                let found = Self::ALL.iter().copied().find(|case| *case as u8 == number);
                found.ok_or(FieldError { field: $field, value: u64::from(number) })
            }
        }
    };
}

numbered! {
    /// What kind of device a member is.
    MemberClass, "member_class":
    /// Not known.
    #[default]
    Unknown = 0,
    /// Rotating: distance costs time.
    Hdd = 1,
    /// Flash: distance costs nothing.
    Ssd = 2,
}

numbered! {
    /// What zeroing a range of a member does, as tried when the device became a member.
    Zeroing, "zeroing":
    /// Not tried.
    #[default]
    NotTried = 0,
    /// It takes as long as writing zeroes, or zeroes have to be sent.
    Writes = 1,
    /// It frees the range, which reads as zeroes from then on.
    Unmaps = 2,
}

numbered! {
    /// How stripes map to the bitmap's regions.
    MapKind, "bitmap_map_kind":
    /// Neighbouring stripes share a region, as in md.
    #[default]
    Linear = 0,
    /// Neighbouring stripes spread over all regions (ScalaRAID's D-Blocks).
    Distributed = 1,
}

numbered! {
    /// A background job.
    JobKind, "job_kind":
    /// None.
    #[default]
    None = 0,
    /// Making parity agree.
    Resync = 1,
    /// Filling a new member.
    Rebuild = 2,
    /// Filling a member that will take another's place.
    Replace = 3,
    /// Reading all and counting what disagrees.
    Check = 4,
    /// Reading all and mending what disagrees.
    Repair = 5,
}

macro_rules! mask {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The bits that have a meaning in this version: none yet.
            pub const KNOWN: u32 = 0;

            /// The bits without a meaning.
            #[must_use]
            pub const fn unknown(self) -> u32 {
                self.0 & !Self::KNOWN
            }
        }
    };
}

mask! {
    /// Features that a version may ignore if it does not know them.
    CompatFeatures
}
mask! {
    /// Features that let a version that does not know them read, but not write.
    ReadOnlyCompatFeatures
}
mask! {
    /// Features without which the area cannot be understood.
    IncompatFeatures
}

/// Where the write-intent bitmap lies and what its bits stand for. `page_count` 0: there is no bitmap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BitmapDescriptor {
    /// First page's first slot, from the member's start.
    pub offset_bytes: u64,
    /// Bytes of each member that one region stands for.
    pub region_bytes: u64,
    /// Regions, one bit each.
    pub region_count: u64,
    /// Pages that hold them.
    pub page_count: u32,
    /// How stripes map to regions.
    pub map_kind: MapKind,
}

/// Where a log (partial parity, journal) lies. Length 0: there is no log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogDescriptor {
    /// From the member's start.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
}

/// A background job's progress, so that it continues where it was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Job {
    /// Which.
    pub kind: JobKind,
    /// Whether an operator has paused it.
    pub paused: bool,
    /// Everything before it, from the member's data start, is done.
    pub position_bytes: u64,
    /// Rows that disagreed.
    pub mismatches: u64,
}

/// How much may be written to a member, and how much was: what wears flash. 0 everywhere: nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Endurance {
    /// Bytes that it is rated for (its TBW); 0: not known.
    pub rated_write_bytes: u64,
    /// Bytes that Stripewise has written to it, as of the last write of this header.
    pub written_bytes: u64,
    /// Start of that count, in seconds since 1970-01-01 UTC.
    pub written_since_s: u64,
    /// When its warranty ends, in seconds since 1970-01-01 UTC; 0: not known.
    pub warranty_end_s: u64,
    /// By how many days it should outlive its warranty.
    pub warranty_margin_days: u32,
}

/// How much longer a member takes for scattered blocks than for all that lie between them, for reads or for writes, and
/// which gaps are therefore filled (msc-ct III-D). 0 everywhere: not measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StrideRecord {
    /// The smallest stride, in blocks, that is too long to be filled.
    pub s_max: u32,
    /// An operator gave it; it does not follow from the curve.
    pub s_max_given: bool,
    /// Regions of shorter strides that are not filled either, from their first stride to their last; 0 to 0 if there are
    /// fewer.
    pub except: [[u8; 2]; STRIDE_REGIONS],
    /// By stride, from 1 on: the time for every block at that stride, over that of all blocks, in thousandths. 0: not
    /// measured.
    pub times: [u16; STRIDES],
}

impl Default for StrideRecord {
    fn default() -> Self {
        Self { s_max: 0, s_max_given: false, except: [[0; 2]; STRIDE_REGIONS], times: [0; STRIDES] }
    }
}

/// An operator's choices for the array. 0 everywhere: the default. The engine defines the policies' numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArrayOptions {
    /// How rows are written: RMW or RCW.
    pub selection_policy: u8,
    /// Which stripe cache.
    pub cache_policy: u8,
    /// How the stripe cache works.
    pub cache: CacheOptions,
    /// Which lock granularity.
    pub locking_policy: u8,
    /// How the write hole is closed.
    pub consistency_policy: u8,
    /// The speed that background jobs may always use.
    pub speed_min_kib_per_s: u32,
    /// The speed that background jobs may use at most.
    pub speed_max_kib_per_s: u32,
}

/// An operator's choices for the stripe cache. 0 everywhere: the default; the largest number of a time: never, or no
/// limit. The engine defines the policies' numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheOptions {
    /// The memory that it may take.
    pub size_bytes: u64,
    /// The longest that what was written stays off the members.
    pub age_ms: u32,
    /// Without requests for so long, everything is destaged.
    pub idle_ms: u32,
    /// No more is dirty than members can write in this time.
    pub flush_ms: u32,
    /// When room is made.
    pub when: u8,
    /// What is destaged first.
    pub what: u8,
    /// The share of the memory, in hundredths, at which dirty blocks are destaged in full force.
    pub high_percent: u8,
    /// The share below which none are destaged to make room.
    pub low_percent: u8,
    /// What is kept for readers.
    pub read: u8,
    /// What memory is taken for.
    pub alloc: u8,
    /// Which writes go past it.
    pub past: u8,
    /// By which rule gaps are filled.
    pub gaps: u8,
    /// The array is open with a cache, or was not stopped.
    pub is_open: bool,
}
