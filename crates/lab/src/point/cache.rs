//! The cache of a point's array.

use stripewise_engine::{
    CacheKind, CacheSettings,
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
    /// Whose rules it follows.
    pub way: CacheWay,
    /// How it destages under these rules.
    pub destage: Destage,
    /// Writes are acknowledged only when members have them, as md's are.
    pub through: bool,
}

/// Whose rules a cache follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheWay {
    /// Those of msc-ct's driver: nothing is destaged for its age or while clients are idle, memory is taken by stripes, and no write
    /// goes past the cache.
    Paper,
    /// Ours, as by default.
    Ours,
}

/// When a cache destages, what first, and which gaps it fills; by the engine's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destage {
    /// From when on, and until when.
    pub when: &'static str,
    /// Which stripes first.
    pub what: &'static str,
    /// The rule by which gaps are filled.
    pub gaps: GapRule,
}

impl Destage {
    /// As msc-ct's driver: from the high mark on until below the low one, what was written longest ago first, gaps below S_max.
    pub const PAPER: Self = Self { when: "hlm", what: "lrw", gaps: GapRule::Thresholds };
    /// As by default.
    pub const OURS: Self = Self { when: "lt", what: "gain", gaps: GapRule::Weighed };
}

impl CacheSetting {
    /// Its name in keys.
    pub(crate) fn key(&self) -> String {
        let way = match self.way {
            CacheWay::Paper => "paper",
            CacheWay::Ours => "ours",
        };
        let Destage { when, what, gaps } = self.destage;
        let through = if self.through { " through" } else { "" };
        format!("cache={} {} {way} {when} {what} {}{through}", self.kind.name(), self.size_bytes, gaps.name())
    }

    /// As the engine has it.
    ///
    /// # Panics
    /// If the engine has no such policy.
    pub(super) fn settings(&self) -> CacheSettings {
        let Destage { when, what, gaps } = self.destage;
        let settings = match self.way {
            CacheWay::Paper => CacheSettings::as_in_paper(self.kind, self.size_bytes),
            CacheWay::Ours => CacheSettings::new(self.kind, self.size_bytes),
        };
        CacheSettings {
            when: WHEN.iter().find(|policy| policy.name == when).expect("the engine has it"),
            what: WHAT.iter().find(|policy| policy.name == what).expect("the engine has it"),
            gaps,
            ..settings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_what_an_array_has_by_default() {
        let size_bytes = 64 << 20;
        for kind in CacheKind::ALL.into_iter().filter(|kind| *kind != CacheKind::None) {
            let ours = CacheSetting {
                kind,
                size_bytes,
                way: CacheWay::Ours,
                destage: Destage::OURS,
                through: false,
            };
            assert_eq!(ours.settings(), CacheSettings::new(kind, size_bytes));
        }
    }
}
