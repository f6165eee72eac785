//! The plan: what a stripe's write does, by rows (MSC-CT's rxw-matrix, msc-ct III-B). It is lowered to a
//! [`recipe`], which is executed.
//!
//! A plan is made for one stripe, by pure functions: [`StripeState`] says what is in hand, a
//! [`WriteSelection`] chooses a [`Cycle`] for each row, and the result is one bit set of rows per column and
//! operation (msc-ct Table I). Passes may then add operations.

mod build;
pub mod costs;
mod counts;
mod draw;
mod matrix;
pub mod passes;
pub(crate) mod quick;
pub mod recipe;
pub(crate) mod recover;
pub mod selection;
mod state;

pub use build::build;
pub(crate) use build::build_into;
pub use counts::Counts;
pub use matrix::{Band, ColumnOps, Cycle, Estimate, Plan, PlanError};
pub use recipe::{Recipe, lower};
pub use selection::WriteSelection;
pub use state::{ColumnState, Presence, Redundancy, StripeState};
