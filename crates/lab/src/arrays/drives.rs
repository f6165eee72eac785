//! The drives of members: the papers' drives, their partitions, and the state that they are in.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use parking_lot::Mutex;
use serde::Serialize;
use stripewise_engine::{StrideRecords, Touch, measure_strides};
use stripewise_sim::{
    World,
    model::{
        ClosedLoop, Contents, DiskModel, DiskOptions, ModelOp, ModelledDisk, SECTOR_BYTES,
        hdd::{HddParams, SeekTimes},
        ssd::{Ssd, SsdParams, UNIT_BYTES},
    },
};

/// A kind of member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// WD Caviar Black 640 GB; the papers' partition, at its start.
    Hdd,
    /// The same with half the speed: revolution, seeks and switches take twice as long.
    SlowHdd,
    /// Seagate ST373454LC; all of it. Strides are those that the stride benchmark finds on it.
    Cheetah,
    /// Intel X25-E 64 GB; a partition of the same size, written once in sequence, as a first sync does. The
    /// rest of the drive was never written, so that its spare space outlasts every run.
    Ssd,
    /// A smaller Intel X25-E of the same ratios: full, and overwritten at random until garbage collection has
    /// reached its steady state.
    SteadySsd,
    /// Intel X25-E with its partition as `Ssd`, but on a drive of 16 GB in the state of `SteadySsd`.
    WornSsd,
}

/// How hard disks are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HddSetting {
    /// Writes complete in the drive's buffer. On, as shipped, is the papers' setting.
    pub write_cache: bool,
    /// Commands that a drive orders by itself; 31 as shipped.
    pub queue_depth: usize,
}

impl Default for HddSetting {
    fn default() -> Self {
        Self { write_cache: true, queue_depth: 31 }
    }
}

/// Bytes of each member that the papers' arrays use: a quarter of the 49,153,835,008 bytes that
/// raid4s-modthresh 4 gives as the array's size; whole chunks of 64 KiB. The paper's partitions are of "12.25
/// GB"; this is 12.29 * 10^9.
pub const MEMBER_BYTES: u64 = 49_153_835_008 / 4;
/// Room for metadata before the data; a modelled disk keeps the contents of this part only.
pub const METADATA_BYTES: u64 = 256 << 20;
/// The quarter of the drive is large enough for the partition, and needs less memory.
const SSD_HALVINGS: u32 = 2;
/// 0.5 GB of the drive's 64, all of which the array uses: for flash the distance between places does not
/// matter.
const STEADY_HALVINGS: u32 = 7;
/// Random writes that bring a full drive to its steady state, as multiples of its capacity.
const STEADY_CAPACITIES: u64 = 2;

impl Drive {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hdd => "hdd",
            Self::SlowHdd => "slow-hdd",
            Self::Cheetah => "cheetah",
            Self::Ssd => "ssd",
            Self::SteadySsd => "steady-ssd",
            Self::WornSsd => "worn-ssd",
        }
    }

    /// Adds one to a world, in the state that it is measured in. Returns how long it has been at work: the
    /// world's clock must not be behind its own.
    pub(super) fn add_to(
        self,
        world: &mut World,
        name: String,
        setting: HddSetting,
    ) -> (Arc<ModelledDisk>, Duration) {
        let hdd = hdd(setting);
        match self {
            Self::Hdd => (world.add_hdd(name, hdd, options()), Duration::ZERO),
            Self::SlowHdd => (world.add_hdd(name, half_as_fast(hdd), options()), Duration::ZERO),
            Self::Cheetah => {
                let whole = DiskOptions { size_bytes: None, ..options() };
                (world.add_hdd(name, cheetah(setting), whole), Duration::ZERO)
            }
            Self::Ssd => (world.add_disk(name, synced(), options()), Duration::ZERO),
            Self::SteadySsd => {
                let whole = DiskOptions { size_bytes: None, ..options() };
                add_steady(world, name, whole, STEADY_HALVINGS)
            }
            Self::WornSsd => add_steady(world, name, options(), SSD_HALVINGS),
        }
    }

    /// The capacity of its write cache.
    pub(crate) fn write_cache_bytes(self, setting: HddSetting) -> u64 {
        match self {
            Self::Hdd | Self::SlowHdd | Self::Cheetah if !setting.write_cache => 0,
            Self::Cheetah => cheetah(setting).write_cache_sectors * SECTOR_BYTES,
            Self::Hdd | Self::SlowHdd => hdd(setting).write_cache_sectors * SECTOR_BYTES,
            Self::Ssd | Self::SteadySsd | Self::WornSsd => {
                u64::from(SsdParams::intel_x25e_64().buffer_units) * UNIT_BYTES
            }
        }
    }

    /// Random writes that bring it to the state in which it is measured.
    pub(crate) fn conditioning_writes(self) -> u64 {
        let halvings = match self {
            Self::SteadySsd => STEADY_HALVINGS,
            Self::WornSsd => SSD_HALVINGS,
            Self::Hdd | Self::SlowHdd | Self::Cheetah | Self::Ssd => return 0,
        };
        STEADY_CAPACITIES * (SsdParams::intel_x25e_64().scaled(halvings).sectors * SECTOR_BYTES / UNIT_BYTES)
    }
}

/// The partition; only the contents of metadata are kept.
fn options() -> DiskOptions {
    DiskOptions {
        contents: Contents::First(METADATA_BYTES),
        size_bytes: Some(MEMBER_BYTES + METADATA_BYTES),
        ..DiskOptions::default()
    }
}

fn hdd(setting: HddSetting) -> HddParams {
    HddParams::wd_caviar_black_640()
        .with_write_cache(setting.write_cache)
        .with_queue_depth(setting.queue_depth)
}

fn cheetah(setting: HddSetting) -> HddParams {
    HddParams::seagate_cheetah_15k4_73()
        .with_write_cache(setting.write_cache)
        .with_queue_depth(setting.queue_depth)
}

/// What the stride benchmark finds on a drive of this kind that is set up so; nothing, if its strides are of no
/// interest here.
pub(crate) fn strides(drive: Drive, setting: HddSetting) -> Option<StrideRecords> {
    static FOUND: Mutex<Vec<(HddSetting, StrideRecords)>> = Mutex::new(Vec::new());
    if drive != Drive::Cheetah {
        return None;
    }
    let mut known = FOUND.lock();
    if let Some((_, strides)) = known.iter().find(|(of, _)| *of == setting) {
        return Some(*strides);
    }
    let mut world = World::new(1);
    let (disk, _) = drive.add_to(&mut world, drive.name().to_owned(), setting);
    let env = world.env();
    let found = world.run(async move { measure_strides(&*env, &*disk, Touch::WriteBack).await });
    let found = found.expect("a modelled disk has no errors");
    known.push((setting, found));
    Some(found)
}

fn synced() -> Ssd {
    let mut ssd = Ssd::new(SsdParams::intel_x25e_64().scaled(SSD_HALVINGS));
    ssd.fill(((MEMBER_BYTES + METADATA_BYTES) / UNIT_BYTES) as u32);
    ssd
}

fn half_as_fast(params: HddParams) -> HddParams {
    let twice = |seek: SeekTimes| SeekTimes {
        single_track_ns: 2 * seek.single_track_ns,
        average_ns: 2 * seek.average_ns,
        full_stroke_ns: 2 * seek.full_stroke_ns,
    };
    HddParams {
        name: "WD6401AALS at half speed",
        revolution_ns: 2 * params.revolution_ns,
        read_seek: twice(params.read_seek),
        write_seek: twice(params.write_seek),
        head_switch_ns: 2 * params.head_switch_ns,
        track_skew_ns: 2 * params.track_skew_ns,
        cylinder_skew_ns: 2 * params.cylinder_skew_ns,
        ..params
    }
}

fn add_steady(
    world: &mut World,
    name: String,
    options: DiskOptions,
    halvings: u32,
) -> (Arc<ModelledDisk>, Duration) {
    let host = steady(halvings);
    let age = Duration::from_nanos(host.now().0);
    (world.add_disk(name, host.model, options), age)
}

fn steady(halvings: u32) -> ClosedLoop<Ssd> {
    let mut host = ClosedLoop::new(Ssd::new(SsdParams::intel_x25e_64().scaled(halvings)));
    let units = host.model.capacity_bytes() / UNIT_BYTES;
    host.model.fill(units as u32);
    let mut rng = Rng::with_seed(units);
    let write = ModelOp::Write { fua: false };
    let writes = std::iter::repeat_with(|| (write, rng.u64(..units) * UNIT_BYTES, UNIT_BYTES));
    host.run(31, writes.take((STEADY_CAPACITIES * units) as usize));
    host.settle();
    host
}
