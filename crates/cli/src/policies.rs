//! Write selection policies by name.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use stripewise::plan::selection::{DEFAULT_POLICY, POLICIES, Policy, policy};

/// Reads a policy's name on the command line. Help and completions list the names.
pub(crate) fn policy_parser() -> impl TypedValueParser<Value = &'static Policy> {
    let value = |policy: &&'static Policy| PossibleValue::new(policy.name).help(policy.summary);
    PossibleValuesParser::new(POLICIES.iter().map(value)).try_map(|name| policy(&name))
}

/// All policies, and whether each is the default.
pub(crate) fn all() -> impl Iterator<Item = (&'static Policy, bool)> {
    POLICIES.iter().map(|policy| (*policy, policy.name == DEFAULT_POLICY.name))
}
