//! The cache as msc-ct's driver has it (III-E, IV-A).

use super::settings::{CacheAlloc, CacheKind, CachePast, CacheSettings, ReadCache};
use crate::{
    destage::{DestagePolicy, WHAT, WHEN},
    plan::passes::GapRule,
};

impl CacheSettings {
    /// A cache of this kind and size whose rules are those of msc-ct's driver. It destages from the high mark on until below the low one,
    /// what was written longest ago first, and neither for its age nor while clients are idle. It takes memory by stripes, no write goes
    /// past it, and gaps below S_max are filled.
    pub fn as_in_paper(kind: CacheKind, size_bytes: u64) -> Self {
        Self {
            when: named(WHEN, "hlm"),
            what: named(WHAT, "lrw"),
            low_percent: 85,
            high_percent: 95,
            age: None,
            idle: None,
            flush_time: None,
            read: ReadCache::Written,
            alloc: CacheAlloc::Stripe,
            past: CachePast::Never,
            gaps: GapRule::Thresholds,
            ..Self::new(kind, size_bytes)
        }
    }
}

/// The policy of this name, which the list has.
fn named<P: ?Sized>(
    list: &'static [&'static DestagePolicy<P>],
    name: &'static str,
) -> &'static DestagePolicy<P> {
    list.iter().find(|policy| policy.name == name).expect("the list has it")
}
