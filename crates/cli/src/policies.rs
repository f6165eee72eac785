//! Write selection policies by name.

use stripewise::plan::selection::{DEFAULT_POLICY, POLICIES, Policy, UnknownPolicy, policy};

/// A policy on the command line.
///
/// # Errors
/// A text for the usage error, which names the policies.
pub(crate) fn parse_policy(name: &str) -> Result<&'static Policy, UnknownPolicy> {
    policy(name)
}

/// All policies, and whether each is the default.
pub(crate) fn all() -> impl Iterator<Item = (&'static Policy, bool)> {
    POLICIES.iter().map(|policy| (*policy, policy.name == DEFAULT_POLICY.name))
}
