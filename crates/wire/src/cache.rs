//! An array's cache: how it is, and how it shall be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How the cache shall be. What is none stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheChange {
    /// `none`, `pbg`, `stripe`, `stripe+ct` or `auto`.
    pub kind: Option<String>,
    /// Memory that it may take.
    pub size_bytes: Option<u64>,
    /// Policy of when room is made.
    pub when: Option<String>,
    /// Policy of what is destaged first.
    pub what: Option<String>,
    /// Low mark, in hundredths of what may be dirty.
    pub low_percent: Option<u8>,
    /// High mark.
    pub high_percent: Option<u8>,
    /// The longest that a write stays off the members; 0: for ever.
    pub age_ms: Option<u64>,
    /// After so long without requests everything is destaged; 0: never.
    pub idle_ms: Option<u64>,
    /// No more is dirty than members write in this time; 0: without limit.
    pub flush_ms: Option<u64>,
    /// What is kept for readers: `ahead`, `written` or `none`.
    pub read: Option<String>,
    /// What memory is taken for: `block` or `stripe`.
    pub alloc: Option<String>,
    /// Which writes go past it: `measured` or `never`.
    pub past: Option<String>,
    /// By which rule gaps are filled: `weighed` or `thresholds`.
    pub gaps: Option<String>,
    /// On all members, the smallest stride of reads, in blocks, that is not filled; 0: as measured.
    pub s_max_read: Option<u16>,
    /// The same of writes.
    pub s_max_write: Option<u16>,
}

/// Which way writes go, past the cache or by way of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WayStatus {
    /// They go past it.
    pub is_past: bool,
    /// Why.
    pub why: String,
    /// How long members are occupied by a byte that goes past the cache, as measured, in nanoseconds.
    pub past_ns_per_byte: Option<f64>,
    /// The same by way of it.
    pub cached_ns_per_byte: Option<f64>,
    /// The share of stripes that goes the other way, to compare.
    pub sample: f64,
}

/// A cache at one moment. Counts are since the cache was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheStatus {
    /// `none`, `pbg`, `stripe`, `stripe+ct` or `auto`.
    pub kind: String,
    /// Memory that it may take; 0 without a cache.
    pub size_bytes: u64,
    /// Memory that it may take, or might if there were one.
    pub chosen_bytes: u64,
    /// Memory that it takes for what it holds.
    pub used_bytes: u64,
    /// Whole blocks that members do not hold yet.
    pub dirty_bytes: u64,
    /// The most that may be dirty now.
    pub dirty_max_bytes: u64,
    /// Whole blocks that members hold, too.
    pub clean_bytes: u64,
    /// What members take of it in a second, as last measured.
    pub destaged_bytes_per_s: Option<u64>,
    /// How long it would take to destage everything, by that measurement.
    pub flush_s: Option<f64>,
    /// It is being emptied.
    pub is_draining: bool,
    /// By reason.
    pub destaged: BTreeMap<String, DestagedStatus>,
    /// Reads that it served without members.
    pub read_hits: u64,
    /// Reads of which it had a part.
    pub read_part_hits: u64,
    /// Reads of which it had nothing.
    pub read_misses: u64,
    /// Whole blocks that were read ahead of sequential readers.
    pub ahead_bytes: u64,
    /// How often a write lacked memory.
    pub waits: u64,
    /// Parts of stripes that writes sent past it to members, since it was full and that was faster.
    pub passed: u64,
    /// Which way writes of parts of stripes go now; none without a cache.
    pub way: Option<WayStatus>,
    /// Policy of when room is made.
    pub when: String,
    /// Policy of what is destaged first.
    pub what: String,
    /// Low mark, in hundredths of what may be dirty.
    pub low_percent: u8,
    /// High mark.
    pub high_percent: u8,
    /// The longest that a write stays off the members; none: for ever.
    pub age_ms: Option<u64>,
    /// After so long without requests everything is destaged; none: never.
    pub idle_ms: Option<u64>,
    /// No more is dirty than members write in this time; none: without limit.
    pub flush_ms: Option<u64>,
    /// What is kept for readers: `ahead`, `written` or `none`.
    pub read: String,
    /// What memory is taken for: `block` or `stripe`.
    pub alloc: String,
    /// Which writes go past it.
    pub past: String,
    /// By which rule gaps are filled where an operator gave no limit.
    pub gaps: String,
    /// The smallest stride of reads, in blocks, that is not filled, if an operator gave one: the least of all members'.
    pub s_max_read: Option<u32>,
    /// The same of writes.
    pub s_max_write: Option<u32>,
}

/// What was destaged for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DestagedStatus {
    /// Whole blocks.
    pub bytes: u64,
    /// Writes of stripes, or of rows.
    pub writes: u64,
}
