//! Members as programs read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A member at one moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberStatus {
    /// Its path.
    pub device: String,
    /// md's number for it.
    pub number: u32,
    /// None of a spare.
    pub role: Option<usize>,
    /// Of level 4, whose roles do not rotate: whether the role is parity's.
    pub is_parity: Option<bool>,
    /// `in sync`, `rebuilding`, `replacing`, `spare` or `faulty`.
    pub state: String,
    /// `hdd`, `ssd` or `unknown`.
    pub class: String,
    /// An operator said so; it was not detected.
    pub class_given: bool,
    /// Its identity.
    pub uuid: String,
    /// Failed reads since the array was opened; halved every hour.
    pub read_errors: u32,
    /// Bytes that its bad-block log lists.
    pub bad_block_bytes: u64,
    /// What it has not answered for some seconds; none where it answers.
    pub slow: Option<SlowStatus>,
    /// None if they were not measured.
    pub times: Option<TimesStatus>,
    /// Which gaps a contiguity transform fills on it.
    pub strides: StridesStatus,
    /// What its I/O takes, as it was seen since.
    pub cost: CostStatus,
    /// How worn it is.
    pub endurance: EnduranceStatus,
    /// What it counts, by name, since it was attached.
    pub counters: BTreeMap<String, u64>,
}

/// Requests that a member has not answered for some seconds: it hangs, or is very slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowStatus {
    /// How many there are.
    pub requests: u64,
    /// For how long the oldest of them has been under way; up to a second less than it has been.
    pub oldest_s: f64,
}

/// How long I/O took when the device became a member; none where that was not measured.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TimesStatus {
    /// Reading a block anywhere.
    pub random_read_ns: Option<u32>,
    /// Writing a block anywhere.
    pub random_write_ns: Option<u32>,
    /// Writing a block where it was just read.
    pub rewrite_ns: Option<u32>,
    /// Reading one more block of 4 KiB in a run.
    pub sequential_read_ns: Option<u32>,
    /// Writing one more block of 4 KiB in a run.
    pub sequential_write_ns: Option<u32>,
}

/// Which gaps between requests are filled; none where nothing is known.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StridesStatus {
    /// Between reads.
    pub read: Option<StrideStatus>,
    /// Between writes.
    pub write: Option<StrideStatus>,
}

/// Which gaps are filled.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StrideStatus {
    /// The smallest stride, in blocks of 4 KiB, that is not filled.
    pub s_max: u32,
    /// An operator gave it; it was not measured.
    pub s_max_given: bool,
    /// Regions of smaller strides that are not filled either, from the first to the last.
    pub except: Vec<[u8; 2]>,
    /// Strides that were measured, each with the time for every block at that stride over that of all blocks.
    pub curve: Vec<(u32, f32)>,
}

/// What I/O is taken to cost, as nanoseconds of a request and of each 4 KiB.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CostStatus {
    /// Reads.
    pub read_ns: [f32; 2],
    /// Writes.
    pub write_ns: [f32; 2],
    /// Writes where it was just read.
    pub rewrite_ns: [f32; 2],
    /// Requests that wait.
    pub queue: f32,
}

/// How much of its life a member has used. Times are seconds since 1970.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EnduranceStatus {
    /// What it may be written; none if that is not known.
    pub rated_write_bytes: Option<u64>,
    /// What it was written.
    pub written_bytes: u64,
    /// How much of that is noted on the member, so that a crash does not forget it.
    pub noted_written_bytes: u64,
    /// From when on that was counted.
    pub written_since_s: u64,
    /// None if it has none, or that is not known.
    pub warranty_end_s: Option<u64>,
    /// By how many days it shall outlive its warranty.
    pub warranty_margin_days: u32,
    /// When it will be worn out, if that can be told.
    pub forecast: Option<ForecastStatus>,
    /// Why no day is known on which it will be worn out.
    pub no_forecast: Option<NoForecastStatus>,
}

/// Why no day is known on which a member will be worn out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum NoForecastStatus {
    /// What it is rated for is not known.
    Unrated,
    /// Too little was seen of how it is written.
    Early {
        /// From this time on enough will have been, in seconds since 1970.
        from_s: u64,
    },
    /// It is hardly written.
    Idle,
    /// A reason of a later release.
    #[serde(other)]
    Unknown,
}

/// When a member will be worn out, if it is written as before.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ForecastStatus {
    /// How fast it is written.
    pub bytes_per_s: f64,
    /// The part of its rated life that is used up.
    pub used: f64,
    /// When it will be worn out, in seconds since 1970.
    pub worn_out_s: Option<u64>,
    /// Whole days until then.
    pub left_days: Option<u64>,
    /// Days by which that is too early for its warranty and margin.
    pub short_days: Option<u64>,
}
