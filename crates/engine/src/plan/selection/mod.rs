//! Write selection: read-modify-write or reconstruct-write, for rows where both are possible.
//!
//! A policy is one file here, with a type that is a [`WriteSelection`] and its [`Policy`] entry `POLICY`, and
//! one line in [`POLICIES`]. `docs/policies.md` tells how to add one.

mod by_counts;
mod policy;
mod view;

use stripewise_format::extension::MemberClass;
use thiserror::Error;

pub use by_counts::by_counts;
pub use classic::Classic;
pub use cost::Cost;
pub use modified::Modified;
pub use modthresh::ModThresh;
pub use policy::{OWN_NUMBERS, Policy, WriteSelection};
pub use prefer_rmw::PreferRmw;
pub(super) use view::OneColumn;
pub use view::{Asked, Stripe};

impl Policy {
    /// Whether an opening can find the policy again by its number.
    pub(crate) fn can_be_kept(&self) -> bool {
        OWN_NUMBERS.contains(&self.number) || POLICIES.contains(&self)
    }
}

/// Policies by their files.
macro_rules! policies {
    ($($file:ident,)+) => {
        $(mod $file;)+

        /// All policies.
        pub static POLICIES: &[&Policy] = &[$(&$file::POLICY),+];
    };
}

// A new policy is a line here.
policies! {
    classic,
    modthresh,
    modified,
    cost,
    prefer_rmw,
}

/// The policy of an array for which none was ever chosen, such as one that mdadm made.
pub static DEFAULT_POLICY: &Policy = &classic::POLICY;

/// The policy of a new array for which none was chosen. It is `cost` if a member rotates: there, how far
/// apart I/O lies and how much of it waits make the difference. Otherwise it is md's, which is as good and
/// measures nothing.
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
/// [`UnknownPolicy`], which names the policies that exist.
pub fn policy(name: &str) -> Result<&'static Policy, UnknownPolicy> {
    let found = POLICIES.iter().find(|policy| policy.name == name);
    found.copied().ok_or_else(|| UnknownPolicy { name: name.to_owned() })
}

/// The policy of a number that a member stores: the default for 0; none for a number of a later version.
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
            assert!(known.can_be_kept());
            assert!(!OWN_NUMBERS.contains(&known.number), "embedders' own");
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
