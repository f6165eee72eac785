//! What I/O costs on the members of a stripe, for policies that weigh it.

use crate::shape::rows::RowSet;

/// How long requests of one class occupy a member: a fixed part, and a part by length.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ServiceTime {
    /// Nanoseconds of each request, beyond its blocks: command, seek, rotation.
    pub fixed_ns: f32,
    /// Nanoseconds of each block.
    pub block_ns: f32,
}

impl ServiceTime {
    /// Nanoseconds of a visit to a chunk for these rows: one request for each run of rows. Between two runs,
    /// the member lets the gap pass or seeks again, whichever is faster.
    #[inline]
    pub fn of(&self, visit: &Visit) -> f32 {
        let gaps = || visit.gaps().map(|rows| self.fixed_ns.min(rows as f32 * self.block_ns)).sum::<f32>();
        let rows_ns = self.fixed_ns + visit.blocks * self.block_ns;
        if visit.one_run { rows_ns } else { rows_ns + gaps() }
    }
}

/// Rows of a chunk that a member is asked for together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Visit {
    rows: RowSet,
    blocks: f32,
    one_run: bool,
}

impl Visit {
    /// For these rows.
    #[inline]
    pub fn to(rows: RowSet) -> Self {
        let blocks = rows.len();
        let span = rows.first().zip(rows.last()).map_or(0, |(first, last)| last - first + 1);
        Self { rows, blocks: blocks as f32, one_run: span == blocks }
    }

    /// The rows.
    pub fn rows(&self) -> RowSet {
        self.rows
    }

    /// How many rows lie between one run and the next.
    fn gaps(&self) -> impl Iterator<Item = usize> {
        let mut end = None;
        self.rows.runs().filter_map(move |run| {
            let before = end.replace(run.end)?;
            Some(run.start - before)
        })
    }
}

/// What requests cost on one member.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemberCost {
    /// Reads.
    pub read: ServiceTime,
    /// Writes to a place that was not just read.
    pub write: ServiceTime,
    /// Writes to a place that was just read: on an HDD a rotation and no seek, unless the head has moved away
    /// since.
    pub rewrite: ServiceTime,
    /// Requests that wait or are served at the member, on average.
    pub queue: f32,
}

impl MemberCost {
    /// A hard disk of 7200 rpm that was not measured: a third of a stroke, half a revolution, 150 MB/s.
    pub const HDD: Self = {
        let random = ServiceTime { fixed_ns: 12_500_000.0, block_ns: 27_000.0 };
        let rewrite = ServiceTime { fixed_ns: 8_300_000.0, block_ns: 27_000.0 };
        Self { read: random, write: random, rewrite, queue: 0.0 }
    };

    /// A solid-state drive on SATA that was not measured: 100 us, 500 MB/s. Also assumed for members of
    /// unknown kind: all their I/O costs the same, by its length.
    pub const SSD: Self = {
        let any = ServiceTime { fixed_ns: 100_000.0, block_ns: 8_000.0 };
        Self { read: any, write: any, rewrite: any, queue: 0.0 }
    };
}

/// The members' costs, by column of the stripe.
pub trait ColumnCosts {
    /// What the member of a column costs.
    fn of(&self, column: usize) -> MemberCost;

    /// The member that has the stripe's parity. Stripes with parity on the same member have the same member
    /// for each column.
    fn parity_member(&self) -> usize {
        0
    }
}

/// Nothing is known of the members: all cost what a solid-state drive costs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCosts;

impl ColumnCosts for NoCosts {
    fn of(&self, _: usize) -> MemberCost {
        MemberCost::SSD
    }
}

/// By column, as a list.
impl ColumnCosts for &[MemberCost] {
    fn of(&self, column: usize) -> MemberCost {
        self[column]
    }
}
