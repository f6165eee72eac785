//! What an array has done since it was opened: requests of clients, plans by cycle, member errors.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::plan::{Cycle, Plan};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counters of one array. Each only grows.
        #[derive(Debug, Default)]
        pub struct Stats { $($name: AtomicU64),+ }

        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct StatsReport { $($(#[$doc])* pub $name: u64),+ }

        impl Stats {
            /// The counters now.
            pub fn report(&self) -> StatsReport {
                StatsReport { $($name: self.$name.load(Relaxed)),+ }
            }
        }

        impl StatsReport {
            /// Names and values, in order.
            pub fn fields(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

counters! {
    /// Read requests of clients.
    reads,
    /// Bytes that clients read.
    read_bytes,
    /// Write requests of clients.
    writes,
    /// Bytes that clients wrote.
    written_bytes,
    /// Flushes of clients.
    flushes,
    /// Stripe writes: one for each stripe of each write.
    stripe_writes,
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

impl Stats {
    pub(crate) fn count_read(&self, bytes: u64) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn count_write(&self, bytes: u64) {
        self.writes.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn count_flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_plan(&self, plan: &Plan) {
        self.stripe_writes.fetch_add(1, Relaxed);
        for band in &plan.bands {
            let counter = match band.cycle {
                Cycle::Direct => continue,
                Cycle::Full => &self.rows_full,
                Cycle::Rmw => &self.rows_rmw,
                Cycle::Rcw => &self.rows_rcw,
                Cycle::Recover => &self.rows_recovered,
            };
            counter.fetch_add(band.rows.len() as u64, Relaxed);
        }
    }

    pub(crate) fn count_recovered(&self) {
        self.recovered_reads.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_read_error(&self) {
        self.member_read_errors.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_healed(&self) {
        self.healed_blocks.fetch_add(1, Relaxed);
    }
}
