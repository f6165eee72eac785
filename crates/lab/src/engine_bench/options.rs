//! The parameters of a measurement.

use std::time::Duration;

use stripewise_engine::{
    CacheKind,
    geometry::{Geometry, Level},
    plan::selection::{DEFAULT_POLICY, Policy},
};

use super::{case::Case, locking::LockSetting};

/// An array is so many times as large as its cache, if the size of that is not given.
const CACHE_PART: u64 = 20;

/// What to measure, and for how long. Shapes, counts of threads and cases run one after the other; bitmaps,
/// policies, locks and caches take turns.
#[derive(Debug, Clone)]
pub struct Options {
    /// Level 4, 5 or 6.
    pub level: Level,
    /// Shapes: how many members arrays have, data and parity.
    pub raid_devices: Vec<usize>,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Bytes of each member.
    pub member_bytes: u64,
    /// The kind of members.
    pub members: MemberKind,
    /// Counts of worker threads, each with clients of its own.
    pub threads: Vec<usize>,
    /// Operations under way for each thread.
    pub queue: usize,
    /// Bytes of the data that each thread's clients write from, one part after the other; at least one
    /// operation's.
    pub source_bytes: u64,
    /// How long each turn is.
    pub turn: Duration,
    /// Counted turns of each variant and of the limit; one turn before them warms up.
    pub turns: usize,
    /// The operations.
    pub cases: Vec<Case>,
    /// Whether regions are marked before writes.
    pub bitmaps: Vec<BitmapMode>,
    /// The policies for partly written rows.
    pub policies: Vec<&'static Policy>,
    /// The locks.
    pub locks: Vec<LockSetting>,
    /// The caches.
    pub caches: Vec<CacheKind>,
    /// Bytes of each cache; a part of the array's if not given.
    pub cache_bytes: Option<u64>,
    /// Bytes at the start of the array in which random operations are; all of it if not given.
    pub span_bytes: Option<u64>,
    /// After so many writes, each thread's clients flush; never if not given.
    pub flush_every: Option<u64>,
    /// Bytes of each member per bit of the bitmap, if not the default.
    pub region_bytes: Option<u64>,
    /// Whether the bare loops take turns, too.
    pub limit: bool,
    /// Whether to measure the time of each operation.
    pub latency: bool,
    /// Whether a sampler looks at which parts the workers are in.
    pub parts: bool,
}

impl Default for Options {
    /// One thread with one operation under way on 4+1 members of 256 MiB, the usual cases, seven turns of
    /// half a second.
    fn default() -> Self {
        Self {
            level: Level::Raid5,
            raid_devices: vec![5],
            chunk_bytes: 64 << 10,
            member_bytes: 256 << 20,
            members: MemberKind::Memory,
            threads: vec![1],
            queue: 1,
            source_bytes: 4 << 20,
            turn: Duration::from_millis(500),
            turns: 7,
            cases: Case::USUAL.to_vec(),
            bitmaps: vec![BitmapMode::Internal],
            policies: vec![DEFAULT_POLICY],
            locks: vec![LockSetting::default()],
            caches: vec![CacheKind::None],
            cache_bytes: None,
            span_bytes: None,
            flush_every: None,
            region_bytes: None,
            limit: true,
            latency: false,
            parts: false,
        }
    }
}

impl Options {
    /// A number of members as data and parity, as in "4+1".
    pub fn shape(&self, members: usize) -> String {
        let parity = if self.level == Level::Raid6 { 2 } else { 1 };
        format!("{}+{parity}", members.saturating_sub(parity))
    }

    /// Bytes of a cache.
    pub(super) fn cache_bytes(&self, geometry: &Geometry) -> u64 {
        self.cache_bytes.unwrap_or(geometry.capacity_bytes() / CACHE_PART)
    }

    /// Bytes in which random operations are.
    pub(super) fn span_bytes(&self, geometry: &Geometry) -> u64 {
        self.span_bytes.map_or(geometry.capacity_bytes(), |span| span.min(geometry.capacity_bytes()))
    }

    /// The cases, ordered so that those that lose a member come last.
    pub(super) fn cases_in_order(&self) -> impl Iterator<Item = Case> {
        Case::ALL.into_iter().filter(|case| self.cases.contains(case))
    }
}

/// The kind of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// Memory that holds data.
    Memory,
    /// Nothing: writes are dropped and reads move no data. Only the engine's own cost is left; there is no
    /// limit for it.
    Null,
}

impl MemberKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Null];

    /// Its name on the command line, and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Null => "null",
        }
    }

    /// Its name in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Memory => "Memory that holds data",
            Self::Null => {
                "Nothing: writes are forgotten and reads move no data. What is left is the engine itself; there is no \
                 limit to it"
            }
        }
    }
}

/// Whether writes are marked region by region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitmapMode {
    /// In the write-intent bitmap.
    Internal,
    /// Not at all: after a crash the whole array must be resynced.
    None,
}

impl BitmapMode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Internal, Self::None];

    /// Its name on the command line, and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::None => "none",
        }
    }

    /// Its name in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Internal => "In the write-intent bitmap",
            Self::None => "Not at all: the whole array is to be resynced after a crash",
        }
    }
}

/// A cache's name on the command line, and in files.
pub fn cache_name(kind: CacheKind) -> &'static str {
    match kind {
        CacheKind::None => "none",
        CacheKind::Pbg => "pbg",
        CacheKind::Stripe => "stripe",
        CacheKind::StripeCt => "stripe-ct",
        CacheKind::Auto => "auto",
    }
}
