//! Passes over a plan: operations that are added so that members take less time. A pass leaves what the plan does to
//! data and redundancy as it is.
//!
//! A pass is a function in a file here, with its [`Pass`] entry, and one line in [`PASSES`]. `docs/design/caching.md` tells
//! how to add one.

mod contiguity;
mod gaps;
/// The example that `docs/design/caching.md` gives.
#[cfg(test)]
mod mostly;
mod strides;

pub use contiguity::Filled;
pub use gaps::{Edges, with_gaps};
pub use strides::{ColumnStrides, GapRule, MemberStrides, STRIDE_MAX, Strides};

use super::{matrix::Plan, state::StripeState};
use crate::shape::rows::RowSet;

/// A pass.
pub struct Pass {
    /// What it does to a destage, in a few words.
    pub name: &'static str,
    /// Adds its operations to a plan, in these rows, which are locked, and returns what it added.
    pub run: fn(&mut Plan, &StripeState, RowSet, &dyn ColumnStrides) -> Filled,
}

/// All passes, in the order in which they run.
pub static PASSES: &[&Pass] = &[
    // A new pass is a line here.
    &contiguity::READS,
    &contiguity::WRITES,
];

/// Runs all passes over a plan. `held` are the rows that are locked.
pub fn transform(plan: &mut Plan, state: &StripeState, held: RowSet, strides: &dyn ColumnStrides) -> Filled {
    let filled = PASSES.iter().map(|pass| (pass.run)(plan, state, held, strides));
    filled.fold(Filled::default(), |all, one| Filled {
        blocks: all.blocks + one.blocks,
        requests_saved: all.requests_saved + one.requests_saved,
    })
}

#[cfg(test)]
pub use tests::example;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the pass that the document adds as its example.
    pub fn example(
        plan: &mut Plan,
        state: &StripeState,
        held: RowSet,
        strides: &dyn ColumnStrides,
    ) -> Filled {
        (mostly::PASS.run)(plan, state, held, strides)
    }

    #[test]
    fn the_document_has_the_example_as_it_is() {
        let document = include_str!("../../../../../docs/design/caching.md");
        assert!(document.contains(concat!("```rust\n", include_str!("mostly.rs"), "```\n")));
    }
}
