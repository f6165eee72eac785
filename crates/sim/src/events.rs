//! The last requests to members, for telling the story of a failure.

use std::{
    collections::VecDeque,
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use stripewise_device::Timestamp;

/// Events kept.
const EVENTS_KEPT: usize = 4096;

/// The kind of a request. The numbers are part of the trace's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A read.
    Read = 1,
    /// A write.
    Write = 2,
    /// A write with FUA.
    WriteFua = 3,
    /// A flush.
    Flush = 4,
    /// A range of zeroes.
    Zero = 5,
}

/// One request to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// The member, by the order in which they were added to the world.
    pub member: usize,
    /// What.
    pub kind: EventKind,
    /// Where, from the member's start.
    pub offset_bytes: u64,
    /// How much.
    pub len_bytes: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.0 / 1000;
        write!(f, "{micros:>10} us  m{} {:?}", self.member, self.kind)?;
        if self.kind == EventKind::Flush {
            return Ok(());
        }
        write!(f, " {} bytes at {}", self.len_bytes, self.offset_bytes)
    }
}

/// The last events, if wanted.
#[derive(Default)]
pub(crate) struct EventLog {
    is_on: AtomicBool,
    events: Mutex<VecDeque<Event>>,
}

impl EventLog {
    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn note(
        &self,
        at: Timestamp,
        member: usize,
        kind: EventKind,
        offset_bytes: u64,
        len_bytes: u64,
    ) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut events = self.events.lock();
        if events.len() == EVENTS_KEPT {
            events.pop_front();
        }
        events.push_back(Event { at, member, kind, offset_bytes, len_bytes });
    }

    pub(crate) fn all(&self) -> Vec<Event> {
        self.events.lock().iter().copied().collect()
    }
}

/// Where a member's superblock lies.
const SUPERBLOCK_AT: u64 = 4096;
/// Where the first copy of its extension header lies; pages of the bitmap follow.
const HEADER_AT: u64 = 256 << 10;
/// No member's data begins before this byte.
pub(crate) const DATA_OFFSET_MIN: u64 = 1 << 20;

/// How often each event happened that stories wait for.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    superblocks: AtomicU64,
    headers: AtomicU64,
    pages: AtomicU64,
    logs: AtomicU64,
    flushes: AtomicU64,
    failures: AtomicU64,
    reads: AtomicU64,
}

/// An event that a story may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// A superblock is about to be written.
    Superblock,
    /// The header that precedes a superblock is about to be written.
    Header,
    /// A page of the bitmap is about to be written, or the header's second copy.
    Page,
    /// The bad-block log is about to be written.
    Log,
    /// A flush begins.
    Flush,
    /// A write is about to fail.
    Failure,
    /// A read is about to begin.
    Read,
}

impl EventCounts {
    pub(crate) fn count(&self, kind: EventKind, offset_bytes: u64) {
        if kind == EventKind::Flush {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }
        if kind == EventKind::Read {
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
        if !matches!(kind, EventKind::Write | EventKind::WriteFua) {
            return;
        }
        if offset_bytes == SUPERBLOCK_AT {
            self.superblocks.fetch_add(1, Ordering::Relaxed);
        } else if offset_bytes == HEADER_AT {
            self.headers.fetch_add(1, Ordering::Relaxed);
        } else if offset_bytes > HEADER_AT && offset_bytes < DATA_OFFSET_MIN {
            self.pages.fetch_add(1, Ordering::Relaxed);
        } else if offset_bytes > SUPERBLOCK_AT && offset_bytes < HEADER_AT {
            self.logs.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, sight: Sight) -> u64 {
        let count = match sight {
            Sight::Superblock => &self.superblocks,
            Sight::Header => &self.headers,
            Sight::Page => &self.pages,
            Sight::Log => &self.logs,
            Sight::Flush => &self.flushes,
            Sight::Failure => &self.failures,
            Sight::Read => &self.reads,
        };
        count.load(Ordering::Relaxed)
    }
}
