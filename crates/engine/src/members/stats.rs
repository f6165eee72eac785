//! What an array has done since it was opened: client requests, plans by cycle, I/O of each member.

use stripewise_device::counters;

use crate::plan::{
    Cycle, Recipe,
    passes::Filled,
    recipe::{CycleRows, Span, Write},
};

counters! {
    Index,
    /// Counters of one array. Each only grows.
    Stats,
    /// An array's counters at one moment.
    StatsReport:
    /// Read requests of clients.
    reads,
    /// Bytes that clients read.
    read_bytes,
    /// Write requests of clients.
    writes,
    /// Bytes that clients wrote.
    written_bytes,
    /// Bytes that clients zeroed and that were written to members for it, as not all of them unmap.
    zeroed_bytes,
    /// Client writes that waited behind another write and were written together.
    gathered_writes,
    /// Flushes of clients.
    flushes,
    /// Stripe writes: one for each stripe of each write.
    stripe_writes,
    /// Stripe writes in which every row was written with all its data new.
    stripe_writes_full,
    /// Rows written with all their data new.
    rows_full,
    /// Rows written by read-modify-write.
    rows_rmw,
    /// Rows written by reconstruct-write.
    rows_rcw,
    /// Rows whose lost blocks were recovered before they were written.
    rows_recovered,
    /// Blocks read and written only to fill gaps between requests to members.
    blocks_filled,
    /// Requests to members that filled gaps made unnecessary.
    requests_saved,
    /// Ranges recovered from redundancy for readers and background jobs.
    recovered_reads,
    /// Failed reads of members.
    member_read_errors,
    /// Blocks rewritten after a failed read.
    healed_blocks,
}

counters! {
    MemberIndex,
    /// Counters of one member.
    MemberStats,
    /// A member's counters at one moment.
    MemberStatsReport:
    /// Reads of its data area.
    reads,
    /// Bytes read there.
    read_bytes,
    /// Writes to its data area.
    writes,
    /// Bytes written there.
    written_bytes,
    /// How many of those bytes background jobs and the healing of unreadable blocks wrote. Clients wrote the
    /// rest.
    job_written_bytes,
    /// Bytes of superblocks, extension headers and bitmap pages written.
    metadata_bytes,
    /// Stripe writes that wrote to it.
    stripe_writes,
    /// Blocks of it written in full rows.
    blocks_full,
    /// Blocks of it written by read-modify-write.
    blocks_rmw,
    /// Blocks of it written by reconstruct-write.
    blocks_rcw,
}

/// How many requests of one sort clients have made so far, and of how many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Served {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Flushes so far.
    pub(crate) flushes: u64,
}

/// Why a member is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A client's write of a part of a stripe, which waits for members.
    Part,
    /// A client's write or zeroing of whole stripes, or of what has no stripes.
    Whole,
    /// Cells of the cache are destaged.
    Destage,
    /// A client's read.
    Reader,
    /// A background job, or the healing of a block that could not be read.
    Job,
}

impl MemberStats {
    pub(crate) fn count_read(&self, bytes: u64) {
        self.add_each([(MemberIndex::reads, 1), (MemberIndex::read_bytes, bytes)]);
    }

    pub(crate) fn count_write(&self, cause: Cause, bytes: u64) {
        self.add_each([(MemberIndex::writes, 1), (MemberIndex::written_bytes, bytes)]);
        if cause == Cause::Job {
            self.add(MemberIndex::job_written_bytes, bytes);
        }
    }

    pub(crate) fn count_metadata(&self, bytes: u64) {
        self.add(MemberIndex::metadata_bytes, bytes);
    }

    /// Counts one of a recipe's writes to this member.
    #[inline]
    pub(crate) fn count_recipe(&self, recipe: &Recipe, write: &Write) {
        let mut writes = u64::from(write.is_first);
        let rows = Span::touching(&write.bytes());
        for CycleRows { cycle, rows: of_cycle } in &recipe.cycles {
            let (index, blocks) = match cycle {
                Cycle::Full => (MemberIndex::blocks_full, of_cycle.overlap(rows)),
                Cycle::Rmw => (MemberIndex::blocks_rmw, of_cycle.overlap(rows)),
                Cycle::Rcw => (MemberIndex::blocks_rcw, of_cycle.overlap(rows)),
                Cycle::Direct | Cycle::Recover => (MemberIndex::blocks_full, 0),
            };
            self.add_each([
                (MemberIndex::stripe_writes, std::mem::take(&mut writes)),
                (index, blocks as u64),
            ]);
        }
    }
}

impl MemberStatsReport {
    /// Bytes written to its data area for clients. The two counters are read one after the other while they
    /// grow.
    pub fn client_written_bytes(&self) -> u64 {
        self.written_bytes.saturating_sub(self.job_written_bytes)
    }

    /// All bytes written to the member, metadata included: what wears it.
    pub fn wearing_bytes(&self) -> u64 {
        self.written_bytes + self.metadata_bytes
    }
}

impl Stats {
    pub(crate) fn count_read(&self, bytes: u64) {
        self.add_each([(Index::reads, 1), (Index::read_bytes, bytes)]);
    }

    /// What clients have written.
    pub(crate) fn written(&self) -> Served {
        self.served(Index::writes, Index::written_bytes)
    }

    /// What clients have read.
    pub(crate) fn read(&self) -> Served {
        self.served(Index::reads, Index::read_bytes)
    }

    fn served(&self, requests: Index, bytes: Index) -> Served {
        Served {
            requests: self.0.sum(requests as usize),
            bytes: self.0.sum(bytes as usize),
            flushes: self.0.sum(Index::flushes as usize),
        }
    }

    pub(crate) fn count_write(&self, bytes: u64) {
        self.add_each([(Index::writes, 1), (Index::written_bytes, bytes)]);
    }

    pub(crate) fn count_zeroed(&self, bytes: u64) {
        self.add(Index::zeroed_bytes, bytes);
    }

    pub(crate) fn count_gathered(&self, writes: u64) {
        self.add(Index::gathered_writes, writes);
    }

    /// Writes that were gathered so far.
    pub(crate) fn gathered(&self) -> u64 {
        self.0.sum(Index::gathered_writes as usize)
    }

    pub(crate) fn count_flush(&self) {
        self.add(Index::flushes, 1);
    }

    pub(crate) fn count_recipe(&self, recipe: &Recipe) {
        let is_full = recipe.cycles.iter().all(|cycle| cycle.cycle == Cycle::Full);
        self.add_each([(Index::stripe_writes, 1), (Index::stripe_writes_full, u64::from(is_full))]);
        if recipe.filled.blocks > 0 {
            self.count_filled(recipe.filled);
        }
        for CycleRows { cycle, rows } in &recipe.cycles {
            self.count_cycle(*cycle, rows.count() as u64);
        }
    }

    #[inline]
    fn count_cycle(&self, cycle: Cycle, rows: u64) {
        let counter = match cycle {
            Cycle::Direct => return,
            Cycle::Full => Index::rows_full,
            Cycle::Rmw => Index::rows_rmw,
            Cycle::Rcw => Index::rows_rcw,
            Cycle::Recover => Index::rows_recovered,
        };
        self.add(counter, rows);
    }

    #[cold]
    fn count_filled(&self, filled: Filled) {
        self.add_each([
            (Index::blocks_filled, filled.blocks.into()),
            (Index::requests_saved, filled.requests_saved.into()),
        ]);
    }

    pub(crate) fn count_recovered(&self) {
        self.add(Index::recovered_reads, 1);
    }

    pub(crate) fn count_read_error(&self) {
        self.add(Index::member_read_errors, 1);
    }

    pub(crate) fn count_healed(&self) {
        self.add(Index::healed_blocks, 1);
    }
}
