//! What a job is and how far it has come.

use stripewise_device::Timestamp;

use crate::shape::geometry::MemberIndex;

/// The kinds of background job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobKind {
    /// Makes parity (or mirrors) agree with data after a crash or creation.
    Resync,
    /// Fills a new member.
    Rebuild,
    /// Fills a member that takes a living one's place.
    Replace,
    /// Reads all and counts what disagrees.
    Check,
    /// Reads all and mends what disagrees.
    Repair,
}

impl JobKind {
    /// The job's name, as `status` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resync => "resync",
            Self::Rebuild => "rebuild",
            Self::Replace => "replace",
            Self::Check => "check",
            Self::Repair => "repair",
        }
    }
}

/// A stripe in which redundancy disagreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// The stripe's index.
    pub stripe: u64,
    /// How many of its rows disagreed.
    pub rows: u32,
}

/// How many mismatching stripes are kept for display. The counts have no such limit.
const MISMATCHES_KEPT_MAX: usize = 1000;

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// All done.
    Done,
    /// Stopped by request or with the array.
    Stopped,
    /// Could not continue, for this reason.
    Failed(String),
}

/// A job under way or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobReport {
    /// The kind of job.
    pub kind: JobKind,
    /// The role that is being filled, for rebuild and replace.
    pub slot: Option<MemberIndex>,
    /// Stripes done.
    pub done_stripes: u64,
    /// Stripes to do.
    pub total_stripes: u64,
    /// Bytes of each member that one stripe takes.
    pub chunk_bytes: u64,
    /// Rows (4 KiB of each member) that disagreed.
    pub mismatched_rows: u64,
    /// The first stripes with such rows.
    pub mismatches: Vec<Mismatch>,
    /// Where in the array something could not be read and was passed over: the block, or the stripe if parity
    /// is lost.
    pub unreadable: Option<u64>,
    /// Whether an operator has paused it.
    pub paused: bool,
    /// Recent speed in bytes of each member per second.
    pub bytes_per_s: u64,
    /// When it started (or resumed).
    pub started: Timestamp,
    /// How it ended, if it has.
    pub outcome: Option<JobOutcome>,
}

impl JobReport {
    pub(crate) fn new(
        kind: JobKind,
        slot: Option<MemberIndex>,
        total_stripes: u64,
        chunk_bytes: u64,
    ) -> Self {
        Self {
            kind,
            slot,
            done_stripes: 0,
            total_stripes,
            chunk_bytes,
            mismatched_rows: 0,
            mismatches: Vec::new(),
            unreadable: None,
            paused: false,
            bytes_per_s: 0,
            started: Timestamp::default(),
            outcome: None,
        }
    }

    /// Continues from what was found before.
    pub(crate) fn take_over(&mut self, found: Found) {
        let Found { mismatched_rows, mismatches, unreadable } = found;
        (self.mismatched_rows, self.mismatches, self.unreadable) = (mismatched_rows, mismatches, unreadable);
    }

    /// Where a scrub continues, and what it found before that place. The scrub's record has no room for what
    /// could not be read, so the scrub continues no later than there.
    pub(crate) fn before_unreadable(&self, stripe_bytes: u64) -> (u64, Found) {
        let mut found = self.found();
        let Some(offset_bytes) = found.unreadable.take() else { return (self.done_stripes, found) };
        let stripe = self.done_stripes.min(offset_bytes / stripe_bytes);
        let behind = found.mismatches.iter().filter(|mismatch| mismatch.stripe >= stripe);
        let rows: u64 = behind.map(|mismatch| u64::from(mismatch.rows)).sum();
        found.mismatched_rows = found.mismatched_rows.saturating_sub(rows);
        found.mismatches.retain(|mismatch| mismatch.stripe < stripe);
        (stripe, found)
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> Found {
        let (mismatched_rows, unreadable) = (self.mismatched_rows, self.unreadable);
        Found { mismatched_rows, mismatches: self.mismatches.clone(), unreadable }
    }

    pub(crate) fn add_mismatch(&mut self, mismatch: Mismatch) {
        self.mismatched_rows = self.mismatched_rows.saturating_add(mismatch.rows.into());
        if self.mismatches.len() < MISMATCHES_KEPT_MAX {
            self.mismatches.push(mismatch);
        }
    }
}

/// What a scrub has found so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Found {
    pub(crate) mismatched_rows: u64,
    pub(crate) mismatches: Vec<Mismatch>,
    pub(crate) unreadable: Option<u64>,
}
