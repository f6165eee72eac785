//! What an array looks like at one moment, for people and programs.

use stripewise_format::extension::{Endurance, MemberClass};
use uuid::Uuid;

use crate::{
    jobs::JobReport,
    members::{measure::ServiceTimes, stats::MemberStatsReport, strides::StrideRecords},
    opening::candidates::Excluded,
    plan::costs::MemberCost,
    shape::{
        geometry::{Geometry, MemberIndex, StripeIndex},
        regions::RegionShape,
    },
};

/// The state of one attached member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// Part of the array, up to date.
    InSync,
    /// Being filled to take a vacant role.
    Rebuilding,
    /// Being filled to take a living member's role.
    Replacing,
    /// On standby.
    Spare,
    /// Failed; can be removed.
    Faulty,
}

impl MemberState {
    /// The state's name, as `detail` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::InSync => "in sync",
            Self::Rebuilding => "rebuilding",
            Self::Replacing => "replacing",
            Self::Spare => "spare",
            Self::Faulty => "faulty",
        }
    }
}

/// One attached member.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MemberReport {
    /// The device's name.
    pub name: String,
    /// Its number in the superblocks' table of roles.
    pub dev_number: u32,
    /// Its identity.
    pub uuid: Uuid,
    /// Its role; for a faulty member, the role it had.
    pub slot: Option<MemberIndex>,
    /// Its state.
    pub state: MemberState,
    /// What kind of medium it is.
    pub class: MemberClass,
    /// How long its I/O took when it became a member.
    pub times: ServiceTimes,
    /// How much longer it takes for scattered blocks, and which gaps are therefore filled.
    pub strides: StrideRecords,
    /// An operator set the class; it was not detected.
    pub class_given: bool,
    /// How much may be written to it, and how much was.
    pub endurance: Endurance,
    /// How many written bytes are noted on the member. After a crash only this count is known.
    pub noted_written_bytes: u64,
    /// Failed reads counted since the array was opened. Of a chunk that waits to be healed, only the first
    /// counts. Halved every hour.
    pub read_errors: u32,
    /// Bytes that are not read because its bad-block log lists them. Their content was lost or waits to be
    /// written back.
    pub bad_block_bytes: u64,
    /// What was read and written since the member was attached.
    pub stats: MemberStatsReport,
    /// What its I/O costs, as far as known. Learned while a policy uses it.
    pub cost: MemberCost,
}

/// An array at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ArrayReport {
    /// The array's name.
    pub name: String,
    /// Its identity.
    pub uuid: Uuid,
    /// Its shape.
    pub geometry: Geometry,
    /// All attached members, by device number.
    pub members: Vec<MemberReport>,
    /// For each role, whether its member is in sync.
    pub in_sync: Vec<bool>,
    /// More members are lost than the level tolerates.
    pub failed: bool,
    /// The superblocks say that members may disagree.
    pub dirty: bool,
    /// The array takes no writes.
    pub read_only: bool,
    /// The policy that chooses RMW or RCW.
    pub selection: &'static str,
    /// The number of the policy stored on the members, if it is not known here. The default policy is used
    /// instead, and the number stays on the members until another policy is chosen.
    pub unknown_policy: Option<u8>,
    /// Why the cache is not as members keep it.
    pub cache_problem: Option<String>,
    /// The superblocks' event count.
    pub events: u64,
    /// Regions of the write-intent bitmap, and how many are marked. None if the level has no bitmap.
    pub bitmap: Option<BitmapReport>,
    /// Devices that were given when the array was opened but take no part.
    pub excluded: Vec<Excluded>,
    /// Members that were taken by force although they are not current, and why they are not. Data written
    /// after they fell behind is lost where it lay on them.
    pub forced: Vec<Excluded>,
    /// The job under way.
    pub job: Option<JobReport>,
}

/// The write-intent bitmap at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BitmapReport {
    /// What a region covers.
    pub shape: RegionShape,
    /// Regions.
    pub regions: usize,
    /// Regions marked.
    pub marked: usize,
}

/// What a write to a stripe finds now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StripeReport {
    /// The stripe.
    pub stripe: StripeIndex,
    /// Whether redundancy is known to agree with data. Where a resync is due, nothing is computed from
    /// redundancy.
    pub synced: bool,
    /// Roles for which no member holds the stripe.
    pub missing: Vec<MemberIndex>,
    /// What is cached of it, msc-ct's matrix Z: its first rows joined by `/`, with a letter for each data column:
    /// (D)irty, (P)artly dirty, (C)lean, (E)mpty. None without a cache.
    pub cells: Option<String>,
}

impl ArrayReport {
    /// How many roles have no member in sync.
    pub fn degraded(&self) -> usize {
        self.in_sync.iter().filter(|in_sync| !**in_sync).count()
    }
}
