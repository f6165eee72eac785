//! What a file system of a story lies on.

use std::{fmt, ops::Range, str::FromStr, sync::Arc};

use stripewise_device::Device;
use stripewise_engine::{
    Array, AssembleOptions, CacheSettings, CreateOptions, MemberState, assemble, geometry::Level,
};
use stripewise_rafs::{
    fs::Fs,
    shape::Order,
    store::MakeOptions,
    volume::{ArrayVolume, DeviceVolume, Volume},
};
use uuid::Uuid;

use super::{Checker, Found, finish};
use crate::{MemberImage, SimMember, World};

/// Data columns, and blocks of a chunk.
const COLUMNS: u32 = 3;
const ROWS: u32 = 4;
/// Stripes. Clients fill the smallest volumes.
const STRIPES: Range<u64> = 24..220;
/// Small volumes have up to so many stripes more than the smallest.
const FEW: u64 = 30;
const BLOCK: u64 = 4096;
/// Blocks of a member that lies which are not what was written, at most.
const LIES_MAX: u64 = 60;
/// Where data begin on a member.
const DATA_OFFSET_BYTES: u64 = 1 << 20;

/// What a file system lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// One device, or a file.
    File,
    /// An array of this level.
    Level(Level),
}

impl Ground {
    /// Those that stories take in turns.
    pub const ALL: [Self; 4] =
        [Self::File, Self::Level(Level::Raid4), Self::Level(Level::Raid5), Self::Level(Level::Raid6)];
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Level(level) => write!(f, "{}", level.number()),
        }
    }
}

impl FromStr for Ground {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|ground| ground.to_string() == text);
        found.ok_or("give file, 4, 5 or 6")
    }
}

/// How a file system is made.
pub(crate) struct Making {
    /// Stripes of the volume.
    pub(crate) stripes: u64,
    /// What mkfs is told.
    pub(crate) options: MakeOptions,
    /// Devices beside the members of an array.
    pub(crate) spares: usize,
}

impl Making {
    /// Any, of a size that suits stories.
    pub(super) fn drawn(world: &World) -> Self {
        let most = if world.random(3) == 0 { STRIPES.start + FEW } else { STRIPES.end };
        let stripes = STRIPES.start + world.random(most - STRIPES.start);
        let options = MakeOptions {
            uuid: Uuid::from_u128(world.random(u64::MAX).into()),
            label: "story".to_owned(),
            created_us: 1,
            order: if world.random(4) == 0 { Order::Columns } else { Order::Rows },
            journal_stripes: Some(4 + world.random(8)),
            hash_seed: world.random(u64::MAX),
        };
        Self { stripes, options, spares: 1 }
    }
}

/// A volume that was opened, and the array below it, if there is one.
pub(super) struct Opened {
    pub(super) volume: Arc<dyn Volume>,
    pub(super) array: Option<Array>,
}

/// How an array is assembled.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Opening {
    /// The last power failure has taken this device along.
    pub(super) lost: Option<usize>,
    /// Another member may be missing, or not be filled yet.
    pub(super) may_be_short: bool,
    /// Its cache from now on, if not the one that it had.
    pub(super) cache: Option<CacheSettings>,
}

/// It, through power failures.
pub(crate) struct Volumes {
    ground: Ground,
    members: Vec<Arc<SimMember>>,
}

impl Volumes {
    /// Makes members, an array of them, and a file system on it.
    pub(crate) fn make(world: &mut World, ground: Ground, making: Making) -> Result<Self, Found> {
        let Making { stripes, options: made, spares } = making;
        let members: Vec<_> = match ground {
            Ground::File => vec![world.add_member("file", u64::from(COLUMNS * ROWS) * BLOCK * stripes)],
            Ground::Level(level) => {
                let count = COLUMNS as usize + if level == Level::Raid6 { 2 } else { 1 };
                let size_bytes = DATA_OFFSET_BYTES + u64::from(ROWS) * BLOCK * stripes;
                (0..count).map(|number| world.add_member(format!("m{number}"), size_bytes)).collect()
            }
        };
        let mut volumes = Self { ground, members };
        let (env, devices) = (world.env(), volumes.devices());
        if volumes.is_array() {
            let size_bytes = volumes.members[0].info().size_bytes;
            let spares = (0..spares).map(|number| world.add_member(format!("spare{number}"), size_bytes));
            volumes.members.extend(spares);
        }
        let task = async move {
            let volume: Arc<dyn Volume> = match ground {
                Ground::File => on_file(devices)?,
                Ground::Level(level) => {
                    let mut options = CreateOptions::new("sim:rafs", level, devices);
                    options.chunk_bytes = ROWS * BLOCK as u32;
                    options.assume_clean = true;
                    let array = Array::create(env, options).await.map_err(|error| error.to_string())?;
                    Arc::new(ArrayVolume::new(array).map_err(|error| error.to_string())?)
                }
            };
            Fs::make(&volume, &made, (0, 0)).await.map_err(|error| error.to_string())
        };
        finish(world, "mkfs", task)?.map_err(|what| (Checker::Mount, what))?;
        world.crash();
        Ok(volumes)
    }

    /// What an earlier world has left.
    pub(crate) fn holding(world: &mut World, ground: Ground, images: &[MemberImage]) -> Self {
        let images = images.iter().enumerate();
        let members = images.map(|(number, bytes)| world.add_member_holding(format!("m{number}"), bytes));
        Self { ground, members: members.collect() }
    }

    /// The members, or the file.
    pub(crate) fn all(&self) -> &[Arc<SimMember>] {
        &self.members
    }

    /// Whether it is an array.
    pub(super) fn is_array(&self) -> bool {
        self.ground != Ground::File
    }

    /// The device of this name.
    pub(super) fn number_of(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.info().name == name)
    }

    /// The devices that are left.
    pub(super) fn left(&self, lost: Option<usize>) -> Vec<Arc<SimMember>> {
        let mut left = self.members.clone();
        lost.map(|number| left.remove(number));
        left
    }

    /// What is there after a power failure.
    pub(crate) fn open(&self, world: &World) -> Result<Arc<dyn Volume>, Found> {
        Ok(self.open_as(world, Opening::default())?.volume)
    }

    /// As [`Volumes::open`], perhaps without some of the members.
    pub(super) fn open_as(&self, world: &World, opening: Opening) -> Result<Opened, Found> {
        let wrong = |what: String| (Checker::Mount, what);
        if !self.is_array() {
            return Ok(Opened { volume: on_file(self.devices()).map_err(wrong)?, array: None });
        }
        let array = self.assemble(world, opening)?;
        let volume = ArrayVolume::new(array.clone()).map_err(|error| wrong(error.to_string()))?;
        Ok(Opened { volume: Arc::new(volume), array: Some(array) })
    }

    fn assemble(&self, world: &World, opening: Opening) -> Result<Array, Found> {
        let mut devices = self.devices();
        opening.lost.map(|number| devices.remove(number));
        let env = world.env();
        let mut options = AssembleOptions::default();
        let is_short = opening.lost.is_some() || opening.may_be_short;
        (options.force, options.run, options.cache) = (is_short, is_short, opening.cache);
        let array = finish(world, "assembling", async move { assemble(env, devices, &options).await })?;
        array.map_err(|error| (Checker::Mount, format!("assembling: {error}")))
    }

    /// A member lies from now on: of some blocks it has others than those that were written. Before, members are made to agree, so that
    /// redundancy has these. Returns which member it is; none if one is missing.
    pub(super) fn make_lie(&self, world: &World, opening: Opening) -> Result<Option<usize>, Found> {
        let array = self.assemble(world, opening)?;
        let devices = self.devices();
        let stopped = finish(world, "stopping", async move {
            array.wait_for_jobs().await;
            add_missing(&array, devices).await;
            let report = array.report().await;
            array.stop().await.map(|()| report).map_err(|error| error.to_string())
        })?;
        let report = stopped.map_err(|what| (Checker::Mount, format!("stopping: {what}")))?;
        if report.degraded() > 0 {
            return Ok(None);
        }
        let in_sync = report.members.iter().filter(|member| member.state == MemberState::InSync);
        let serving: Vec<usize> = in_sync.filter_map(|member| self.number_of(&member.name)).collect();
        let number = serving[world.random(serving.len() as u64) as usize];
        let member = &self.members[number];
        let blocks = (member.bytes().len() as u64 - DATA_OFFSET_BYTES) / BLOCK;
        for _ in 0..1 + world.random(LIES_MAX) {
            let at = DATA_OFFSET_BYTES + world.random(blocks) * BLOCK;
            member.poke(at, &[world.random(256) as u8; BLOCK as usize]);
        }
        Ok(Some(number))
    }

    fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.members.iter().map(|member| member.clone() as Arc<dyn Device>).collect()
    }
}

/// Devices take the places of failed members, as far as there are devices.
async fn add_missing(array: &Array, devices: Vec<Arc<dyn Device>>) {
    for device in devices {
        let report = array.report().await;
        let found = report.members.iter().find(|member| member.name == device.info().name);
        let is_idle = found.is_none_or(|member| member.state == MemberState::Faulty);
        if report.degraded() > 0 && is_idle {
            // A failed member is attached until it is removed.
            _ = array.remove(&device.info().name).await;
            _ = array.add(device).await;
            array.wait_for_jobs().await;
        }
    }
}

fn on_file(devices: Vec<Arc<dyn Device>>) -> Result<Arc<dyn Volume>, String> {
    let device = devices.into_iter().next().ok_or("no file")?;
    let volume = DeviceVolume::new(device, COLUMNS, ROWS).map_err(|error| error.to_string())?;
    Ok(Arc::new(volume))
}

/// Bytes of a stripe: files of this length are overwritten where they lie.
pub(crate) const STRIPE_BYTES: usize = (COLUMNS * ROWS) as usize * BLOCK as usize;
