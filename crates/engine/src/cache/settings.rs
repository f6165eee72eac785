//! What an operator chooses about the cache.

/// Which cache an array has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheKind {
    /// None: a write is acknowledged when members have it.
    #[default]
    None,
    /// By rows, as md's stripe cache is (msc-ct's PBGC): rows are destaged one by one.
    Pbg,
    /// By stripes (msc-ct's SC): what is dirty in a stripe is destaged together.
    Stripe,
}

/// The cache of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// Which one.
    pub kind: CacheKind,
    /// Bytes of memory that it takes: blocks, and all that it keeps about them.
    pub size_bytes: u64,
}

impl CacheSettings {
    /// No cache.
    pub const NONE: Self = Self { kind: CacheKind::None, size_bytes: 0 };
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self::NONE
    }
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheReport {
    /// Bytes of memory that it may take.
    pub size_bytes: u64,
    /// Bytes that it takes for what it holds.
    pub used_bytes: u64,
    /// Blocks of 4 KiB that members do not hold yet, at least in part.
    pub dirty_blocks: u64,
    /// Blocks that members hold, too.
    pub clean_blocks: u64,
}
