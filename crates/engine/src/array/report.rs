//! What an array looks like at one moment, for people and programs.

use std::{ops::Range, sync::atomic::Ordering};

use stripewise_format::extension::{Endurance, MemberClass};
use uuid::Uuid;

use super::{Array, Parts};
use crate::{
    jobs::JobReport,
    members::{measure::ServiceTimes, stats::MemberStatsReport, topology::Topology},
    metadata::ledger::{Entry, Ledger, Standing},
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
}

impl ArrayReport {
    /// How many roles have no member in sync.
    pub fn degraded(&self) -> usize {
        self.in_sync.iter().filter(|in_sync| !**in_sync).count()
    }
}

impl Array {
    /// What the array looks like now; after a stop, what it looked like when it was stopped.
    pub async fn report(&self) -> ArrayReport {
        match self.parts.last.get() {
            Some(last) => last.clone(),
            None => self.parts.report().await,
        }
    }

    /// What writes to these stripes find now. Stripes beyond the array's end are left out.
    pub fn stripes(&self, stripes: Range<u64>) -> Vec<StripeReport> {
        let topology = self.parts.roster.topology();
        let geometry = &topology.geometry;
        let report = |stripe: StripeIndex| {
            let is_missing = |column: &usize| topology.reader(stripe, *column).is_none();
            let missing = (0..geometry.members()).filter(is_missing);
            StripeReport {
                stripe,
                synced: self.parts.stripes.is_trusted(stripe),
                missing: missing.map(|column| geometry.member_of(stripe, column)).collect(),
            }
        };
        (stripes.start..stripes.end.min(geometry.stripes())).map(StripeIndex).map(report).collect()
    }
}

impl Parts {
    pub(super) async fn report(&self) -> ArrayReport {
        self.roster.look(|ledger, topology| self.report_of(ledger, topology)).await
    }

    fn report_of(&self, ledger: &Ledger, topology: &Topology) -> ArrayReport {
        let Self { life, stripes, .. } = self;
        let mut members: Vec<_> = ledger.entries.iter().map(member_report).collect();
        members.sort_by_key(|member| member.dev_number);
        let bitmap = stripes.intent().map(|intent| BitmapReport {
            shape: intent.map.shape(),
            regions: intent.map.regions(),
            marked: intent.marked_regions(),
        });
        ArrayReport {
            name: self.name.to_string(),
            uuid: self.uuid,
            geometry: topology.geometry,
            members,
            in_sync: topology.slots.iter().map(|slot| slot.primary.is_some()).collect(),
            failed: topology.failed,
            dirty: !ledger.clean,
            read_only: life.is_read_only(),
            selection: stripes.policy().name,
            unknown_policy: stripes.unknown_policy(),
            events: ledger.events,
            bitmap,
            excluded: self.excluded.clone(),
            forced: self.forced.clone(),
            job: self.board.current(),
        }
    }
}

fn member_report(entry: &Entry) -> MemberReport {
    let (state, slot) = match entry.standing {
        Standing::Active(slot) => (MemberState::InSync, Some(slot)),
        Standing::Incoming { slot, .. } if entry.is_replacing() => (MemberState::Replacing, Some(slot)),
        Standing::Incoming { slot, .. } => (MemberState::Rebuilding, Some(slot)),
        Standing::Spare => (MemberState::Spare, None),
        Standing::Faulty => (MemberState::Faulty, entry.last_slot),
    };
    MemberReport {
        name: entry.member.name().to_owned(),
        dev_number: entry.member.dev_number,
        uuid: entry.member.uuid,
        slot,
        state,
        class: entry.member.class(),
        class_given: entry.header.as_ref().is_some_and(|header| header.member_class_given),
        times: entry.member.times,
        endurance: Endurance {
            written_bytes: entry.member.written_bytes(),
            ..entry.header.as_ref().map_or(Endurance::default(), |header| header.endurance)
        },
        noted_written_bytes: entry.header.as_ref().map_or(0, |h| h.endurance.written_bytes),
        read_errors: entry.member.read_errors.load(Ordering::Relaxed),
        bad_block_bytes: entry.member.bad_blocks.unreadable().iter().map(|b| b.end - b.start).sum(),
        stats: entry.member.stats.report(),
        cost: entry.member.meter.cost(),
    }
}
