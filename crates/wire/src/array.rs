//! An array as programs read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CacheStatus, JobStatus, MemberStatus, MountedStatus};

/// An array at one moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayStatus {
    /// The name by which it runs.
    pub name: String,
    /// The name in the superblocks.
    pub full_name: String,
    /// Its identity.
    pub uuid: String,
    /// Its level: 0, 1, 4, 5 or 6.
    pub level: i32,
    /// Its state in mdadm's words: `clean` or `active`, with `degraded` and what is under way behind it, or
    /// `failed`. Of an array that does not answer, `status --json` says `unknown`, and `dead` if its daemon was killed; the
    /// warnings tell why.
    pub state: String,
    /// What it holds.
    pub size_bytes: u64,
    /// What it uses of each member.
    pub member_bytes: u64,
    /// Its chunk.
    pub chunk_bytes: u64,
    /// The least that can be read or written.
    pub logical_block_bytes: u32,
    /// Roles of the complete array.
    pub raid_devices: usize,
    /// Roles in a stripe that hold redundancy.
    pub parity_devices: usize,
    /// By role: whether a member in sync has it.
    pub in_sync: Vec<bool>,
    /// Whether more members are lost than its level tolerates.
    pub failed: bool,
    /// Whether its superblocks say that it is being written.
    pub dirty: bool,
    /// Whether nothing is written.
    pub read_only: bool,
    /// Its write selection policy.
    pub selection: String,
    /// md's count of changes.
    pub events: u64,
    /// Its members, spares and faulty ones among them.
    pub members: Vec<MemberStatus>,
    /// None where it keeps none.
    pub bitmap: Option<BitmapStatus>,
    /// None where its level can have none.
    pub cache: Option<CacheStatus>,
    /// The background job under way.
    pub job: Option<JobStatus>,
    /// The one that ended last.
    pub last_job: Option<JobStatus>,
    /// The check or repair that ended last.
    pub last_scrub: Option<JobStatus>,
    /// What jobs may take of each member while clients are busy.
    pub speed_min_bytes_per_s: u64,
    /// What they may take at most; none for no limit.
    pub speed_max_bytes_per_s: Option<u64>,
    /// Devices that were given and take no part, with the reason.
    pub left_out: Vec<String>,
    /// Members that `assemble --force` took although they are not current, with the reason.
    pub forced: Vec<String>,
    /// The path of its block device.
    pub attached: Option<String>,
    /// The URIs of its NBD servers.
    pub exports: Vec<String>,
    /// Its file system, if its daemon has mounted that.
    pub mounted: Option<MountedStatus>,
    /// What it counts, by name, since it was opened.
    pub counters: BTreeMap<String, u64>,
    /// Bytes that background jobs wrote to members' data areas.
    pub job_written_bytes: u64,
    /// Bytes of superblocks, extension headers and bitmap pages that members were written.
    pub metadata_written_bytes: u64,
    /// Bytes written to members' data areas for each byte that clients wrote, without those that background
    /// jobs wrote; none before clients have written.
    pub write_amplification: Option<f64>,
    /// What is worth saying about its shape.
    pub advice: Vec<String>,
    /// What is not as it was meant.
    pub warnings: Vec<String>,
    /// Its daemon's process.
    pub pid: u32,
}

/// A write-intent bitmap.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BitmapStatus {
    /// What one bit stands for, of each member.
    pub region_bytes: u64,
    /// "linear" or "distributed".
    pub map: String,
    /// How many regions there are.
    pub regions: usize,
    /// How many may be half written.
    pub marked: usize,
}

impl ArrayStatus {
    /// Whether it tells which roles have a member in sync. An array that did not answer yet, or a daemon of
    /// another release, may not have told it.
    pub fn is_known(&self) -> bool {
        self.raid_devices > 0 && self.in_sync.len() == self.raid_devices
    }
}
