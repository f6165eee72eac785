//! What a policy is.

use std::{fmt::Debug, ops::RangeInclusive, sync::Arc};

use super::view::Stripe;
use crate::plan::{costs::ColumnCosts, matrix::Band};

/// Chooses how partly written rows are written.
pub trait WriteSelection: Debug + Send + Sync {
    /// The policy's entry in [`POLICIES`](super::POLICIES).
    fn policy(&self) -> &'static Policy;

    /// Sets the cycle of every free band to [`Cycle::Rmw`](crate::plan::Cycle::Rmw) or
    /// [`Cycle::Rcw`](crate::plan::Cycle::Rcw). The other bands stay as they are. [`by_counts`](super::by_counts()) does this for a
    /// policy that looks only at the two counts of a row.
    fn choose(&self, stripe: &Stripe<'_>, costs: &dyn ColumnCosts, bands: &mut [Band]);

    /// Whether the policy looks at what members cost. If not, costs are not measured.
    fn needs_costs(&self) -> bool {
        false
    }
}

/// A policy, as people name it and members store it.
#[derive(Debug)]
pub struct Policy {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its number in the extension header; 0 stands for the default there. Never reused. Those of policies
    /// outside [`POLICIES`](super::POLICIES) are in [`OWN_NUMBERS`].
    pub number: u8,
    /// Makes one for an array.
    pub make: fn() -> Arc<dyn WriteSelection>,
}

/// The numbers for policies of programs that embed the engine. No policy in [`POLICIES`](super::POLICIES) ever gets one.
pub const OWN_NUMBERS: RangeInclusive<u8> = 128..=255;

/// Policies are the same if their names and numbers are.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.number) == (other.name, other.number)
    }
}

impl Eq for Policy {}
