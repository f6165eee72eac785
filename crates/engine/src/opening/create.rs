//! Making a new array: checks, and the first metadata of every member.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use stripewise_device::{Device, EnvHandle};
use stripewise_format::{
    extension::{ArrayOptions, HeaderCopy, MapKind, MemberClass},
    md::{
        ArrayName, ArrayNameError, CreateError as FormatError, Level as MdLevel, NewArray, Role, Timestamp,
    },
    media::SECTOR_BYTES,
};
use thiserror::Error;
use uuid::Uuid;

use super::{
    assemble::assemble_here,
    options::{AssembleError, AssembleOptions},
};
use crate::{
    array::Array,
    cache::{CacheError, CacheKind, CacheSettings},
    error::ArrayError,
    intent::locking::{PRESETS, Preset},
    jobs::Tuning,
    life::detached::on_worker,
    members::{
        bad_blocks::{self, BadBlocks},
        benches::StrideBenches,
        measure::{Measured, Touch, What, measure_or_not},
        member::Member,
        strides::StrideRecords,
    },
    metadata::{
        enroll::{self, Traits},
        ledger::{Common, Entry, Ledger, Standing},
    },
    mutants::{Mutant, lives},
    plan::selection::{OWN_NUMBERS, Policy, policy_for},
    shape::{
        geometry::{CHUNK_BYTES_DEFAULT, Geometry, GeometryError, Level, MemberIndex},
        regions::RegionShape,
    },
};

/// What array to make.
#[derive(Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// The name, by custom `host:name`; at most 32 bytes.
    pub name: String,
    /// The level.
    pub level: Level,
    /// Bytes of a chunk; ignored by level 1.
    pub chunk_bytes: u32,
    /// By role; `None` for a member that is `missing`.
    pub members: Vec<Option<Arc<dyn Device>>>,
    /// Devices that wait as spares.
    pub spares: Vec<Arc<dyn Device>>,
    /// The members agree already (all zeroes, or an array made anew over its old self): no resync.
    pub assume_clean: bool,
    /// How much of each member to use, if not all that the smallest offers.
    pub member_bytes: Option<u64>,
    /// The identity, if it must be a given one.
    pub uuid: Option<Uuid>,
    /// Bytes of each member that one bit of the bitmap stands for, if not the default.
    pub region_bytes: Option<u64>,
    /// Which stripes a region of the bitmap stands for, if not as the preset has it.
    pub map: Option<MapKind>,
    /// Which requests wait for which when the array is written.
    pub preset: &'static Preset,
    /// How partly written rows are written. If no policy is given, one is chosen that suits the members. Later
    /// openings must know a policy of the program's own ([`AssembleOptions::policies`]).
    pub policy: Option<&'static Policy>,
    /// The kind of device that a member is, by its name ([`DeviceInfo::name`](stripewise_device::DeviceInfo)), if
    /// it is not to be detected.
    pub classes: BTreeMap<String, MemberClass>,
    /// Measure how long the members' I/O takes, about a second on hard disks, and what [`strides`](Self::strides) says.
    pub measure: bool,
    /// The gaps that a contiguity transform fills on members.
    pub strides: StrideChoice,
    /// Tells those who wait that strides are being measured.
    pub benches: StrideBenches,
    /// Where level 4 keeps its parity.
    pub parity: ParityPlace,
    /// The steps of background work while the array is open.
    pub tuning: Tuning,
    /// The cache. If none is chosen, it is [`CacheKind::Auto`] where a member was measured to rotate, and otherwise none.
    pub cache: Option<CacheSettings>,
    /// The machine's memory, of which a cache takes a part.
    pub memory_bytes: u64,
}

/// Where a new array's strides come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StrideChoice {
    /// They are measured on members that are not flash, at levels that can have a cache, if times are measured at all;
    /// about 15 s. With `assume_clean`, only those of reads.
    #[default]
    Measured,
    /// Members that are not flash have these.
    Given(Box<StrideRecords>),
    /// Nothing is known of them, and nothing is filled.
    Unknown,
}

/// Where level 4 keeps its parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParityPlace {
    /// As [`ParityPlace::Fastest`]; with `assume_clean` as [`ParityPlace::Last`], since what is on the
    /// members decides which of them holds parity.
    #[default]
    Auto,
    /// On the fastest member, if one is faster than the others: RAID4S. That member gets the last role.
    Fastest,
    /// On the last member, as given.
    Last,
}

/// How many times faster than the last member another must be to take its place.
const FASTER: u32 = 2;

impl CreateOptions {
    /// An array of members that are named later, with everything else by default.
    pub fn named(name: impl Into<String>, level: Level) -> Self {
        Self::new(name, level, Vec::new())
    }

    /// An array of these members with everything else by default.
    pub fn new(name: impl Into<String>, level: Level, members: Vec<Arc<dyn Device>>) -> Self {
        Self {
            name: name.into(),
            level,
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            members: members.into_iter().map(Some).collect(),
            spares: Vec::new(),
            assume_clean: false,
            member_bytes: None,
            uuid: None,
            region_bytes: None,
            map: None,
            preset: &PRESETS[0],
            policy: None,
            classes: BTreeMap::new(),
            measure: false,
            strides: StrideChoice::default(),
            benches: StrideBenches::default(),
            parity: ParityPlace::default(),
            tuning: Tuning::PRODUCTION,
            cache: None,
            memory_bytes: u64::MAX,
        }
    }
}

/// Why an array cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The shape is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The name does not fit.
    #[error(transparent)]
    Name(#[from] ArrayNameError),
    /// More members are missing than the level tolerates.
    #[error("{missing} members are missing and level {level} tolerates {tolerated}; give more members")]
    TooManyMissing {
        /// As given.
        missing: usize,
        /// What the level tolerates.
        tolerated: usize,
        /// The level's number.
        level: i32,
    },
    /// Spares for a level at which nothing can be rebuilt.
    #[error("level 0 has no redundancy to rebuild a member from, so that a spare is of no use; leave it out")]
    SparesWithoutRedundancy,
    /// No member at all.
    #[error("every member is missing; give at least one device")]
    NoMember,
    /// The bitmap's regions are impossible.
    #[error(
        "a region of the bitmap of {region_bytes} bytes: give a power of two from the chunk ({chunk_bytes} bytes) to 1G, large \
         enough that the metadata has room for a bit of each"
    )]
    Region {
        /// As asked.
        region_bytes: u64,
        /// The chunk.
        chunk_bytes: usize,
    },
    /// There can be no such cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Nothing is selected at this level.
    #[error(
        "policy {policy}: level {level} keeps no parity, so that nothing is selected when it is written; leave it out, or \
         take level 4, 5 or 6"
    )]
    NothingSelected {
        /// As asked.
        policy: &'static str,
        /// The level's number.
        level: i32,
    },
    /// A policy that later openings could not tell from another.
    #[error(
        "policy {policy} has the number {number}, which is for policies that come with the engine; give it one from {} to {}",
        OWN_NUMBERS.start(), OWN_NUMBERS.end()
    )]
    PolicyNumber {
        /// The policy.
        policy: &'static str,
        /// Its number.
        number: u8,
    },
    /// A class for a device that is not given.
    #[error("a class is given for {name}, which is no member; the members are {members}")]
    ClassOfNoMember {
        /// As given.
        name: String,
        /// The members' names.
        members: String,
    },
    /// One device for two roles.
    #[error("{0} is given twice; every role needs a device of its own")]
    Twice(String),
    /// A member is too small.
    #[error(
        "{member}: {have_bytes} bytes for data, and {need_bytes} are asked for; give a larger one, or ask for less"
    )]
    TooSmall {
        /// The member.
        member: String,
        /// What it offers.
        have_bytes: u64,
        /// What is needed.
        need_bytes: u64,
    },
    /// The superblock cannot say it.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A member could not be written.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The new array could not be opened.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

impl Array {
    /// Makes a new array and opens it. Any thread may call this. Everything that the members held is lost.
    ///
    /// # Errors
    /// [`CreateError`]; members may have been written to by then.
    pub async fn create(env: EnvHandle, options: CreateOptions) -> Result<Self, CreateError> {
        let at = env.clone();
        Box::pin(on_worker(&at, Self::create_here(env, options))).await
    }

    async fn create_here(env: EnvHandle, mut options: CreateOptions) -> Result<Self, CreateError> {
        let touch = if options.assume_clean { Touch::ReadOnly } else { Touch::WriteBack };
        let traits = prepare(&env, &mut options, (touch, true)).await?;
        let devices: Vec<_> = options.members.iter().flatten().chain(&options.spares).cloned().collect();
        write_metadata(&env, &options, &traits).await?;
        let (tuning, memory_bytes) = (options.tuning, options.memory_bytes);
        let open = AssembleOptions::default().run(true).force(true).tuning(tuning).memory_bytes(memory_bytes);
        Ok(Box::pin(assemble_here(env, devices, &open, options.policy)).await?)
    }
}

/// Checks the options, finds out what the members are, their strides if wanted, and gives level 4's parity its place.
pub(crate) async fn prepare(
    env: &EnvHandle,
    options: &mut CreateOptions,
    (touch, strides): (Touch, bool),
) -> Result<AllTraits, CreateError> {
    check_members(options)?;
    check_shape(options)?;
    let traits = traits_of(env, options, (touch, strides)).await;
    if moves_parity(options) {
        place_parity(&mut options.members, &traits);
    }
    Ok(traits)
}

/// Whether parity goes to the fastest member.
pub(crate) fn moves_parity(options: &CreateOptions) -> bool {
    let moves = match options.parity {
        ParityPlace::Auto => !options.assume_clean,
        ParityPlace::Fastest => true,
        ParityPlace::Last => false,
    };
    options.level == Level::Raid4 && moves
}

/// The members' traits, by name.
pub(crate) type AllTraits = BTreeMap<String, Traits>;

async fn traits_of(env: &EnvHandle, options: &CreateOptions, (touch, strides): (Touch, bool)) -> AllTraits {
    let devices: Vec<_> = options.members.iter().flatten().chain(&options.spares).collect();
    let class_of = |device: &Arc<dyn Device>| options.classes.get(&device.info().name).copied();
    let strides = strides && options.level.has_parity() && options.strides == StrideChoice::Measured;
    let measured = if options.measure {
        let what =
            |device| What { touch, strides, class: class_of(device), benches: options.benches.clone() };
        join_all(devices.iter().map(|device| measure_or_not(&**env, &***device, what(device)))).await
    } else {
        vec![Measured::default(); devices.len()]
    };
    let traits = devices.into_iter().zip(measured).map(async |(device, measured)| {
        let name = device.info().name.clone();
        let mut traits = Traits::of(device, measured, class_of(device));
        if let StrideChoice::Given(given) = &options.strides
            && traits.class != MemberClass::Ssd
        {
            traits.strides = **given;
        }
        (name, traits.with_kept_endurance(device).await)
    });
    join_all(traits).await.into_iter().collect()
}

/// The cache that was chosen, or that these members should have. It has the usual size, and there is none where that
/// cannot be.
fn cache_of(options: &CreateOptions, geometry: &Geometry, traits: &AllTraits) -> CacheSettings {
    let by_members = || {
        let kind = CacheKind::for_members(geometry.level(), traits.values().any(Traits::is_known_to_rotate));
        CacheSettings { kind, ..CacheSettings::default() }
    };
    let is_possible = |cache: &CacheSettings| cache.check(geometry, options.memory_bytes).is_ok();
    options.cache.unwrap_or_else(|| Some(by_members()).filter(is_possible).unwrap_or_default())
}

/// Gives the last role, level 4's parity, to a member that is faster than the one that has it.
fn place_parity(members: &mut Vec<Option<Arc<dyn Device>>>, traits: &AllTraits) {
    // Flash first. Then the member that takes the least time for its part of a small write: a read and a
    // write.
    let rank = |traits: &Traits| {
        let ns = traits.times.random_read_ns.saturating_add(traits.times.rewrite_ns);
        (traits.class != MemberClass::Ssd, ns)
    };
    let of = |device: &Arc<dyn Device>| rank(&traits[&device.info().name]);
    let Some(Some(last)) = members.last() else { return };
    let (last_rotates, last_ns) = of(last);
    let ranked = members.iter().enumerate().filter_map(|(index, member)| Some((of(member.as_ref()?), index)));
    let Some(((rotates, ns), index)) = ranked.min() else { return };
    if (last_rotates && !rotates) || (last_rotates == rotates && ns.saturating_mul(FASTER) < last_ns) {
        let fastest = members.remove(index);
        members.push(fastest);
    }
}

/// Checks the options and writes the metadata of all members.
async fn write_metadata(
    env: &EnvHandle,
    options: &CreateOptions,
    traits: &AllTraits,
) -> Result<(), CreateError> {
    let geometry = geometry_of(options)?;
    // Without redundancy to spare there is nothing to compute: what the members hold is right.
    let is_settled = geometry.spare(is_missing(options)) == 0;
    let in_sync = options.assume_clean || is_settled || missing(options) > 0 && lives(Mutant::MissingInSync);
    let mut ledger = new_ledger(env, options, &geometry, in_sync, traits)?;
    for entry in &mut ledger.entries {
        let zeroing = enroll::blank(entry).await?;
        entry.header.iter_mut().for_each(|header| header.zeroing = zeroing);
    }
    // Since no page is valid and the superblock is dirty, opening takes every region for stale. That causes
    // the first resync.
    let failed = ledger.write_all(env.wall_clock_us()).await;
    match failed.into_iter().next() {
        None => Ok(()),
        Some((member, error)) => Err(ArrayError::Io { member: member.name().to_owned(), error }.into()),
    }
}

/// Whether a member's role stays vacant.
fn is_missing(options: &CreateOptions) -> impl Fn(MemberIndex) -> bool {
    |member| options.members[member.0].is_none()
}

fn missing(options: &CreateOptions) -> usize {
    options.members.iter().filter(|member| member.is_none()).count()
}

/// Refuses what can be refused before anything is touched.
fn check_shape(options: &CreateOptions) -> Result<(), CreateError> {
    let geometry = geometry_of(options)?;
    if let Some(policy) = options.policy.filter(|_| !geometry.has_parity()) {
        let level = geometry.level().number();
        return Err(CreateError::NothingSelected { policy: policy.name, level });
    }
    if let Some(Policy { name: policy, number, .. }) = options.policy.filter(|policy| !policy.can_be_kept()) {
        return Err(CreateError::PolicyNumber { policy, number: *number });
    }
    if let Some(cache) = &options.cache {
        cache.check_chosen(&geometry, options.memory_bytes)?;
    }
    regions(options, &geometry)?;
    if geometry.level() == Level::Raid0 && !options.spares.is_empty() {
        return Err(CreateError::SparesWithoutRedundancy);
    }
    if !geometry.survives(is_missing(options)) {
        let (missing, tolerated) = (missing(options), geometry.tolerance());
        return Err(CreateError::TooManyMissing { missing, tolerated, level: geometry.level().number() });
    }
    Ok(())
}

fn check_members(options: &CreateOptions) -> Result<(), CreateError> {
    if options.members.iter().all(Option::is_none) && !options.members.is_empty() {
        return Err(CreateError::NoMember);
    }
    let devices: Vec<_> = options.members.iter().flatten().chain(&options.spares).collect();
    for (index, device) in devices.iter().enumerate() {
        let twice = devices[..index]
            .iter()
            .any(|other| Arc::ptr_eq(other, device) || other.info().name == device.info().name);
        if twice {
            return Err(CreateError::Twice(device.info().name.clone()));
        }
    }
    let names: Vec<&str> = devices.iter().map(|device| &*device.info().name).collect();
    match options.classes.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(CreateError::ClassOfNoMember { name: name.clone(), members: names.join(", ") }),
        None => Ok(()),
    }
}

fn chunk_sectors(options: &CreateOptions) -> u32 {
    if options.level == Level::Raid1 { 0 } else { options.chunk_bytes / SECTOR_BYTES as u32 }
}

fn geometry_of(options: &CreateOptions) -> Result<Geometry, CreateError> {
    let devices: Vec<_> = options.members.iter().flatten().chain(&options.spares).collect();
    let room = |device: &Arc<dyn Device>| {
        let new = enroll::new_member(device, chunk_sectors(options), 0, Uuid::nil());
        new.member_sectors.saturating_sub(new.data_offset_sectors) * SECTOR_BYTES
    };
    let smallest = devices.iter().map(|device| room(device)).min().unwrap_or(0);
    let wanted = options.member_bytes.unwrap_or(smallest);
    if let Some(device) = devices.iter().find(|device| room(device) < wanted) {
        let (member, have_bytes) = (device.info().name.clone(), room(device));
        return Err(CreateError::TooSmall { member, have_bytes, need_bytes: wanted });
    }
    let block = devices.iter().map(|device| device.info().logical_block_bytes).max().unwrap_or(512);
    Ok(Geometry::new(options.level, options.members.len(), options.chunk_bytes, wanted, block)?)
}

/// The number of regions that always fits: 90 pages in two slots each are 720 KiB, between the headers of the
/// smallest area.
const REGIONS_MAX: u64 = 90 * stripewise_format::bitmap::REGIONS_PER_PAGE as u64;

/// The largest region: a resync after a crash reads at least one.
const REGION_BYTES_MAX: u64 = 1 << 30;

fn regions(options: &CreateOptions, geometry: &Geometry) -> Result<RegionShape, CreateError> {
    let kind = options.map.unwrap_or(options.preset.map);
    let Some(region_bytes) = options.region_bytes else {
        return Ok(RegionShape { bytes: enroll::region_bytes_for(geometry), kind });
    };
    let chunk_bytes = geometry.chunk_bytes();
    let possible =
        region_bytes.is_power_of_two() && (chunk_bytes as u64..=REGION_BYTES_MAX).contains(&region_bytes);
    // The smallest data offset leaves room for this many regions at least.
    let few_enough = possible && geometry.member_bytes() / region_bytes <= REGIONS_MAX;
    if few_enough {
        Ok(RegionShape { bytes: region_bytes, kind })
    } else {
        Err(CreateError::Region { region_bytes, chunk_bytes })
    }
}

fn new_ledger(
    env: &EnvHandle,
    options: &CreateOptions,
    geometry: &Geometry,
    in_sync: bool,
    traits: &AllTraits,
) -> Result<Ledger, CreateError> {
    let level = MdLevel::from_number(geometry.level().number());
    let role = |(index, member): (usize, &Option<Arc<dyn Device>>)| match member {
        Some(_) => Role::Active(index as u16),
        None => Role::Faulty,
    };
    let roles: Vec<Role> = options.members.iter().enumerate().map(role).collect();
    let uses_all = geometry.level() == Level::Raid0;
    let new = NewArray {
        array_uuid: options.uuid.unwrap_or_else(|| enroll::new_uuid(&**env)),
        name: ArrayName::new(&options.name)?,
        created: Timestamp::new(env.wall_clock_us() / 1_000_000, 0),
        level,
        layout: NewArray::default_layout(level),
        chunk_sectors: chunk_sectors(options),
        member_size_sectors: if uses_all { 0 } else { geometry.member_bytes() / SECTOR_BYTES },
        in_sync,
        roles,
        raid_disks: options.members.len() as u32,
    };
    let actives = options.members.iter().enumerate().filter_map(|(index, member)| {
        Some((member.as_ref()?, index as u32, Standing::Active(MemberIndex(index))))
    });
    let first_spare = options.members.len() as u32;
    let spares =
        (first_spare..).zip(&options.spares).map(|(number, device)| (device, number, Standing::Spare));
    let regions = regions(options, geometry)?;
    let mut entries = Vec::new();
    for (device, dev_number, standing) in actives.chain(spares) {
        let member = enroll::new_member(device, new.chunk_sectors, dev_number, enroll::new_uuid(&**env));
        let mut superblock = new.superblock(&member)?;
        if uses_all {
            // md stripes over all the room that level 0 members have. We cut the larger members, so that all
            // have equal room.
            superblock.data_size_sectors = geometry.member_bytes() / SECTOR_BYTES;
        }
        let header = enroll::header_for(&superblock, geometry, regions, &traits[&device.info().name]);
        let offset = member.data_offset_sectors * SECTOR_BYTES;
        let bad_block_log = bad_blocks::empty_log(&superblock, device);
        let bad_blocks = BadBlocks::of_log(bad_block_log.as_ref());
        let uuid = member.device_uuid;
        let member = Member::new(device.clone(), offset, dev_number, uuid, header.as_ref(), bad_blocks);
        entries.push(Entry {
            member,
            standing,
            superblock,
            header,
            first_copy: HeaderCopy::A,
            md_bitmap: None,
            has_md_bitmap: false,
            bad_block_log,
            last_slot: None,
        });
    }
    let common = Common { options: ArrayOptions::default(), regions };
    let mut ledger = Ledger { entries, events: 0, clean: in_sync, common };
    let classes = options.members.iter().flatten().map(|device| traits[&device.info().name].class);
    ledger.set_preset(options.preset);
    ledger.set_cache(&cache_of(options, geometry, traits));
    ledger.set_policy(options.policy.unwrap_or_else(|| policy_for(classes)));
    Ok(ledger)
}
