//! A member that stops answering, under a deadline: it fails, and the array serves on without it.

#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use stripewise_device::{
    Completion, Device, DeviceInfo, IoBuf, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags, ZeroFlags,
    memory::MemoryDevice, wrap::Deadline,
};
use stripewise_engine::{Array, CreateOptions, MemberState, geometry::Level};
use stripewise_sim::World;

/// Takes requests and never ends them, once it is told to be so.
struct Hangs {
    device: MemoryDevice,
    is_told: Arc<AtomicBool>,
}

impl Hangs {
    fn or_never<T: Send + Unpin + 'static>(
        &self,
        request: impl FnOnce(&MemoryDevice) -> IoFuture<T>,
    ) -> IoFuture<T> {
        match self.is_told.load(Ordering::SeqCst) {
            true => IoFuture::boxed(std::future::pending()),
            false => request(&self.device),
        }
    }
}

impl Device for Hangs {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.or_never(|device| device.read(offset_bytes, into))
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.or_never(|device| device.write(offset_bytes, from, flags))
    }

    fn flush(&self) -> Completion {
        self.or_never(Device::flush)
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.or_never(|device| device.write_zeroes(offset_bytes, len_bytes, flags))
    }
}

const LIMIT: Duration = Duration::from_secs(5);

struct Ground {
    world: World,
    array: Array,
    is_told: Arc<AtomicBool>,
    content: Vec<u8>,
}

/// An array that is written whole, whose second member hangs from now on.
fn hanging(level: Level) -> Ground {
    let world = World::new(1);
    let is_told = Arc::new(AtomicBool::new(false));
    let member = |i: usize| {
        let device = MemoryDevice::new(format!("m{i}"), 3 << 20);
        let is_told = if i == 1 { is_told.clone() } else { Arc::default() };
        Arc::new(Deadline::new(Hangs { device, is_told }, world.env(), LIMIT)) as Arc<dyn Device>
    };
    let mut options = CreateOptions::new("sim:silent", level, (0..4).map(member).collect());
    options.chunk_bytes = 16384;
    options.assume_clean = true;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    let content: Vec<u8> = (0..1 << 20).map(|at| (at / 512 % 251) as u8).collect();
    let (writer, data) = (array.clone(), IoBuf::copy_of(&content).freeze());
    world.run(async move { writer.write(0, data, WriteFlags::default()).await }).unwrap();
    is_told.store(true, Ordering::SeqCst);
    Ground { world, array, is_told, content }
}

impl Ground {
    /// The hanging member has failed, nobody else has, and all data is there.
    fn check(&self) {
        assert!(self.is_told.load(Ordering::SeqCst));
        let (array, len) = (self.array.clone(), self.content.len());
        let read = self.world.run(async move { array.read(0, IoBuf::with_len(len)).await }).unwrap();
        assert!(read[..] == self.content);
        let array = self.array.clone();
        let report = self.world.run(async move { array.report().await });
        let faulty: Vec<_> =
            report.members.iter().filter(|member| member.state != MemberState::InSync).collect();
        assert!(matches!(&faulty[..], [member] if member.name == "m1"), "{faulty:?}");
    }
}

#[test]
fn a_read_of_a_silent_member_is_recovered_after_the_deadline() {
    for level in [Level::Raid1, Level::Raid5, Level::Raid6] {
        let ground = hanging(level);
        let before = ground.world.now();
        ground.check();
        assert!(
            Duration::from_nanos(ground.world.now().0 - before.0) < 3 * LIMIT,
            "the deadline is met once or twice, not by every read"
        );
    }
}

#[test]
fn a_write_to_a_silent_member_is_acknowledged_after_the_deadline() {
    for level in [Level::Raid1, Level::Raid5, Level::Raid6] {
        let mut ground = hanging(level);
        for at in (0..ground.content.len()).step_by(65536) {
            ground.content[at..at + 4096].fill(7);
            let (array, data) = (ground.array.clone(), IoBuf::copy_of(&[7; 4096]).freeze());
            ground
                .world
                .run(async move { array.write(at as u64, data, WriteFlags::default()).await })
                .unwrap();
        }
        ground.check();
    }
}
