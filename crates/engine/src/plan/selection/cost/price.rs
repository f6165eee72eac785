//! The price of one way to write a stripe, added up member by member.

use crate::plan::costs::{MemberCost, Visit};

/// The share of the time taken from other requests that counts only once. Another request waits at several
/// members at once, as this write does, and a delay at two of them delays it once. The share lies between 1,
/// where all requests wait at the same members, and 0, where they have no member in common.
const OVERLAP: f32 = 1.0 / 3.0;

/// The fraction of the price of fewest reads that the other price must fall below to be chosen. Measured
/// times scatter, and of two cycles that cost the same, the one that asks less of the members is right more
/// often. The policy's summary and docs/policies.md call it a tenth.
pub(super) const MARGIN: f32 = 0.9;

/// When a write would finish, plus the time that it takes from other requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Price {
    read_end: f32,
    write_end: f32,
    from_others: f32,
    most_from_others: f32,
}

impl Price {
    /// Adds a member that is asked to read and to write these rows.
    #[inline]
    pub(super) fn add(&mut self, cost: &MemberCost, reads: Option<&Visit>, writes: Option<&Visit>) {
        let mut work = 0.0;
        if let Some(rows) = reads {
            let ns = cost.read.of(rows);
            self.read_end = self.read_end.max(ns + cost.queue * cost.read.fixed_ns);
            work += ns;
        }
        if let Some(rows) = writes {
            let time = if reads.is_none() { &cost.write } else { &cost.rewrite };
            let ns = time.of(rows);
            self.write_end = self.write_end.max(ns + cost.queue * cost.write.fixed_ns);
            work += ns;
        }
        self.from_others += cost.queue * work;
        self.most_from_others = self.most_from_others.max(cost.queue * work);
    }

    pub(super) fn ns(&self) -> f32 {
        let Self { read_end, write_end, from_others, most_from_others } = self;
        read_end + write_end + from_others + OVERLAP * (most_from_others - from_others)
    }
}
