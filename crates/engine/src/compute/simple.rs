//! Recipes with one sum and nothing to join, fill or recover: nearly all writes of whole blocks. Each parity column
//! of the sum lies in one buffer, so nothing needs to be searched for. A property test holds the result to
//! that of `compute_any`.

use smallvec::smallvec;
use stripewise_device::{SharedBuf, WriteBufs};

use super::operands::{self, Fetched, New, Operands, made};
use crate::plan::{
    passes::Filled,
    recipe::{How, Recipe, Source, Span, Sum, Write},
};

/// The recipe's only sum, if the recipe is computed here.
pub(super) fn sum_of(recipe: &Recipe) -> Option<&Sum> {
    match &recipe.sums[..] {
        [sum]
            if recipe.joins.is_empty()
                && recipe.fills.is_empty()
                && recipe.recovers.is_empty()
                && recipe.filled == Filled::default() =>
        {
            Some(sum)
        }
        _ => None,
    }
}

/// As [`compute`](super::compute), for a recipe with only this sum.
pub(super) fn compute<N: New>(
    recipe: &Recipe,
    sum: &Sum,
    data_columns: usize,
    mut new: N,
    fetched: &mut Fetched,
    mut ask: impl FnMut(&Write, WriteBufs),
) {
    match sum.how {
        How::Make => {
            let operands = Operands { new: &new, fetched, joined: &[], rows: sum.rows };
            let parity = made(sum, data_columns, &operands);
            // After the fetched runs, as if it had been read too.
            fetched.extend(parity);
        }
        How::Update(columns) => update(sum, columns, &new, fetched),
    }
    let mut left = recipe.writes.iter().filter(|write| write.from != Source::Sum).count();
    for write in &recipe.writes {
        let bufs = match write.from {
            Source::New(column) => {
                left -= 1;
                new.take(column.into(), &write.bytes(), left == 0)
            }
            _ => smallvec![take_parity(fetched, write.column)],
        };
        ask(write, bufs);
    }
}

/// Takes out a computed parity column.
fn take_parity(fetched: &mut Fetched, column: u16) -> SharedBuf {
    let at = fetched.iter().rposition(|run| run.cells.column == column);
    fetched.swap_remove(at.expect("what is written was computed")).buf.freeze()
}

/// Updates old parity, which was read last, in place.
fn update<N: New>(sum: &Sum, columns: Span, new: &N, fetched: &mut Fetched) {
    let parity_start = fetched.len() - sum.parity.columns().len();
    let (data, old) = fetched.split_at_mut(parity_start);
    debug_assert!(old.is_sorted_by_key(|run| run.cells.column), "P is read before Q");
    let operands = Operands { new, fetched: data, joined: &[], rows: sum.rows };
    match old {
        [p, q] => operands::update(sum, columns, &operands, &mut [&mut p.buf, &mut q.buf]),
        [one] => operands::update(sum, columns, &operands, &mut [&mut one.buf]),
        _ => unreachable!("levels have one or two parity columns"),
    }
}
