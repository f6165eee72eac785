//! The cache of a point's array.

use stripewise_engine::{
    CacheAlloc, CacheKind, CachePast, CacheSettings, ReadCache,
    destage::{WHAT, WHEN},
    plan::passes::GapRule,
};

/// The cache of a point's array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSetting {
    /// Which one.
    pub kind: CacheKind,
    /// Bytes of memory.
    pub size_bytes: u64,
    /// How it destages.
    pub way: CacheWay,
    /// Writes are acknowledged only when members have them, as md's are.
    pub through: bool,
}

/// How a cache destages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheWay {
    /// As msc-ct's driver: from the high mark on until below the low one, what was written longest ago first, for no other
    /// reason; memory is taken by stripes, no write goes past the cache, and gaps are filled by thresholds.
    Paper,
    /// The same, but gaps are weighed.
    PaperWeighed,
    /// As ours does by default.
    Ours,
}

impl CacheSetting {
    /// Its name in keys.
    pub(crate) fn key(&self) -> String {
        let way = match self.way {
            CacheWay::Paper => "paper",
            CacheWay::PaperWeighed => "paper weighed",
            CacheWay::Ours => "ours",
        };
        let through = if self.through { " through" } else { "" };
        format!("cache={} {} {way}{through}", self.kind.name(), self.size_bytes)
    }

    /// As the engine has it.
    pub(super) fn settings(&self) -> CacheSettings {
        let settings = CacheSettings::new(self.kind, self.size_bytes);
        match self.way {
            CacheWay::Ours => settings,
            CacheWay::PaperWeighed => CacheSettings { gaps: GapRule::Weighed, ..as_in_paper(settings) },
            CacheWay::Paper => as_in_paper(settings),
        }
    }
}

/// These settings, as msc-ct's driver has the others.
fn as_in_paper(settings: CacheSettings) -> CacheSettings {
    CacheSettings {
        when: WHEN.iter().find(|when| when.name == "hlm").expect("the engine has it"),
        what: WHAT.iter().find(|what| what.name == "lrw").expect("the engine has it"),
        age: None,
        idle: None,
        flush_time: None,
        read: ReadCache::Written,
        alloc: CacheAlloc::Stripe,
        past: CachePast::Never,
        gaps: GapRule::Thresholds,
        ..settings
    }
}
