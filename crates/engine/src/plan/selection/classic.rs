//! md's rule.

use std::sync::Arc;

use super::{Policy, Rule, WriteSelection};

pub(super) static POLICY: Policy = Policy {
    name: "classic",
    summary: "RMW where it reads fewer blocks than RCW, as md",
    number: 1,
    make: || Arc::new(Classic),
};

/// RMW when it reads fewer blocks (md's `handle_stripe_dirtying`; raid4s-modthresh 2.2.2, Fig. 8). Without cached
/// blocks this is msc-ct II-A: RMW iff 2(1+d) < N - c.
#[derive(Debug, Clone, Copy, Default)]
pub struct Classic;

const RULE: Rule = |rmw, rcw| rmw < rcw;

impl WriteSelection for Classic {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn rule(&self) -> Option<Rule> {
        Some(RULE)
    }
}
