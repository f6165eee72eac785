//! What an array has done since it was opened: requests of clients, plans by cycle, I/O of each member.

use stripewise_device::counters;

use crate::plan::{Band, ColumnOps, Cycle, Plan};

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
    /// How many of them waited behind another one and were written together.
    gathered_writes,
    /// Flushes of clients.
    flushes,
    /// Stripe writes: one for each stripe of each write.
    stripe_writes,
    /// Stripe writes of which every row was written with all its data new.
    stripe_writes_full,
    /// Rows written with all their data new.
    rows_full,
    /// Rows written by read-modify-write.
    rows_rmw,
    /// Rows written by reconstruct-write.
    rows_rcw,
    /// Rows whose lost blocks were recovered before they were written.
    rows_recovered,
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
    /// How many of them background jobs and the healing of unreadable blocks wrote: the rest is clients'.
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

/// For whom a member is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Client,
    /// A background job, or the healing of a block that could not be read.
    Job,
}

impl MemberStats {
    pub(crate) fn count_read(&self, bytes: u64) {
        self.add(MemberIndex::reads, 1);
        self.add(MemberIndex::read_bytes, bytes);
    }

    pub(crate) fn count_write(&self, cause: Cause, bytes: u64) {
        self.add(MemberIndex::writes, 1);
        self.add(MemberIndex::written_bytes, bytes);
        if cause == Cause::Job {
            self.add(MemberIndex::job_written_bytes, bytes);
        }
    }

    pub(crate) fn count_metadata(&self, bytes: u64) {
        self.add(MemberIndex::metadata_bytes, bytes);
    }

    /// Counts what a plan writes to this member.
    pub(crate) fn count_plan(&self, bands: &[Band], ops: &ColumnOps) {
        self.add(MemberIndex::stripe_writes, 1);
        for band in bands {
            self.count_blocks(band.cycle, (band.rows & ops.w).len() as u64);
        }
    }

    #[inline]
    fn count_blocks(&self, cycle: Cycle, blocks: u64) {
        let index = match cycle {
            Cycle::Full => MemberIndex::blocks_full,
            Cycle::Rmw => MemberIndex::blocks_rmw,
            Cycle::Rcw => MemberIndex::blocks_rcw,
            Cycle::Direct | Cycle::Recover => return,
        };
        self.add(index, blocks);
    }
}

impl MemberStats {
    /// As [`MemberStats::count_plan`], for a plan that is one cycle of so many rows.
    pub(crate) fn count_rows(&self, cycle: Cycle, rows: u64) {
        self.add(MemberIndex::stripe_writes, 1);
        self.count_blocks(cycle, rows);
    }
}

impl MemberStatsReport {
    /// Bytes written to its data area for clients. The two counters are read one after the other while they grow.
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
        self.add(Index::reads, 1);
        self.add(Index::read_bytes, bytes);
    }

    pub(crate) fn count_write(&self, bytes: u64) {
        self.add(Index::writes, 1);
        self.add(Index::written_bytes, bytes);
    }

    pub(crate) fn count_gathered(&self, writes: u64) {
        self.add(Index::gathered_writes, writes);
    }

    pub(crate) fn count_flush(&self) {
        self.add(Index::flushes, 1);
    }

    pub(crate) fn count_plan(&self, plan: &Plan) {
        self.add(Index::stripe_writes, 1);
        if plan.bands.iter().all(|band| band.cycle == Cycle::Full) {
            self.add(Index::stripe_writes_full, 1);
        }
        for band in &plan.bands {
            self.count_cycle(band.cycle, band.rows.len() as u64);
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

    /// As [`Stats::count_plan`], for a plan that is one cycle of so many rows; whole stripes are counted besides.
    pub(crate) fn count_rows(&self, cycle: Cycle, rows: u64) {
        self.add(Index::stripe_writes, 1);
        self.count_cycle(cycle, rows);
    }

    /// As [`Stats::count_plan`], for a whole stripe.
    pub(crate) fn count_whole_stripe(&self, rows: u64) {
        self.add(Index::stripe_writes_full, 1);
        self.count_rows(Cycle::Full, rows);
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
