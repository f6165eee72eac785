//! How long a destage of some cells occupies members, about.

use crate::{
    compute::CachedCells,
    plan::costs::{MemberCost, Visit},
    shape::rows::RowSet,
};

/// What members cost on average, and how many of them a row has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DestageCost {
    pub(crate) member: MemberCost,
    pub(crate) data_columns: usize,
    pub(crate) parity_columns: usize,
}

impl DestageCost {
    /// Nanoseconds of members, all together, for what is dirty of a unit.
    pub(crate) fn of(&self, cells: &CachedCells) -> f32 {
        let dirty = cells.dirty_rows();
        let empty = RowSet::EMPTY;
        let (mut full, mut read_by_rcw, mut columns) = (dirty, 0.0, 0);
        let (mut rmw, mut writes) = (0.0, 0.0);
        for (_, column) in cells.columns() {
            let (own, clean) = (column.dirty(), column.clean());
            columns += 1;
            full &= own;
            read_by_rcw += self.visit(&self.member.read, dirty - own - clean);
            writes += self.visit(&self.member.write, own);
            rmw += self.visit(&self.member.read, own - clean) + self.visit(&self.member.rewrite, own);
        }
        let untouched = (self.data_columns - columns.min(self.data_columns)) as f32;
        if untouched > 0.0 {
            full = empty;
            read_by_rcw += untouched * self.visit(&self.member.read, dirty);
        }
        let parity = self.parity_columns as f32;
        rmw += parity * (self.visit(&self.member.read, dirty) + self.visit(&self.member.rewrite, dirty));
        let rcw = read_by_rcw + writes + parity * self.visit(&self.member.write, dirty);
        if full == dirty { rcw } else { rmw.min(rcw) }
    }

    fn visit(&self, time: &crate::plan::costs::ServiceTime, rows: RowSet) -> f32 {
        if rows.is_empty() { 0.0 } else { time.of(&Visit::to(rows)) }
    }
}
