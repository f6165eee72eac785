//! One array over modelled disks, in a world of its own.

use std::{future::Future, sync::Arc, time::Duration};

use stripewise_device::Device;
use stripewise_engine::{
    Array, CacheSettings, CreateOptions, ParityPlace, StrideChoice, plan::selection::Policy,
};
use stripewise_sim::{World, model::ModelledDisk};

use super::{
    drives::{self, HddSetting},
    probe::{Probe, Watch},
    shapes::Shape,
};

/// Bytes of each member per bit of the write-intent bitmap: the maximum, because the papers' arrays had no
/// bitmap.
const REGION_BYTES: u64 = 1 << 30;

/// An array and its world.
pub struct Rig {
    world: World,
    array: Array,
    members: Vec<Member>,
}

struct Member {
    disk: Arc<ModelledDisk>,
    /// Present on a drive whose model does not count its own busy time.
    watch: Option<Arc<Watch>>,
    drive: &'static str,
}

/// How long a member was at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberWork {
    /// What kind of drive it is.
    pub drive: &'static str,
    /// The busy time of a disk's mechanism, whether or not a request waits for it; of an SSD, the time with
    /// requests under way.
    pub busy: Duration,
}

impl Rig {
    /// A new array, in sync; its members are measured as `create` does by default.
    ///
    /// # Panics
    /// If the shape cannot be that of an array.
    pub fn new(shape: &Shape, policy: &'static Policy, setting: HddSetting, seed: u64) -> Self {
        Self::with_chunks(shape, policy, setting, None, seed)
    }

    /// As [`Rig::new`], with chunks of so many bytes.
    ///
    /// # Panics
    /// If the shape cannot be that of an array.
    pub fn with_chunks(
        shape: &Shape,
        policy: &'static Policy,
        setting: HddSetting,
        chunk_bytes: Option<u32>,
        seed: u64,
    ) -> Self {
        let mut world = World::new(seed);
        world.set_steps_max(u64::MAX);
        let (mut members, mut devices, mut age) = (Vec::new(), Vec::new(), Duration::ZERO);
        for (index, drive) in shape.drives.iter().enumerate() {
            let (disk, own_age) = drive.add_to(&mut world, format!("{}{index}", drive.name()), setting);
            age = age.max(own_age);
            let (device, watch) = watched(&world, &disk);
            members.push(Member { disk, watch, drive: drive.name() });
            devices.push(device);
        }
        world.run_for(age);
        let mut options = CreateOptions::new(format!("lab:{}", shape.id), shape.level, devices);
        options.cache = Some(CacheSettings::default());
        options.assume_clean = true;
        options.measure = true;
        options.parity = ParityPlace::Last;
        // Level 0 has nothing to select.
        options.policy = shape.level.has_parity().then_some(policy);
        options.member_bytes = shape.member_bytes;
        options.region_bytes = Some(REGION_BYTES);
        options.chunk_bytes = chunk_bytes.unwrap_or(options.chunk_bytes);
        let strides = drives::strides(shape.drives[0], setting);
        options.strides =
            strides.map_or(StrideChoice::Unknown, |strides| StrideChoice::Given(Box::new(strides)));
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await });
        Self { world, array: array.expect("the members are as the array needs them"), members }
    }

    /// The array.
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Runs a future of the array's world to its end, in virtual time.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.world.run(future)
    }

    /// How long the members were at work so far, by role.
    pub fn work(&self) -> Vec<MemberWork> {
        let work = self.members.iter().map(|member| {
            let watched = member.watch.as_ref().map(|watch| watch.busy());
            let busy = watched.or_else(|| at_work(&member.disk)).unwrap_or_default();
            MemberWork { drive: member.drive, busy }
        });
        work.collect()
    }
}

/// The disk as a member, with a probe where one is needed.
fn watched(world: &World, disk: &Arc<ModelledDisk>) -> (Arc<dyn Device>, Option<Arc<Watch>>) {
    if at_work(disk).is_some() {
        return (disk.clone(), None);
    }
    let probe = Probe::new(disk.clone(), world.env());
    let watch = probe.watch();
    (Arc::new(probe), Some(watch))
}

/// How long a mechanism was at work, if there is one.
fn at_work(disk: &ModelledDisk) -> Option<Duration> {
    disk.counters().find("busy_ns").map(Duration::from_nanos)
}
