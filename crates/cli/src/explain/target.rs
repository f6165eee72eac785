//! The array that a write is explained for: one that options describe, or a running one.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use anyhow::{Context, bail, ensure};
use stripewise::{
    CacheKind,
    geometry::{Geometry, Level, MemberIndex, StripeIndex},
    internals::plan::{
        Presence,
        costs::{ColumnCosts, MemberCost},
        passes::{ColumnStrides, GapRule, MemberStrides},
        selection::{Policy, policy, policy_for},
    },
};
use stripewise_wire::{ArrayStatus, ClassChoice, MemberStatus, Reply, Request, StripeStatus};

use super::args::{ExplainArgs, Shape};
use crate::{
    client,
    output::way_text,
    policies::check_selects,
    reports::{member_class, member_cost, member_strides},
};

/// The chunk size if none is given.
const CHUNK_BYTES_DEFAULT: u32 = 64 << 10;
/// The sector size of an array that options describe.
const BLOCK_BYTES: u32 = 512;
/// The member size with which a shape is tried: any shape fits.
const SHAPE_BYTES: u64 = 1 << 30;
/// Level 1 keeps only copies. Its described members are just large enough for the write, in whole blocks of
/// this size.
const MIRROR_GRAIN: u64 = 4096;

/// An array, as far as plans depend on it.
pub(super) struct Target {
    pub(super) geometry: Geometry,
    pub(super) policy: &'static Policy,
    /// By role. None without a member, as in an array that options describe.
    devices: Vec<Option<String>>,
    /// By role.
    costs: Vec<MemberCost>,
    /// The name of the running array, if it is one.
    running: Option<String>,
    /// What a running array reported about its stripes.
    stripes: BTreeMap<u64, StripeStatus>,
    /// By role: which gaps a destage fills; none if it fills none.
    strides: Option<Vec<MemberStrides>>,
    /// Columns that options declare missing.
    missing: BTreeSet<usize>,
    pub(super) notes: Vec<String>,
}

/// Levels without parity take no cache.
pub(super) fn check_takes_cache(level: Level) -> anyhow::Result<()> {
    let has_parity = !matches!(level, Level::Raid0 | Level::Raid1);
    ensure!(has_parity, "--cells: level {} has no parity, and takes no cache", level.number());
    Ok(())
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
        if args.cells.is_some() {
            check_takes_cache(level)?;
        }
        let shape = args.geometry.unwrap_or_else(|| usual_shape(level));
        let members = shape.data.saturating_add(shape.redundant);
        let chunk_bytes = args.chunk.unwrap_or(CHUNK_BYTES_DEFAULT);
        // An error in the shape comes before an error in the write.
        Geometry::new(level, members, chunk_bytes, SHAPE_BYTES, BLOCK_BYTES)?;
        let member_bytes =
            member_bytes(args, level, shape, chunk_bytes).context("--write or --stripe is too far out")?;
        let geometry = Geometry::new(level, members, chunk_bytes, member_bytes, BLOCK_BYTES)?;
        let redundant = geometry.parity_columns();
        ensure!(
            geometry.data_columns() == shape.data,
            "--geometry {}+{}: a stripe of level {number} has {redundant} redundant of {members} chunks, so give {}+{redundant}{}",
            shape.data,
            shape.redundant,
            geometry.data_columns(),
            if shape.redundant == 2 { ", or --level 6" } else { "" },
        );
        if args.policy.is_some() {
            check_selects(number)?;
        }
        let classes = args.classes.iter().map(|class| member_class(*class));
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
        let no_chunk = (level == Level::Raid1 && args.chunk.is_some())
            .then(|| "--chunk is ignored: the copies of level 1 know no chunks".to_owned());
        Ok(Self {
            geometry,
            policy,
            devices: vec![None; members],
            costs,
            running: None,
            stripes: BTreeMap::new(),
            strides: args.strides(None).map(|strides| vec![strides; members]),
            missing: args.missing.iter().copied().collect(),
            notes: unknown.then_some(note).into_iter().chain(no_chunk).collect(),
        })
    }

    /// A running array.
    fn running(args: &ExplainArgs, status: &ArrayStatus) -> anyhow::Result<Self> {
        let level = Level::from_number(status.level).context("an array of another version")?;
        if args.policy.is_some() {
            check_selects(status.level).with_context(|| status.name.clone())?;
        }
        let geometry = Geometry::new(
            level,
            status.raid_devices,
            u32::try_from(status.chunk_bytes)?,
            status.member_bytes,
            status.logical_block_bytes,
        )?;
        let in_state = |role: usize, state: &str| {
            status.members.iter().find(|member| member.role == Some(role) && member.state == state)
        };
        // A member that is being filled holds the stripes that its job has passed.
        let holder = |role: usize| in_state(role, "in sync").or_else(|| in_state(role, "rebuilding"));
        let roles = 0..status.raid_devices;
        let device = |member: &MemberStatus| member.device.clone();
        let cost = |member: &MemberStatus| member_cost(member.cost);
        Ok(Self {
            geometry,
            policy: args.policy.map_or_else(|| policy(&status.selection), Ok)?,
            devices: roles.clone().map(|role| holder(role).map(device)).collect(),
            costs: roles.map(|role| holder(role).map_or(MemberCost::SSD, cost)).collect(),
            running: Some(status.name.clone()),
            stripes: BTreeMap::new(),
            strides: roles_of_strides(args, status, &|role| {
                holder(role).map(|member| member_strides(&member.strides, gap_rule(status)))
            }),
            missing: args.missing.iter().copied().collect(),
            notes: status.warnings.iter().cloned().chain(way_note(args, status)).collect(),
        })
    }

    /// Refuses options that alone declare more columns missing than redundancy makes up for.
    pub(super) fn check_missing(&self) -> anyhow::Result<()> {
        self.check_lost(self.missing.len(), "")
    }

    fn check_lost(&self, lost: usize, which: &str) -> anyhow::Result<()> {
        let (level, survived) = (self.geometry.level().number(), self.geometry.tolerance());
        let columns = if lost == 1 { "1 column is".to_owned() } else { format!("{lost} columns are") };
        let survived_text = if survived == 0 { "none".to_owned() } else { survived.to_string() };
        ensure!(
            lost <= survived,
            "{columns} missing{which}, and level {level} survives the loss of {survived_text}"
        );
        Ok(())
    }

    /// Asks the running array, if it is one, about these stripes.
    pub(super) fn look_at(&mut self, stripes: Range<StripeIndex>) -> anyhow::Result<()> {
        let Some(name) = &self.running else { return Ok(()) };
        let request = Request::Stripes { from: stripes.start.0, to: stripes.end.0 };
        let found = match client::ask(name, &request)? {
            Reply::Stripes(found) => found,
            other => bail!("{name}: unexpected answer {other:?}"),
        };
        self.stripes = found.into_iter().map(|status| (status.stripe, status)).collect();
        for stripe in self.stripes.keys().copied().map(StripeIndex) {
            let lost = (0..self.geometry.members()).filter(|column| self.is_missing(stripe, *column)).count();
            self.check_lost(lost, ", with those that the array itself has lost")?;
        }
        let unsynced: Vec<_> = self
            .stripes
            .values()
            .filter(|status| !status.synced)
            .map(|status| status.stripe.to_string())
            .collect();
        if !unsynced.is_empty() && self.geometry.has_parity() {
            self.notes.push(format!(
                "stripe {} is not resynced yet: nothing is computed from old parity there",
                unsynced.join(", ")
            ));
        }
        Ok(())
    }

    /// What the running array's cache holds of a stripe.
    pub(super) fn cells(&self, stripe: StripeIndex) -> anyhow::Result<String> {
        let name =
            self.running.as_deref().context("--stripe: give --cells, or the name of a running array")?;
        let found =
            self.stripes.get(&stripe.0).with_context(|| format!("{name} has no stripe {}", stripe.0))?;
        let cells = found.cells.clone().with_context(|| format!("{name} has no cache; give --cells"))?;
        ensure!(cells.contains(['D', 'P']), "{name}: nothing of stripe {} is to be destaged", stripe.0);
        Ok(cells)
    }

    /// Whether redundancy is known to agree with data.
    pub(super) fn is_synced(&self, stripe: StripeIndex) -> bool {
        self.stripes.get(&stripe.0).is_none_or(|status| status.synced)
    }

    fn is_missing(&self, stripe: StripeIndex, column: usize) -> bool {
        let role = self.role(stripe, column).0;
        let is_lost = self.stripes.get(&stripe.0).is_some_and(|status| status.missing.contains(&role));
        is_lost || self.missing.contains(&column)
    }

    pub(super) fn role(&self, stripe: StripeIndex, column: usize) -> MemberIndex {
        self.geometry.member_of(stripe, column)
    }

    pub(super) fn device(&self, role: MemberIndex) -> Option<String> {
        self.devices[role.0].clone()
    }

    pub(super) fn presence(&self, stripe: StripeIndex, column: usize) -> Presence {
        if self.is_missing(stripe, column) { Presence::Missing } else { Presence::Present }
    }
}

impl Target {
    /// Which gaps a destage of a stripe fills; none if it fills none.
    pub(super) fn strides(&self, stripe: StripeIndex) -> Option<StripeStrides> {
        let of_roles = self.strides.as_ref()?;
        let column = |column| of_roles[self.role(stripe, column).0];
        Some(StripeStrides((0..self.geometry.members()).map(column).collect()))
    }
}

/// Which way a write goes in a running array with a cache, if it is no whole stripe.
fn way_note(args: &ExplainArgs, status: &ArrayStatus) -> Option<String> {
    let way = args.write.and(status.cache.as_ref()?.way.as_ref())?;
    Some(format!("the array has a cache; a part of a stripe now goes {}", way_text(way)))
}

/// The gaps that a running array's destages fill, by role; none if they fill none, and no option says otherwise.
fn roles_of_strides(
    args: &ExplainArgs,
    status: &ArrayStatus,
    known: &dyn Fn(usize) -> Option<MemberStrides>,
) -> Option<Vec<MemberStrides>> {
    let is_of = |kind: &&CacheKind| status.cache.as_ref().is_some_and(|cache| cache.kind == kind.name());
    let fills = CacheKind::ALL.iter().find(is_of).is_some_and(|kind| kind.fills_gaps());
    let known = |role| known(role).or(Some(MemberStrides::NONE)).filter(|_| fills);
    (0..status.raid_devices).map(|role| args.strides(known(role))).collect()
}

/// By which rule a running array's destages fill gaps.
fn gap_rule(status: &ArrayStatus) -> GapRule {
    let is_its = |rule: &GapRule| status.cache.as_ref().is_some_and(|cache| cache.gaps == rule.name());
    GapRule::ALL.into_iter().find(is_its).unwrap_or_default()
}

/// The strides of the members of a stripe, by column.
pub(super) struct StripeStrides(Vec<MemberStrides>);

impl StripeStrides {
    /// No gap of this stride or a longer one is worth filling.
    pub(super) fn end(&self) -> u16 {
        self.0.iter().map(|strides| strides.end()).max().unwrap_or(0)
    }
}

impl ColumnStrides for StripeStrides {
    fn of(&self, column: usize) -> MemberStrides {
        self.0[column]
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

/// A member size that is large enough for the write.
fn member_bytes(args: &ExplainArgs, level: Level, shape: Shape, chunk_bytes: u32) -> Option<u64> {
    let end = args.end_bytes();
    if level == Level::Raid1 {
        return end.checked_next_multiple_of(MIRROR_GRAIN);
    }
    // The geometry reports an invalid shape.
    let stripe_bytes = u64::from(chunk_bytes).checked_mul(shape.data.max(1) as u64)?;
    let stripes = end.checked_div(stripe_bytes)?.max(args.stripe.unwrap_or(0)).checked_add(1)?;
    stripes.checked_mul(u64::from(chunk_bytes))
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
