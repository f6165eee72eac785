//! What is to be measured.

use std::time::Duration;

use stripewise_engine::{
    geometry::Level,
    plan::selection::{DEFAULT_POLICY, Policy},
};

use super::{case::Case, locking::LockSetting};

/// What is to be measured, and how long. Shapes, counts of threads and cases run one after the other; bitmaps, policies and
/// locks take turns.
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
    /// What members are.
    pub members: MemberKind,
    /// Counts of worker threads, each with clients of its own.
    pub threads: Vec<usize>,
    /// Operations under way for each thread.
    pub queue: usize,
    /// Bytes of the data that each thread's clients write from, one part after the other; no less than an operation's.
    pub source_bytes: u64,
    /// How long each turn is.
    pub turn: Duration,
    /// Turns that count, of each that is compared and of the limit; one before them warms all up.
    pub turns: usize,
    /// What is done.
    pub cases: Vec<Case>,
    /// Whether writes are noted.
    pub bitmaps: Vec<BitmapMode>,
    /// How partly written rows are written.
    pub policies: Vec<&'static Policy>,
    /// Who waits for whom.
    pub locks: Vec<LockSetting>,
    /// Bytes of each member that one bit of the bitmap stands for, if not the default.
    pub region_bytes: Option<u64>,
    /// Whether the bare loops take turns, too.
    pub limit: bool,
    /// Whether the time of each operation is taken.
    pub latency: bool,
    /// Whether a sampler looks at what the workers are at.
    pub parts: bool,
}

impl Default for Options {
    /// One thread with one operation under way on 4+1 members of 256 MiB, the usual cases, seven turns of half a second.
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
            region_bytes: None,
            limit: true,
            latency: false,
            parts: false,
        }
    }
}

impl Options {
    /// So many members as data and parity, as in "4+1".
    pub fn shape(&self, members: usize) -> String {
        let parity = if self.level == Level::Raid6 { 2 } else { 1 };
        format!("{}+{parity}", members.saturating_sub(parity))
    }

    /// In an order in which those that lose a member come last.
    pub(super) fn cases_in_order(&self) -> impl Iterator<Item = Case> {
        Case::ALL.into_iter().filter(|case| self.cases.contains(case))
    }
}

/// What members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// Memory that holds data.
    Memory,
    /// Nothing: writes are forgotten and reads move no data. What is left is the engine itself; there is no limit to it.
    Null,
}

impl MemberKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Null];

    /// On the command line, and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Null => "null",
        }
    }

    /// In a sentence.
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

/// Whether writes are noted region by region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitmapMode {
    /// In the write-intent bitmap.
    Internal,
    /// Not at all: the whole array is to be resynced after a crash.
    None,
}

impl BitmapMode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Internal, Self::None];

    /// On the command line, and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::None => "none",
        }
    }

    /// In a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Internal => "In the write-intent bitmap",
            Self::None => "Not at all: the whole array is to be resynced after a crash",
        }
    }
}
