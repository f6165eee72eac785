//! What a way to write a stripe would cost, added up member by member.

use crate::plan::costs::{MemberCost, Visit};

/// How much of what members take from others is the same requests' waiting. Others wait at several members at
/// once as this write does, and what is delayed at two of them is delayed once: between requests that all
/// wait at the same members (1) and requests that have none in common (0).
const OVERLAP: f32 = 1.0 / 3.0;

/// When a write would finish, plus what it takes from others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Price {
    read_end: f32,
    write_end: f32,
    from_others: f32,
    most_from_others: f32,
}

impl Price {
    /// A member is asked to read and to write these rows.
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
