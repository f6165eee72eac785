//! What kind of member a device is, and how long its I/O takes: a measurement of about a second on a hard disk, which
//! leaves everything on the device as it was.

use std::sync::Arc;

use smallvec::smallvec;
use stripewise_device::{Device, Env, IoBuf, IoError, MediaKind, SharedBuf, Timestamp, WriteFlags};
use stripewise_format::extension::{MemberClass, SERVICE_TIMES};

use crate::{
    plan::costs::{MemberCost, ServiceTime},
    rows::BLOCK_BYTES,
};

/// Places looked at for each class of I/O.
const PLACES: u64 = 24;
/// Requests of a sequential run, and their length.
const RUN_REQUESTS: u64 = 8;
const RUN_REQUEST_BYTES: u64 = 64 << 10;
/// A device that is slower than this to read a block somewhere rotates.
const HDD_READ_NS: u32 = 1_000_000;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// How long I/O takes on a member, in nanoseconds; 0 where it is not known. As the extension header keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceTimes {
    /// Reading a block somewhere else.
    pub random_read_ns: u32,
    /// Writing a block somewhere else, with a part in the flush that makes it durable.
    pub random_write_ns: u32,
    /// Writing a block where it was just read, likewise.
    pub rewrite_ns: u32,
    /// Reading one more block of a sequential run.
    pub sequential_read_ns: u32,
    /// Writing one more.
    pub sequential_write_ns: u32,
}

impl ServiceTimes {
    /// Whether anything was measured.
    pub fn is_known(&self) -> bool {
        self.random_read_ns > 0
    }

    pub(crate) fn from_header(ns: [u32; SERVICE_TIMES]) -> Self {
        let [random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns, ..] = ns;
        Self { random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns }
    }

    pub(crate) fn to_header(self) -> [u32; SERVICE_TIMES] {
        let Self { random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns } =
            self;
        [random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns, 0, 0, 0]
    }

    /// What a member with these times costs before anything is learned of it.
    pub fn cost(&self) -> MemberCost {
        let time = |random_ns: u32, block_ns: u32| ServiceTime {
            fixed_ns: random_ns.saturating_sub(block_ns) as f32,
            block_ns: block_ns as f32,
        };
        MemberCost {
            read: time(self.random_read_ns, self.sequential_read_ns),
            write: time(self.random_write_ns, self.sequential_write_ns),
            rewrite: time(self.rewrite_ns, self.sequential_write_ns),
            queue: 0.0,
        }
    }
}

/// The class of a device: what the operating system says, else what its times say.
pub(crate) fn class_of(media: MediaKind, times: &ServiceTimes) -> MemberClass {
    match media {
        MediaKind::Hdd => MemberClass::Hdd,
        MediaKind::Ssd => MemberClass::Ssd,
        MediaKind::Unknown if !times.is_known() => MemberClass::Unknown,
        MediaKind::Unknown if times.random_read_ns > HDD_READ_NS => MemberClass::Hdd,
        MediaKind::Unknown => MemberClass::Ssd,
    }
}

/// Measures a device. Nothing else may use it meanwhile. What is written is what was read there just before, so that a
/// crash costs nothing. A device too small to tell has no times.
///
/// # Errors
/// Of the device.
pub async fn measure(env: &dyn Env, device: &dyn Device) -> Result<ServiceTimes, IoError> {
    let run_bytes = RUN_REQUESTS * RUN_REQUEST_BYTES;
    if device.info().size_bytes < 4 * run_bytes {
        return Ok(ServiceTimes::default());
    }
    let mut stopwatch = Stopwatch { env, begun: env.now() };
    let mut kept = Vec::new();
    for place in places(env, device) {
        kept.push((place, read(device, place, BLOCK).await?));
    }
    let random_read_ns = stopwatch.lap(PLACES);
    for (place, content) in kept.iter().rev() {
        write(device, *place, content).await?;
    }
    device.flush().await?;
    let random_write_ns = stopwatch.lap(PLACES);
    for place in places(env, device) {
        let content = read(device, place, BLOCK).await?;
        write(device, place, &content).await?;
    }
    device.flush().await?;
    let rewrite_ns = stopwatch.lap(PLACES).saturating_sub(random_read_ns).max(1);
    let start = run_bytes * (env.random_u64() % (device.info().size_bytes / run_bytes - 1));
    let requests = (0..RUN_REQUESTS).map(|request| start + request * RUN_REQUEST_BYTES);
    // Getting there is not part of the run.
    read(device, start, BLOCK).await?;
    stopwatch.lap(1);
    let mut kept = Vec::new();
    for place in requests {
        kept.push((place, read(device, place, RUN_REQUEST_BYTES).await?));
    }
    let sequential_read_ns = stopwatch.lap(run_bytes / BLOCK);
    for (place, content) in &kept {
        write(device, *place, content).await?;
    }
    device.flush().await?;
    let sequential_write_ns = stopwatch.lap(run_bytes / BLOCK);
    Ok(ServiceTimes { random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns })
}

/// Blocks anywhere on a device.
fn places(env: &dyn Env, device: &dyn Device) -> Vec<u64> {
    let blocks = device.info().size_bytes / BLOCK;
    (0..PLACES).map(|_| env.random_u64() % blocks * BLOCK).collect()
}

async fn read(device: &dyn Device, offset_bytes: u64, len_bytes: u64) -> Result<SharedBuf, IoError> {
    let buf = IoBuf::with_len(len_bytes as usize);
    Ok(device.read(offset_bytes, smallvec![buf]).await.into_one()?.freeze())
}

async fn write(device: &dyn Device, offset_bytes: u64, content: &SharedBuf) -> Result<(), IoError> {
    device.write(offset_bytes, smallvec![content.clone()], WriteFlags::default()).await
}

struct Stopwatch<'a> {
    env: &'a dyn Env,
    begun: Timestamp,
}

impl Stopwatch<'_> {
    /// Nanoseconds since the last lap, for each of so many; at least 1.
    fn lap(&mut self, count: u64) -> u32 {
        let now = self.env.now();
        let each = now.since(self.begun).as_nanos() / u128::from(count);
        self.begun = now;
        u32::try_from(each).unwrap_or(u32::MAX).max(1)
    }
}

/// Measures several devices at once. One that cannot be measured is named.
pub(crate) async fn measure_all(
    env: &dyn Env,
    devices: &[&Arc<dyn Device>],
) -> Result<Vec<ServiceTimes>, (String, IoError)> {
    let measured = devices.iter().map(async |device| {
        let times = measure(env, &***device).await;
        times.map_err(|error| (device.info().name.clone(), error))
    });
    futures_util::future::join_all(measured).await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use stripewise_device::memory::MemoryDevice;
    use stripewise_sim::{
        World,
        model::{
            DiskOptions,
            hdd::{Hdd, HddParams},
            ssd::{Ssd, SsdParams},
        },
    };

    use super::*;

    #[test]
    fn modelled_disks_are_told_apart_and_nothing_on_them_changes() {
        let mut world = World::new(1);
        let hdd = world.add_disk("hdd", Hdd::new(HddParams::wd_caviar_black_640()), DiskOptions::default());
        let ssd = world.add_disk("ssd", Ssd::new(SsdParams::intel_x25e_64()), DiskOptions::default());
        let env = world.env();
        let (hdd, ssd) = world.run(async move {
            let hdd = measure(&*env, &*hdd).await.unwrap();
            (hdd, measure(&*env, &*ssd).await.unwrap())
        });
        assert_eq!(class_of(MediaKind::Unknown, &hdd), MemberClass::Hdd, "{hdd:?}");
        assert_eq!(class_of(MediaKind::Unknown, &ssd), MemberClass::Ssd, "{ssd:?}");
        assert!(hdd.rewrite_ns < hdd.random_read_ns, "no seek: {hdd:?}");
        assert!(hdd.sequential_read_ns * 100 < hdd.random_read_ns, "{hdd:?}");
    }

    #[test]
    fn contents_stay_and_small_devices_are_left_alone() {
        let world = World::new(2);
        let (env, device) = (world.env(), Arc::new(MemoryDevice::new("m", 8 << 20)));
        let content: Vec<u8> = (0..8 << 20).map(|i: u32| i.to_le_bytes()[(i % 4) as usize] ^ 0x5a).collect();
        let found = world.run(async move {
            let data = IoBuf::copy_of(&content).freeze();
            device.write(0, smallvec![data], WriteFlags::default()).await.unwrap();
            assert!(measure(&*env, &*device).await.unwrap().is_known());
            let found = read(&*device, 0, 8 << 20).await.unwrap();
            let small = MemoryDevice::new("s", 1 << 20);
            assert!(!measure(&*env, &small).await.unwrap().is_known());
            found[..] == content[..]
        });
        assert!(found);
    }
}
