//! What I/O costs on the members of a stripe, for policies that weigh it.

use crate::rows::{BLOCK_BYTES, RowSet};

/// What requests of each class cost on one member: a fixed part each, and a part by length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemberCost {
    /// Nanoseconds of a read somewhere else, beyond its blocks.
    pub random_read_ns: f32,
    /// Nanoseconds of a write somewhere else, beyond its blocks.
    pub random_write_ns: f32,
    /// Nanoseconds of a write where a read has just been, beyond its blocks: on an HDD a rotation and no seek, as long as
    /// the head has not been called away.
    pub rewrite_ns: f32,
    /// Nanoseconds to read a block, once there.
    pub read_block_ns: f32,
    /// Nanoseconds to write a block, once there.
    pub write_block_ns: f32,
    /// Requests that wait or are served at the member, on average.
    pub queue: f32,
}

impl MemberCost {
    /// All I/O alike and nothing waiting: what is assumed of members of which nothing is known.
    pub const UNKNOWN: Self = Self {
        random_read_ns: 100_000.0,
        random_write_ns: 100_000.0,
        rewrite_ns: 100_000.0,
        read_block_ns: 10_000.0,
        write_block_ns: 10_000.0,
        queue: 0.0,
    };

    /// Nanoseconds that the member works to read these rows of a chunk.
    pub fn read_ns(&self, rows: RowSet) -> f32 {
        work_ns(rows, self.random_read_ns, self.read_block_ns)
    }

    /// Nanoseconds that the member works to write these rows of a chunk; `after_read` if it has just read there.
    pub fn write_ns(&self, rows: RowSet, after_read: bool) -> f32 {
        let first_ns = if after_read { self.rewrite_ns } else { self.random_write_ns };
        work_ns(rows, first_ns, self.write_block_ns)
    }
}

/// One request for each run of rows; between two runs the member waits for the gap to pass, or goes there anew.
fn work_ns(rows: RowSet, fixed_ns: f32, block_ns: f32) -> f32 {
    let Some(first) = rows.first() else { return 0.0 };
    let len = rows.len();
    let mut total_ns = fixed_ns + len as f32 * block_ns;
    if !rows.is_run_from(first, len) {
        let mut runs = rows.runs();
        let mut end = runs.next().map_or(0, |run| run.end);
        for run in runs {
            total_ns += fixed_ns.min((run.start - end) as f32 * block_ns);
            end = run.end;
        }
    }
    total_ns
}

/// The members' costs, by column of the stripe.
pub trait ColumnCosts {
    /// What the member of a column costs.
    fn of(&self, column: usize) -> MemberCost;
}

/// No member is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCosts;

impl ColumnCosts for NoCosts {
    fn of(&self, _: usize) -> MemberCost {
        MemberCost::UNKNOWN
    }
}

/// Costs by column, as a list.
impl ColumnCosts for [MemberCost] {
    fn of(&self, column: usize) -> MemberCost {
        self[column]
    }
}

/// Blocks in so many bytes.
pub fn blocks(bytes: u64) -> f32 {
    bytes as f32 / BLOCK_BYTES as f32
}
