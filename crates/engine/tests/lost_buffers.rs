//! A member whose runtime has ended: its reads fail, and the buffers that were lent to them are gone.

#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use stripewise_device::{
    Completion, Device, DeviceInfo, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, WriteBufs,
    WriteFlags, ZeroFlags, memory::MemoryDevice,
};
use stripewise_engine::{Array, CreateOptions, geometry::Level};
use stripewise_sim::World;

/// Keeps the buffers of its reads once its runtime has ended.
struct Swallows {
    device: MemoryDevice,
    has_ended: AtomicBool,
}

impl Device for Swallows {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        if self.has_ended.load(Ordering::SeqCst) {
            let result = Err(IoError::new(IoErrorKind::NoRuntime));
            return IoFuture::ready(ReadDone { result, bufs: ReadBufs::new() });
        }
        self.device.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.device.write(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        self.device.flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.device.write_zeroes(offset_bytes, len_bytes, flags)
    }
}

const LEN: usize = 512 << 10;

/// Reads with these offsets and lengths, after the runtime of the second member has ended, and of the third,
/// too, if both are to.
fn read_after(level: Level, ended: usize, reads: &[(usize, usize)]) {
    let world = World::new(1);
    let member = |i| {
        let device = MemoryDevice::new(format!("m{i}"), 3 << 20);
        Arc::new(Swallows { device, has_ended: AtomicBool::new(false) })
    };
    let members: Vec<_> = (0..5).map(member).collect();
    let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let mut options = CreateOptions::new("sim:swallows", level, devices);
    options.chunk_bytes = 16384;
    options.assume_clean = true;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    let content: Vec<u8> = (0..LEN).map(|at| (at / 512 % 251) as u8).collect();
    let data = IoBuf::copy_of(&content).freeze();
    let writer = array.clone();
    world.run(async move { writer.write(0, data, WriteFlags::default()).await }).unwrap();
    members[1..1 + ended].iter().for_each(|member| member.has_ended.store(true, Ordering::SeqCst));
    for (offset, len) in reads.iter().copied() {
        let reader = array.clone();
        let read = world.run(async move { reader.read(offset as u64, IoBuf::with_len(len)).await });
        assert!(read.unwrap()[..] == content[offset..offset + len], "{level:?}, {ended}, {len} at {offset}");
    }
}

#[test]
fn what_they_have_is_recovered_into_other_buffers() {
    for (level, ended) in [(Level::Raid1, 1), (Level::Raid5, 1), (Level::Raid6, 1), (Level::Raid6, 2)] {
        // The whole in one read, and one block of each chunk.
        read_after(level, ended, &[(0, LEN)]);
        read_after(level, ended, &[(4096, 100 << 10)]);
        let blocks: Vec<_> = (0..LEN).step_by(16384).map(|at| (at + 512, 4096)).collect();
        read_after(level, ended, &blocks);
    }
}
