//! What a write is explained for: a shape from options, or a running array.

use anyhow::{Context, ensure};
use stripewise::{
    format::extension::MemberClass,
    geometry::{Geometry, Level, MemberIndex, StripeIndex},
    plan::{
        Presence,
        costs::{ColumnCosts, MemberCost},
        selection::{Policy, policy, policy_for},
    },
};

use super::{ExplainArgs, Shape};
use crate::{
    client,
    protocol::{ArrayStatus, ClassChoice, MemberStatus},
};

/// The chunk where none is given.
const CHUNK_BYTES_DEFAULT: u32 = 64 << 10;
/// Sectors of the array that options describe.
const BLOCK_BYTES: u32 = 512;
/// Level 1 keeps copies alone; this much of it is described for a write, in whole blocks.
const MIRROR_GRAIN: u64 = 4096;

/// An array, as far as plans depend on it.
pub(super) struct Target {
    pub(super) geometry: Geometry,
    pub(super) policy: &'static Policy,
    /// By role; of options, none.
    devices: Vec<Option<String>>,
    /// By role.
    costs: Vec<MemberCost>,
    /// Roles without a member in sync.
    vacant: Vec<bool>,
    /// Columns that are said to be missing.
    missing: Vec<usize>,
    pub(super) notes: Vec<String>,
}

impl Target {
    pub(super) fn of(args: &ExplainArgs) -> anyhow::Result<Self> {
        match &args.name {
            Some(name) => Self::running(args, &client::status(name)?),
            None => Self::described(args),
        }
    }

    /// An array that options describe.
    fn described(args: &ExplainArgs) -> anyhow::Result<Self> {
        let number = args.level.unwrap_or(5);
        let level = Level::from_number(number).with_context(|| format!("level {number} is not known"))?;
        let shape = args.geometry.unwrap_or_else(|| usual_shape(level));
        let members = shape.data + shape.redundant;
        let chunk_bytes = args.chunk.unwrap_or(CHUNK_BYTES_DEFAULT);
        let member_bytes = member_bytes(args, level, shape, chunk_bytes).context("--write is too far out")?;
        let geometry = Geometry::new(level, members, chunk_bytes, member_bytes, BLOCK_BYTES)?;
        let redundant = geometry.parity_columns();
        ensure!(
            geometry.data_columns() == shape.data,
            "--geometry {}+{}: a stripe of level {number} has {redundant} redundant of {members} chunks, so give {}+{redundant}",
            shape.data,
            shape.redundant,
            geometry.data_columns(),
        );
        let classes = args.classes.iter().map(|class| MemberClass::from(*class));
        let policy = args.policy.unwrap_or_else(|| policy_for(classes));
        ensure!(
            args.classes.is_empty() || (policy.make)().needs_costs(),
            "--classes: {} does not look at what disks are; `--policy cost` does",
            policy.name
        );
        ensure!(
            args.classes.is_empty() || args.classes.len() == members,
            "--classes: give one for each of the {members} disks"
        );
        let cost = |class: &ClassChoice| match class {
            ClassChoice::Hdd => MemberCost::HDD,
            ClassChoice::Ssd => MemberCost::SSD,
        };
        let costs = match args.classes.as_slice() {
            [] => vec![MemberCost::SSD; members],
            classes => classes.iter().map(cost).collect(),
        };
        let unknown = args.classes.is_empty() && (policy.make)().needs_costs();
        let note = "no --classes are given: all disks are taken for flash".to_owned();
        Ok(Self {
            geometry,
            policy,
            devices: vec![None; members],
            costs,
            vacant: vec![false; members],
            missing: args.missing.clone(),
            notes: unknown.then_some(note).into_iter().collect(),
        })
    }

    /// A running array.
    fn running(args: &ExplainArgs, status: &ArrayStatus) -> anyhow::Result<Self> {
        let level = Level::from_number(status.level).context("an array of another version")?;
        let geometry = Geometry::new(
            level,
            status.raid_devices,
            u32::try_from(status.chunk_bytes)?,
            status.member_bytes,
            status.logical_block_bytes,
        )?;
        let holder = |role: usize| {
            status.members.iter().find(|member| member.role == Some(role) && member.state == "in sync")
        };
        let roles = 0..status.raid_devices;
        let device = |member: &MemberStatus| member.device.clone();
        let cost = |member: &MemberStatus| member.cost.into();
        let resync = status.job.as_ref().is_some_and(|job| job.kind == "resync");
        let note =
            "it is being resynced: stripes that are not yet are written by reconstruct-write".to_owned();
        Ok(Self {
            geometry,
            policy: args.policy.map_or_else(|| policy(&status.selection), Ok)?,
            devices: roles.clone().map(|role| holder(role).map(device)).collect(),
            costs: roles.map(|role| holder(role).map_or(MemberCost::SSD, cost)).collect(),
            vacant: status.in_sync.iter().map(|in_sync| !in_sync).collect(),
            missing: args.missing.clone(),
            notes: resync.then_some(note).into_iter().collect(),
        })
    }

    pub(super) fn role(&self, stripe: StripeIndex, column: usize) -> MemberIndex {
        self.geometry.member_of(stripe, column)
    }

    pub(super) fn device(&self, role: MemberIndex) -> Option<String> {
        self.devices[role.0].clone()
    }

    pub(super) fn presence(&self, stripe: StripeIndex, column: usize) -> Presence {
        let is_missing = self.missing.contains(&column) || self.vacant[self.role(stripe, column).0];
        if is_missing { Presence::Missing } else { Presence::Present }
    }
}

/// Four chunks of data, or two copies.
fn usual_shape(level: Level) -> Shape {
    let redundant = match level {
        Level::Raid0 => 0,
        Level::Raid1 | Level::Raid4 | Level::Raid5 => 1,
        Level::Raid6 => 2,
    };
    Shape { data: if level == Level::Raid1 { 1 } else { 4 }, redundant }
}

/// Members that are large enough for the write.
fn member_bytes(args: &ExplainArgs, level: Level, shape: Shape, chunk_bytes: u32) -> Option<u64> {
    let end = args.write.offset_bytes + args.write.len_bytes;
    if level == Level::Raid1 {
        return end.checked_next_multiple_of(MIRROR_GRAIN);
    }
    // A shape that is none is told by the geometry.
    let stripe_bytes = u64::from(chunk_bytes).checked_mul(shape.data.max(1) as u64)?;
    end.checked_div(stripe_bytes)?.checked_add(1)?.checked_mul(u64::from(chunk_bytes))
}

/// What the members of one stripe cost.
pub(super) struct StripeCosts<'a> {
    pub(super) target: &'a Target,
    pub(super) stripe: StripeIndex,
}

impl ColumnCosts for StripeCosts<'_> {
    fn of(&self, column: usize) -> MemberCost {
        self.target.costs[self.target.role(self.stripe, column).0]
    }
}
