//! Measures what kind of member a device is and how long its I/O takes. This takes about a second on a hard
//! disk and leaves everything on the device as it was.

use smallvec::smallvec;
use stripewise_device::{Device, Env, IoBuf, IoError, MediaKind, SharedBuf, Timestamp, WriteFlags};
use stripewise_format::extension::{MemberClass, SERVICE_TIMES};

use super::{
    benches::StrideBenches,
    strides::{StrideRecords, measure_strides},
};
use crate::{
    plan::costs::{MemberCost, ServiceTime},
    shape::rows::BLOCK_BYTES,
};

/// Places tried for each class of I/O.
const PLACES: u64 = 24;
/// Requests of a sequential run, and their length.
const RUN_REQUESTS: u64 = 8;
const RUN_REQUEST_BYTES: u64 = 64 << 10;
/// A device that takes longer than this to read a block at a random place rotates.
const HDD_READ_NS: u32 = 1_000_000;
/// Flash writes and flushes a block in this time. Consumer flash, and disks of virtual machines, take nearly a millisecond.
const FLASH_WRITE_NS: u32 = 2_000_000;

/// The least that a random read takes on a disk that rotates: about half a turn of 15,000 in a minute, and a short seek.
const ROTATING_READ_NS: u32 = 2_000_000;
/// There it takes so many times as long as a block of a run at least.
const ROTATING_RATIO: u32 = 32;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// How long I/O takes on a member, in nanoseconds; 0 where it is not known. The extension header stores the
/// same values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceTimes {
    /// Reading a block at a random place.
    pub random_read_ns: u32,
    /// Writing a block at a random place, with its share of the flush that makes it durable.
    pub random_write_ns: u32,
    /// Writing a block where it was just read, with its share of the flush.
    pub rewrite_ns: u32,
    /// Reading one more block of a sequential run.
    pub sequential_read_ns: u32,
    /// Writing one more block of a sequential run.
    pub sequential_write_ns: u32,
}

impl ServiceTimes {
    /// Whether anything was measured.
    pub fn is_known(&self) -> bool {
        self.random_read_ns > 0
    }

    /// From an extension header.
    pub fn from_header(ns: [u32; SERVICE_TIMES]) -> Self {
        let [random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns, ..] = ns;
        Self { random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns }
    }

    pub(crate) fn to_header(self) -> [u32; SERVICE_TIMES] {
        let Self { random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns } =
            self;
        [random_read_ns, random_write_ns, rewrite_ns, sequential_read_ns, sequential_write_ns, 0, 0, 0]
    }

    /// Whether it was measured to rotate: reads of single blocks take as long as a head and a platter need, and each block of
    /// a run a small part of that. A flash device that others keep busy is slow at both.
    pub(crate) fn are_of_rotating(&self) -> bool {
        self.random_read_ns >= ROTATING_READ_NS
            && self.random_read_ns / ROTATING_RATIO >= self.sequential_read_ns.max(1)
    }

    /// Whether reads and writes were measured to be as fast as on flash. Reads alone tell little: those of a sparse file's
    /// holes are fast on any disk.
    fn are_of_flash(&self) -> bool {
        let writes = [self.random_write_ns, self.rewrite_ns];
        (1..=HDD_READ_NS).contains(&self.random_read_ns)
            && writes.iter().all(|ns| (1..=FLASH_WRITE_NS).contains(ns))
    }

    /// How long it takes to read a block at a random place; `u64::MAX` if that is not known.
    pub(crate) fn block_read_ns(&self) -> u64 {
        if self.is_known() { self.random_read_ns.into() } else { u64::MAX }
    }

    /// What a member with these times costs before anything is learned of it.
    pub fn cost(&self) -> MemberCost {
        // Writes that were not measured are assumed to cost as much as reads.
        let or_read = |ns: u32, read_ns: u32| if ns > 0 { ns } else { read_ns };
        let time = |random_ns: u32, block_ns: u32| ServiceTime {
            fixed_ns: random_ns.saturating_sub(block_ns) as f32,
            block_ns: block_ns as f32,
        };
        let write_block_ns = or_read(self.sequential_write_ns, self.sequential_read_ns);
        MemberCost {
            read: time(self.random_read_ns, self.sequential_read_ns),
            write: time(or_read(self.random_write_ns, self.random_read_ns), write_block_ns),
            rewrite: time(or_read(self.rewrite_ns, self.random_read_ns), write_block_ns),
            queue: 0.0,
        }
    }
}

/// The class of a device: what the operating system says, otherwise what its times suggest. Flash behind a controller may be
/// said to rotate; then its times tell.
pub(crate) fn class_of(media: MediaKind, times: &ServiceTimes) -> MemberClass {
    match media {
        MediaKind::Hdd if times.are_of_flash() => MemberClass::Ssd,
        MediaKind::Hdd => MemberClass::Hdd,
        MediaKind::Ssd => MemberClass::Ssd,
        MediaKind::Unknown if !times.is_known() => MemberClass::Unknown,
        MediaKind::Unknown if times.random_read_ns > HDD_READ_NS => MemberClass::Hdd,
        MediaKind::Unknown => MemberClass::Ssd,
    }
}

/// What a measurement may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// What it has just read, so that a crash costs nothing.
    WriteBack,
    /// Nothing. Then it is not known how long writes take.
    ReadOnly,
}

/// Measures a device. Nothing else may use it meanwhile. A device too small to measure has no times.
///
/// # Errors
/// Errors of the device.
pub async fn measure(env: &dyn Env, device: &dyn Device, touch: Touch) -> Result<ServiceTimes, IoError> {
    let run_bytes = RUN_REQUESTS * RUN_REQUEST_BYTES;
    if device.info().size_bytes < 2 * run_bytes {
        return Ok(ServiceTimes::default());
    }
    let mut times = ServiceTimes::default();
    let mut stopwatch = Stopwatch { env, begun: env.now() };
    let places = places(env, device);
    let random = read_all(device, &places, BLOCK).await?;
    times.random_read_ns = stopwatch.lap(PLACES);
    let start = run_bytes * (env.random_u64() % (device.info().size_bytes / run_bytes - 1));
    let run: Vec<u64> = (0..RUN_REQUESTS).map(|request| start + request * RUN_REQUEST_BYTES).collect();
    // Getting there is not part of the run.
    read_all(device, &run[..1], BLOCK).await?;
    stopwatch.lap(1);
    let sequential = read_all(device, &run, RUN_REQUEST_BYTES).await?;
    times.sequential_read_ns = stopwatch.lap(run_bytes / BLOCK);
    if touch == Touch::ReadOnly {
        return Ok(times);
    }
    write_all(device, &run, &sequential).await?;
    times.sequential_write_ns = stopwatch.lap(run_bytes / BLOCK);
    write_all(device, &places, &random).await?;
    times.random_write_ns = stopwatch.lap(PLACES);
    times.rewrite_ns = rewrite_ns(&mut stopwatch, device, &places, times.random_read_ns).await?;
    Ok(times)
}

/// How long it takes to write a block where it was just read, without the read itself. Time that writes add
/// to the reads between them counts as write time. Time that a cache saves on reads, because the blocks were
/// read before, does not.
async fn rewrite_ns(
    stopwatch: &mut Stopwatch<'_>,
    device: &dyn Device,
    places: &[u64],
    random_read_ns: u32,
) -> Result<u32, IoError> {
    let (mut reads_ns, mut writes_ns) = (0, 0);
    for place in places {
        let content = read(device, *place, BLOCK).await?;
        reads_ns += u64::from(stopwatch.lap(1));
        write(device, *place, &content).await?;
        writes_ns += u64::from(stopwatch.lap(1));
    }
    device.flush().await?;
    writes_ns += u64::from(stopwatch.lap(1));
    let added_ns = reads_ns.saturating_sub(u64::from(random_read_ns) * PLACES);
    Ok(u32::try_from((writes_ns + added_ns) / PLACES).unwrap_or(u32::MAX).max(1))
}

/// Random blocks of a device.
fn places(env: &dyn Env, device: &dyn Device) -> Vec<u64> {
    let blocks = device.info().size_bytes / BLOCK;
    (0..PLACES).map(|_| env.random_u64() % blocks * BLOCK).collect()
}

/// Reads one place after the other.
async fn read_all(device: &dyn Device, places: &[u64], len_bytes: u64) -> Result<Vec<SharedBuf>, IoError> {
    let mut contents = Vec::with_capacity(places.len());
    for place in places {
        contents.push(read(device, *place, len_bytes).await?);
    }
    Ok(contents)
}

/// Writes one place after the other, and makes the writes durable.
async fn write_all(device: &dyn Device, places: &[u64], contents: &[SharedBuf]) -> Result<(), IoError> {
    for (place, content) in places.iter().zip(contents) {
        write(device, *place, content).await?;
    }
    device.flush().await
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
    /// Nanoseconds since the last lap, divided by `count`; at least 1.
    fn lap(&mut self, count: u64) -> u32 {
        let now = self.env.now();
        let each = now.since(self.begun).as_nanos() / u128::from(count);
        self.begun = now;
        u32::try_from(each).unwrap_or(u32::MAX).max(1)
    }
}

/// What is measured of a device that will be a member.
#[derive(Debug, Clone)]
pub(crate) struct What {
    pub(crate) touch: Touch,
    /// Strides, too, unless it is flash.
    pub(crate) strides: bool,
    /// Its class, if an operator gives one.
    pub(crate) class: Option<MemberClass>,
    /// Tells those who wait that strides are being measured.
    pub(crate) benches: StrideBenches,
}

/// What was measured of a device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    pub(crate) times: ServiceTimes,
    pub(crate) strides: StrideRecords,
}

/// Measures a device that will be a member. An error is no reason to refuse the device: its cause shows when the device
/// is written, or a rebuild mends it.
pub(crate) async fn measure_or_not(env: &dyn Env, device: &dyn Device, what: What) -> Measured {
    let name = &device.info().name;
    let times = measure(env, device, what.touch).await.unwrap_or_else(|error| {
        tracing::warn!(member = name, %error, "its service times could not be measured");
        ServiceTimes::default()
    });
    let class = what.class.unwrap_or_else(|| class_of(device.info().media, &times));
    if !what.strides || class == MemberClass::Ssd {
        return Measured { times, strides: StrideRecords::default() };
    }
    let _bench = what.benches.begin();
    let strides = measure_strides(env, device, what.touch).await.unwrap_or_else(|error| {
        tracing::warn!(member = name, %error, "its strides could not be measured");
        StrideRecords::default()
    });
    Measured { times, strides }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc, time::Duration};

    use parking_lot::Mutex;
    use stripewise_device::{
        Completion, DeviceInfo, EnvHandle, IoFuture, ReadBufs, ReadDone, WriteBufs, ZeroFlags,
        memory::MemoryDevice,
    };
    use stripewise_sim::{
        World,
        model::{
            DiskOptions,
            hdd::HddParams,
            ssd::{Ssd, SsdParams},
        },
    };

    use super::*;

    #[test]
    fn modelled_disks_are_told_apart_and_nothing_on_them_changes() {
        let mut world = World::new(1);
        let hdd = world.add_hdd("hdd", HddParams::wd_caviar_black_640(), DiskOptions::default());
        let ssd = world.add_disk("ssd", Ssd::new(SsdParams::intel_x25e_64()), DiskOptions::default());
        let env = world.env();
        let (hdd, ssd) = world.run(async move {
            let hdd = measure(&*env, &*hdd, Touch::WriteBack).await.unwrap();
            (hdd, measure(&*env, &*ssd, Touch::WriteBack).await.unwrap())
        });
        assert_eq!(class_of(MediaKind::Unknown, &hdd), MemberClass::Hdd, "{hdd:?}");
        assert_eq!(class_of(MediaKind::Unknown, &ssd), MemberClass::Ssd, "{ssd:?}");
        assert!(hdd.are_of_rotating() && !ssd.are_of_rotating(), "{hdd:?}, {ssd:?}");
        let busy = |times: ServiceTimes| ServiceTimes {
            random_read_ns: 40 * times.random_read_ns,
            sequential_read_ns: 40 * times.sequential_read_ns,
            ..times
        };
        assert!(!busy(ssd).are_of_rotating(), "busy flash: {ssd:?}");
        assert!(hdd.rewrite_ns < hdd.random_read_ns, "no seek: {hdd:?}");
        assert!(hdd.sequential_read_ns * 100 < hdd.random_read_ns, "{hdd:?}");
    }

    /// What the system says may be wrong: members' files on one virtual disk were said to be of two kinds, as their writes took a
    /// little less or more than a millisecond.
    #[test]
    fn flash_that_is_said_to_rotate_is_told_by_its_times() {
        let class = |read_us: u32, write_us: u32| {
            let [random_read_ns, random_write_ns] = [read_us, write_us].map(|us| 1000 * us);
            let times =
                ServiceTimes { random_read_ns, random_write_ns, rewrite_ns: 700_000, ..Default::default() };
            class_of(MediaKind::Hdd, &times)
        };
        assert_eq!([class(8, 916), class(8, 1100), class(150, 1900)], [MemberClass::Ssd; 3]);
        assert_eq!(
            [class(8, 5000), class(4000, 100)],
            [MemberClass::Hdd; 2],
            "a sparse file, and a disk that says written"
        );
        assert_eq!(class(8, 0), MemberClass::Hdd, "nothing was written");
    }

    /// A device that reads a block faster the second time, as page caches do.
    struct Cached {
        memory: Arc<MemoryDevice>,
        env: EnvHandle,
        seen: Mutex<BTreeSet<u64>>,
    }

    impl Cached {
        fn after<T: Send + Unpin + 'static>(&self, us: u64, io: IoFuture<T>) -> IoFuture<T> {
            let sleep = self.env.sleep(Duration::from_micros(us));
            IoFuture::boxed(async move {
                sleep.await;
                io.await
            })
        }
    }

    impl Device for Cached {
        fn info(&self) -> &DeviceInfo {
            self.memory.info()
        }

        fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
            let us = if self.seen.lock().insert(offset_bytes) { 50 } else { 1 };
            self.after(us, self.memory.read(offset_bytes, into))
        }

        fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
            self.after(3, self.memory.write(offset_bytes, from, flags))
        }

        fn flush(&self) -> Completion {
            self.memory.flush()
        }

        fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
            self.memory.write_zeroes(offset_bytes, len_bytes, flags)
        }
    }

    /// A former bug: the time of the first reads was subtracted from the time of rereading and writing, and
    /// nothing was left.
    #[test]
    fn a_cache_that_speeds_up_reads_takes_nothing_off_writes() {
        let world = World::new(3);
        let env = world.env();
        let memory = Arc::new(MemoryDevice::new("m", 64 << 20));
        let device = Cached { memory, env: env.clone(), seen: Mutex::default() };
        let times = world.run(async move { measure(&*env, &device, Touch::WriteBack).await }).unwrap();
        assert!((2_500..=4_000).contains(&times.rewrite_ns), "{times:?}");
    }

    #[test]
    fn contents_stay_and_small_devices_are_left_alone() {
        let world = World::new(2);
        let (env, device) = (world.env(), Arc::new(MemoryDevice::new("m", 8 << 20)));
        let content: Vec<u8> = (0..8 << 20).map(|i: u32| i.to_le_bytes()[(i % 4) as usize] ^ 0x5a).collect();
        let found = world.run(async move {
            let data = IoBuf::copy_of(&content).freeze();
            device.write(0, smallvec![data], WriteFlags::default()).await.unwrap();
            assert!(measure(&*env, &*device, Touch::WriteBack).await.unwrap().is_known());
            let found = read(&*device, 0, 8 << 20).await.unwrap();
            let small = MemoryDevice::new("s", 1 << 19);
            assert!(!measure(&*env, &small, Touch::WriteBack).await.unwrap().is_known());
            found[..] == content[..]
        });
        assert!(found);
    }
}
