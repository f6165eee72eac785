//! What a policy sees of a stripe.

use crate::plan::{
    recipe::Parity,
    state::{ColumnState, StripeState},
};

/// What the two cycles ask of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// A read-modify-write reads it: a dirty block, or parity.
    pub rmw_reads: bool,
    /// A reconstruct-write reads it: data that is not wholly new.
    pub rcw_reads: bool,
    /// Both write it.
    pub writes: bool,
}

/// A stripe of which some rows can be written by either cycle.
#[derive(Debug, Clone, Copy)]
pub struct Stripe<'a>(View<'a>);

#[derive(Debug, Clone, Copy)]
enum View<'a> {
    State(&'a StripeState),
    OneColumn(OneColumn),
}

/// The commonest small write: whole blocks of one column, in a stripe with nothing in hand and all data
/// readable.
#[derive(Debug, Clone, Copy)]
pub(in crate::plan) struct OneColumn {
    /// The column that is written.
    pub(in crate::plan) column: usize,
    pub(in crate::plan) data_columns: usize,
    /// How many parity columns follow those.
    pub(in crate::plan) parity_columns: usize,
    /// The parity that is there.
    pub(in crate::plan) parity: Parity,
}

impl<'a> Stripe<'a> {
    /// A stripe in this state.
    pub fn of(state: &'a StripeState) -> Self {
        Self(View::State(state))
    }

    /// The stripe of a write to one column.
    pub(in crate::plan) fn of_one_column(write: OneColumn) -> Self {
        Self(View::OneColumn(write))
    }

    /// How many columns it has: data, then P, then Q.
    pub fn columns(&self) -> usize {
        match &self.0 {
            View::State(state) => state.columns.len(),
            View::OneColumn(write) => write.data_columns + write.parity_columns,
        }
    }

    /// What the cycles ask of a column's block in a row that is written.
    #[inline]
    pub fn asked(&self, column: usize, row: usize) -> Asked {
        match &self.0 {
            View::State(state) => of_state(&state.columns[column], row, column >= state.data_columns),
            View::OneColumn(write) => {
                let is_data = column < write.data_columns;
                let is_there = |parity: usize| write.parity.columns().contains(&parity);
                let changes = match is_data {
                    true => column == write.column,
                    false => is_there(column - write.data_columns),
                };
                Asked { rmw_reads: changes, rcw_reads: is_data && !changes, writes: changes }
            }
        }
    }
}

#[inline]
fn of_state(column: &ColumnState, row: usize, is_parity: bool) -> Asked {
    let is_dirty = column.dirty.contains(row);
    let is_whole = is_dirty && !column.partial.contains(row);
    let is_read = column.readable() && !column.clean.contains(row);
    Asked {
        rmw_reads: is_read && (is_parity || is_dirty),
        rcw_reads: is_read && !is_parity && !is_whole,
        writes: column.writable() && (is_parity || is_dirty),
    }
}
