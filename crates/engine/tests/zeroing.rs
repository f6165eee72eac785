//! Zeroes on members that know no zero-write, and more of them at once than one plain write takes.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use stripewise_device::{
    Completion, Device, DeviceInfo, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, WriteBufs,
    WriteFlags, ZeroFlags, memory::MemoryDevice,
};
use stripewise_engine::{
    Array, CreateOptions,
    geometry::{Level, StripeIndex},
};
use stripewise_sim::{World, check::layout::Layout};

/// A member that refuses zero-writes, as a block device without them does.
struct Plain(Arc<dyn Device>);

impl Device for Plain {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.0.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.0.write(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        self.0.flush()
    }

    fn write_zeroes(&self, _: u64, _: u64, _: ZeroFlags) -> Completion {
        IoFuture::ready(Err(IoError::new(IoErrorKind::Refused)))
    }
}

struct Rig {
    world: World,
    level: Level,
    chunk_bytes: u32,
    members: Vec<Arc<dyn Device>>,
    array: Array,
    content: Vec<u8>,
}

/// A full array; `refuses` says which members know no zero-write.
fn rig(level: Level, members: usize, chunk_bytes: u32, refuses: impl Fn(usize) -> bool) -> Rig {
    let stripes = if chunk_bytes >= 1 << 20 { 2 } else { 8 };
    // A stripe of level 1 is 64 KiB.
    let data_bytes = stripes * u64::from(chunk_bytes.max(65536));
    let mut world = World::new(1);
    let size = (4 << 20) + data_bytes;
    let member = |i| {
        // Some are done at once, and some later.
        let inner: Arc<dyn Device> = match i % 2 {
            0 => Arc::new(MemoryDevice::new(format!("m{i}"), size)),
            _ => world.add_member(format!("m{i}"), size),
        };
        if refuses(i) { Arc::new(Plain(inner)) } else { inner }
    };
    let members: Vec<Arc<dyn Device>> = (0..members).map(member).collect();
    let mut options = CreateOptions::new("sim:zeroing", level, members.clone());
    options.chunk_bytes = chunk_bytes;
    options.member_bytes = Some(data_bytes);
    options.assume_clean = true;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    let content: Vec<u8> =
        (0..array.geometry().capacity_bytes()).map(|i| (i / 512 % 251) as u8 + 1).collect();
    let (writing, data) = (array.clone(), IoBuf::copy_of(&content).freeze());
    world.run(async move { writing.write(0, data, WriteFlags::default()).await }).unwrap();
    Rig { world, level, chunk_bytes, members, array, content }
}

impl Rig {
    fn zero(&mut self, offset: usize, len: usize) {
        let array = self.array.clone();
        let zeroing = array.write_zeroes(offset as u64, len as u64, ZeroFlags::default());
        self.world.run(zeroing).unwrap();
        self.content[offset..offset + len].fill(0);
        self.check(&format!("zeroes {offset}..{}", offset + len));
    }

    /// The array holds what it must, no member was dropped for what it does not know, and redundancy agrees.
    fn check(&self, when: &str) {
        let (array, len) = (self.array.clone(), self.content.len());
        let (found, report) = self.world.run(async move {
            let found = array.read(0, IoBuf::with_len(len)).await.unwrap();
            (found, array.report().await)
        });
        assert!(found[..] == self.content[..], "{when}, {:?}", self.level);
        assert!(report.in_sync.iter().all(|in_sync| *in_sync), "{when}: {:?}", report.in_sync);
        let member_bytes = report.geometry.member_bytes() as usize;
        let layout = Layout {
            level: self.level.number(),
            members: self.members.len(),
            chunk_bytes: self.chunk_bytes as usize,
            member_bytes,
        };
        let data: Vec<Vec<u8>> =
            self.members.iter().map(|member| self.data_of(member, member_bytes)).collect();
        let data: Vec<Option<&[u8]>> = data.iter().map(|bytes| Some(&bytes[..])).collect();
        if self.level != Level::Raid0 {
            assert_eq!(layout.disagreeing_rows(&data), [0; 0], "{when}, {:?}", self.level);
        }
    }

    fn data_of(&self, member: &Arc<dyn Device>, len: usize) -> Vec<u8> {
        let examined = member.clone();
        let examined = self.world.run(async move { stripewise_engine::examine(examined).await }).unwrap();
        let offset = examined.superblock.data_offset_sectors * 512;
        let read = member.read(offset, smallvec::smallvec![IoBuf::with_len(len)]);
        self.world.run(read).into_one().unwrap().to_vec()
    }
}

const LEVELS: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6];

/// Data bytes that each member was written.
fn written_bytes(rig: &Rig) -> Vec<u64> {
    let array = rig.array.clone();
    let report = rig.world.run(async move { array.report().await });
    report.members.iter().map(|member| member.stats.written_bytes).collect()
}

#[test]
fn members_that_refuse_zero_writes_get_zeroes_written() {
    let all = |_| true;
    let some = |i| i % 3 == 1;
    let whichs: [fn(usize) -> bool; 2] = [all, some];
    for (level, refuses) in LEVELS.into_iter().flat_map(|level| whichs.map(|refuses| (level, refuses))) {
        let mut rig = rig(level, 4, 16384, refuses);
        let stripe = rig.array.geometry().stripe_bytes() as usize;
        // A whole stripe; two and parts on either side; parts alone.
        let before = written_bytes(&rig);
        rig.zero(stripe, stripe);
        let (after, chunk_bytes) =
            (written_bytes(&rig), rig.array.geometry().chunk_len(StripeIndex(1)) as u64);
        for index in (0..after.len()).filter(|index| refuses(*index)) {
            assert_eq!(after[index] - before[index], chunk_bytes, "what was refused is not counted as well");
        }
        rig.zero(3 * stripe - 512, 2 * stripe + 4096);
        rig.zero(6 * stripe + 512, 1024);
        let array = rig.array.clone();
        let device = array.device().always_discarding();
        rig.world.run(async move { device.discard(6 * stripe as u64, stripe as u64).await }).unwrap();
        rig.content[6 * stripe..7 * stripe].fill(0);
        rig.check("a discard");
    }
}

/// Whatever is no whole stripe is written as plain zeroes, a MiB at a time.
#[test]
fn more_than_a_mebibyte_of_a_stripe_is_zeroed_where_it_lies() {
    let level5 = Level::Raid5;
    for (level, members) in [(level5, 5), (Level::Raid6, 6), (Level::Raid4, 5)] {
        let mut rig = rig(level, members, 1 << 20, |_| false);
        let stripe = rig.array.geometry().stripe_bytes() as usize;
        assert_eq!(stripe, 4 << 20);
        // Three MiB and a half of one stripe, not beginning at a MiB; the tail of one stripe and the head of
        // the next.
        rig.zero(4096 + 512, (3 << 20) + (1 << 19));
        rig.zero(stripe - (1 << 20), (1 << 20) + (5 << 19));
    }
}
