//! md's counts: how many blocks of a row each cycle would have to read.

use super::state::{Redundancy, StripeState};

/// What `handle_stripe_dirtying` of md's raid5.c counts for a row, or a column of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks that an RMW reads: dirty ones and parity whose old content is not in hand.
    pub rmw: u32,
    /// Blocks that an RCW reads: data that is neither wholly new nor in hand.
    pub rcw: u32,
}

/// Counts a row.
pub(super) fn counts(state: &StripeState, row: usize) -> Counts {
    (0..state.columns.len())
        .map(|column| state.counts_of(column, row))
        .fold(Counts::default(), |all, one| Counts { rmw: all.rmw + one.rmw, rcw: all.rcw + one.rcw })
}

/// What a block that cannot be read counts for: twice the members, so that a cycle that does not need it is
/// taken.
pub(super) const fn unreadable_price(members: usize) -> u32 {
    2 * members as u32
}

impl StripeState {
    /// What one column adds to a row's counts; nothing where there is no parity.
    pub fn counts_of(&self, column: usize, row: usize) -> Counts {
        let is_parity = column >= self.data_columns;
        let unreadable = unreadable_price(self.columns.len());
        let column = &self.columns[column];
        if !matches!(self.redundancy, Redundancy::Parity { .. }) || column.clean.contains(row) {
            return Counts::default();
        }
        let price = if column.readable() { 1 } else { unreadable };
        let is_dirty = column.dirty.contains(row);
        let rcw = !is_parity && (!is_dirty || column.partial.contains(row));
        Counts { rmw: if is_parity || is_dirty { price } else { 0 }, rcw: if rcw { price } else { 0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{ColumnState, Presence},
        shape::rows::RowSet,
    };

    /// A block as md's flags have it.
    #[derive(Debug, Clone, Copy)]
    struct MdBlock {
        /// `towrite` is set.
        to_write: bool,
        /// `R5_OVERWRITE`: all of the block is new.
        overwrite: bool,
        /// `R5_UPTODATE`: the old content is in the stripe cache.
        up_to_date: bool,
        /// `R5_Insync`.
        in_sync: bool,
    }

    impl MdBlock {
        /// Every possible block: parity never has `towrite` set, and `R5_OVERWRITE` is set only with
        /// `towrite`.
        fn all(is_parity: bool) -> Vec<Self> {
            let writes: &[_] =
                if is_parity { &[(false, false)] } else { &[(false, false), (true, false), (true, true)] };
            let states = [(false, true), (true, true), (false, false), (true, false)];
            let with = |(to_write, overwrite): (bool, bool)| {
                states.map(|(up_to_date, in_sync)| Self { to_write, overwrite, up_to_date, in_sync })
            };
            writes.iter().copied().flat_map(with).collect()
        }

        fn column(self) -> ColumnState {
            let row = |is: bool| if is { RowSet::range(0..1) } else { RowSet::EMPTY };
            ColumnState {
                presence: if self.in_sync { Presence::Present } else { Presence::Missing },
                dirty: row(self.to_write),
                partial: row(self.to_write && !self.overwrite),
                clean: row(self.up_to_date),
            }
        }
    }

    /// The loops of `handle_stripe_dirtying`, as they are there.
    fn as_md_counts(blocks: &[MdBlock], data: usize) -> (u32, u32) {
        let disks = blocks.len() as u32;
        let (mut rmw, mut rcw) = (0, 0);
        for (i, dev) in blocks.iter().enumerate() {
            let is_parity = i >= data;
            if (dev.to_write || is_parity) && !dev.up_to_date {
                if dev.in_sync { rmw += 1 } else { rmw += 2 * disks }
            }
            if !dev.overwrite && !is_parity && !dev.up_to_date {
                if dev.in_sync { rcw += 1 } else { rcw += 2 * disks }
            }
        }
        (rmw, rcw)
    }

    /// Every combination of empty, partial and dirty, cached or not, present or missing.
    fn compare_all(data: usize, parity: usize) {
        let kinds: Vec<_> = (0..data + parity).map(|index| MdBlock::all(index >= data)).collect();
        let combinations: usize = kinds.iter().map(Vec::len).product();
        for number in 0..combinations {
            let mut left = number;
            let blocks: Vec<_> = kinds
                .iter()
                .map(|kinds| {
                    let block = kinds[left % kinds.len()];
                    left /= kinds.len();
                    block
                })
                .collect();
            let state = StripeState {
                columns: blocks.iter().map(|block| block.column()).collect(),
                data_columns: data,
                redundancy: Redundancy::Parity { trusted: true },
            };
            let Counts { rmw, rcw } = counts(&state, 0);
            assert_eq!((rmw, rcw), as_md_counts(&blocks, data), "{blocks:?}");
        }
    }

    #[test]
    fn the_counts_are_mds_in_every_state() {
        compare_all(2, 1);
        compare_all(3, 1);
        compare_all(2, 2);
    }
}
