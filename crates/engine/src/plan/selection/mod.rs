//! Write selection: read-modify-write or reconstruct-write, for rows where both are possible.
//!
//! A policy is one file here: a type that is a [`WriteSelection`], and its [`Policy`] entry `POLICY`; and its line in
//! [`POLICIES`]. `docs/policies.md` tells how to add one.

mod by_counts;

use std::{fmt::Debug, ops::Range, sync::Arc};

use stripewise_format::extension::MemberClass;
use thiserror::Error;

pub use by_counts::{Rule, by_counts, cycle_by};
pub use classic::Classic;
pub use cost::Cost;
pub use modified::Modified;
pub use modthresh::ModThresh;
pub use prefer_rmw::PreferRmw;

use crate::plan::{Band, Cycle, StripeState, costs::ColumnCosts, counts::unreadable_price};

/// Chooses how partly written rows are written.
pub trait WriteSelection: Debug + Send + Sync {
    /// The policy's entry in [`POLICIES`].
    fn policy(&self) -> &'static Policy;

    /// Sets the cycle of every band whose `free` is set to [`Cycle::Rmw`] or [`Cycle::Rcw`]. The other bands are what they are.
    /// By the [rule](Self::rule), unless a policy says otherwise; one that has none must.
    fn choose(&self, _: &StripeState, _: &dyn ColumnCosts, bands: &mut [Band]) {
        match self.rule() {
            Some(rule) => by_counts(bands, rule),
            None => debug_assert!(false, "{} has neither a rule nor a way to choose", self.policy().name),
        }
    }

    /// The policy's rule, if it looks at nothing but the two counts of a row: whether RMW is to be chosen.
    fn rule(&self) -> Option<Rule> {
        None
    }

    /// The cycle of a write to one column alone, if it can be told without a plan. A policy with a [rule](Self::rule) is not
    /// asked.
    fn of_one_column(&self, _: &OneColumn, _: &dyn ColumnCosts) -> Option<Cycle> {
        None
    }

    /// Whether the policy looks at what members cost: else nobody measures that.
    fn needs_costs(&self) -> bool {
        false
    }
}

/// The commonest small write: whole blocks of one column, in a stripe of two data columns or more of which nothing is in hand.
/// A policy is asked about it only where all columns can be read.
#[derive(Debug, Clone)]
pub struct OneColumn {
    /// The column that is written.
    pub column: usize,
    /// How many columns are data.
    pub data_columns: usize,
    /// How many are parity, behind those.
    pub parity_columns: usize,
    /// The rows that are written.
    pub rows: Range<usize>,
}

impl OneColumn {
    /// The blocks of a row that RMW and RCW would read.
    pub fn counts(&self) -> (u32, u32) {
        self.counts_without(0)
    }

    /// The same where so many parity columns are missing.
    pub(crate) fn counts_without(&self, parity_lost: usize) -> (u32, u32) {
        let price = unreadable_price(self.data_columns + self.parity_columns);
        let readable = 1 + self.parity_columns - parity_lost;
        (readable as u32 + price * parity_lost as u32, self.data_columns as u32 - 1)
    }
}

/// A policy as people name it and members keep it.
#[derive(Debug)]
pub struct Policy {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its number in the extension header; 0 stands for the default there. Never reused.
    pub number: u8,
    /// Makes one for an array.
    pub make: fn() -> Arc<dyn WriteSelection>,
}

/// Policies by their files.
macro_rules! policies {
    ($($file:ident,)+) => {
        $(mod $file;)+

        /// All policies.
        pub static POLICIES: &[&Policy] = &[$(&$file::POLICY),+];
    };
}

// A new one is a line here.
policies! {
    classic,
    modthresh,
    modified,
    cost,
    prefer_rmw,
}

/// The policy of an array for which none was ever chosen, as one that mdadm made.
pub static DEFAULT_POLICY: &Policy = &classic::POLICY;

/// The policy of a new array for which none was chosen: `cost` where a member rotates, so that how far apart its I/O lies
/// and how much of it waits make the difference; else md's, which is as good and measures nothing.
pub fn policy_for(classes: impl IntoIterator<Item = MemberClass>) -> &'static Policy {
    if classes.into_iter().any(|class| class == MemberClass::Hdd) { &cost::POLICY } else { DEFAULT_POLICY }
}

/// A name that no policy has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no write selection policy '{name}'; give one of {}", names())]
pub struct UnknownPolicy {
    /// As given.
    pub name: String,
}

/// The policy of this name.
///
/// # Errors
/// [`UnknownPolicy`], which names those there are.
pub fn policy(name: &str) -> Result<&'static Policy, UnknownPolicy> {
    let found = POLICIES.iter().find(|policy| policy.name == name);
    found.copied().ok_or_else(|| UnknownPolicy { name: name.to_owned() })
}

/// The policy of a number that a member keeps: the default for 0; none for one of a later version.
pub fn policy_numbered(number: u8) -> Option<&'static Policy> {
    match number {
        0 => Some(DEFAULT_POLICY),
        _ => POLICIES.iter().find(|policy| policy.number == number).copied(),
    }
}

fn names() -> String {
    POLICIES.iter().map(|policy| policy.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_find_their_policy() {
        for known in POLICIES {
            assert_eq!(policy(known.name).unwrap().number, known.number);
            assert_eq!(policy_numbered(known.number).unwrap().name, known.name);
            assert_eq!((known.make)().policy().name, known.name);
            assert_ne!(known.number, 0, "0 is the default's");
            assert_eq!(POLICIES.iter().filter(|other| other.number == known.number).count(), 1);
        }
        assert_eq!(policy_for([MemberClass::Ssd, MemberClass::Hdd]).name, "cost");
        assert_eq!(policy_for([MemberClass::Ssd, MemberClass::Unknown]).name, "classic");
        assert_eq!(policy_numbered(0).unwrap().name, DEFAULT_POLICY.name);
        assert!(policy_numbered(u8::MAX).is_none(), "no version has that many");
        let error = policy("fastest").unwrap_err().to_string();
        assert!(error.contains("classic, modthresh, modified, cost, prefer-rmw"), "{error}");
    }
}
