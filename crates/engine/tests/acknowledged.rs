//! While a failure is being written down, no write that passes over the failed member is acknowledged: were
//! power to fail then, that member would come back as current, without the write.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{DATA_OFFSET, faulty::write_error};
use parking_lot::Mutex;
use stripewise_device::{
    Completion, Device, DeviceInfo, EnvHandle, IoBuf, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags,
    ZeroFlags,
    memory::MemoryDevice,
    wrap::{Fault, Faults},
};
use stripewise_engine::{
    Array, ArrayError, CreateOptions,
    geometry::{Geometry, Level, StripeIndex},
    locking::{PRESETS, Preset},
};
use stripewise_format::md::{Role, Superblock};
use stripewise_sim::World;

/// A write of metadata takes so long: everything else is over by then.
const METADATA_WRITE: Duration = Duration::from_millis(20);
const CHUNK: u64 = 16384;
const MEMBERS: usize = 5;
/// The one that fails.
const LOST: usize = 1;

/// A member whose superblocks and headers are slow to write.
struct SlowMetadata {
    inner: Arc<dyn Device>,
    env: EnvHandle,
}

impl Device for SlowMetadata {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.inner.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        if offset_bytes >= DATA_OFFSET {
            return self.inner.write(offset_bytes, from, flags);
        }
        let (inner, sleep) = (self.inner.clone(), self.env.sleep(METADATA_WRITE));
        IoFuture::boxed(async move {
            sleep.await;
            inner.write(offset_bytes, from, flags).await
        })
    }

    fn flush(&self) -> Completion {
        self.inner.flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.inner.write_zeroes(offset_bytes, len_bytes, flags)
    }
}

struct Rig {
    world: World,
    array: Array,
    members: Vec<Arc<dyn Device>>,
    faults: Arc<Faults>,
    content: Vec<u8>,
}

/// A full array that is marked as written to, of members that are done at once or later.
fn rig(level: Level, at_once: bool, preset: &'static Preset) -> Rig {
    let mut world = World::new(1);
    let env = world.env();
    let mut lost = None;
    let members: Vec<Arc<dyn Device>> = (0..MEMBERS)
        .map(|i| {
            let (name, size) = (format!("m{i}"), DATA_OFFSET + (1 << 20));
            let inner: Arc<dyn Device> = match at_once {
                true => Arc::new(MemoryDevice::new(name, size)),
                false => world.add_member(name, size),
            };
            let (faulty, faults) = Fault::new(inner);
            if i == LOST {
                lost = Some(faults);
            }
            Arc::new(SlowMetadata { inner: Arc::new(faulty), env: env.clone() }) as Arc<dyn Device>
        })
        .collect();
    let mut options = CreateOptions::new("sim:acknowledged", level, members.clone());
    options.chunk_bytes = CHUNK as u32;
    options.assume_clean = true;
    options.preset = preset;
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    let mut rig = Rig { world, array, members, faults: lost.unwrap(), content: Vec::new() };
    rig.content = vec![7; rig.array.geometry().capacity_bytes() as usize];
    let (array, data) = (rig.array.clone(), IoBuf::copy_of(&rig.content).freeze());
    rig.world.run(async move { array.write(0, data, WriteFlags::default()).await }).unwrap();
    rig
}

impl Rig {
    /// The survivors whose superblock on the medium calls the lost member faulty.
    fn knowing(&self) -> usize {
        let survivors = (0..MEMBERS).filter(|member| *member != LOST);
        let knows = |member: &usize| {
            let read = self.members[*member].read(4096, smallvec::smallvec![IoBuf::with_len(4096)]);
            let block = self.world.run(read).into_one().unwrap();
            let superblock = Superblock::decode(&block, 8).unwrap();
            superblock.roles.of(LOST as u32) == Some(Role::Faulty)
        };
        survivors.filter(knows).count()
    }

    fn start(&self, request: Request) -> Slot {
        let Request { offset, len, zeroes } = request;
        let array = self.array.clone();
        if zeroes {
            return self.world.start(array.write_zeroes(offset, len, ZeroFlags::default()));
        }
        let data = IoBuf::copy_of(&vec![9; len as usize]).freeze();
        self.world.start(array.write(offset, data, WriteFlags { fua: true }))
    }
}

/// Where the result of a request will be.
type Slot = Arc<Mutex<Option<Result<(), ArrayError>>>>;

#[derive(Clone, Copy)]
struct Request {
    offset: u64,
    len: u64,
    zeroes: bool,
}

/// A write that the lost member fails, and while that is being written down another one, which begins after
/// it.
fn second_write(rig: &Rig, request: Request, what: &str) {
    rig.faults.add(write_error());
    let first = rig.start(Request { offset: 0, len: rig.array.geometry().stripe_bytes(), zeroes: false });
    // Reads and writes are over, and the failure is known; nothing is written down.
    rig.world.run_for(METADATA_WRITE / 4);
    assert!(first.lock().is_none() && rig.knowing() == 0, "{what}: the failure is being written down");
    let second = rig.start(request);
    rig.world.run_for(METADATA_WRITE / 4);
    assert!(rig.knowing() == 0, "{what}: it still is");
    assert!(second.lock().is_none(), "{what}: acknowledged before the failure was written down");
    while second.lock().is_none() {
        rig.world.run_steps(1);
    }
    assert_eq!(rig.knowing(), MEMBERS - 1, "{what}: every survivor knows when it is acknowledged");
    assert_eq!(second.lock().take(), Some(Ok(())));
    let (array, len) = (rig.array.clone(), request.len as usize);
    let found = rig.world.run(async move { array.read(request.offset, IoBuf::with_len(len)).await }).unwrap();
    let expected = if request.zeroes { 0 } else { 9 };
    assert!(found.iter().all(|byte| *byte == expected), "{what}");
}

/// Requests that write to the lost member, were it there.
fn requests(geometry: &Geometry) -> [(&'static str, Request); 6] {
    let (stripe, chunk) = (geometry.stripe_bytes(), geometry.chunk_bytes() as u64);
    // The first stripe from 2 on in which the lost member has data, and where in that.
    let (index, column) = (2..geometry.stripes())
        .flat_map(|index| (0..geometry.data_columns()).map(move |column| (index, column)))
        .find(|(index, column)| {
            geometry.level() == Level::Raid1 || geometry.member_of(StripeIndex(*index), *column).0 == LOST
        })
        .unwrap();
    let (start, own) = (index * stripe, index * stripe + column as u64 * chunk);
    let write = |offset, len| Request { offset, len, zeroes: false };
    [
        ("a block", write(own + 4096, 4096)),
        ("part of a block", write(own + 512, 1024)),
        ("two columns", write(start, stripe.min(2 * chunk).max(own + 4096 - start))),
        ("a whole stripe", write(start, stripe)),
        ("several stripes", write(start - 4096, 2 * stripe)),
        ("zeroes", Request { offset: start, len: stripe, zeroes: true }),
    ]
}

fn every_second_write(at_once: bool) {
    for level in [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6] {
        for preset in PRESETS {
            for case in 0..6 {
                let rig = rig(level, at_once, preset);
                let (what, request) = requests(&rig.array.geometry())[case];
                let what = format!("{what}, {level:?}, {}, at once: {at_once}", preset.name);
                second_write(&rig, request, &what);
            }
        }
    }
}

#[test]
fn a_second_write_waits_until_the_failure_is_written_down() {
    every_second_write(false);
}

#[test]
fn a_second_write_of_members_done_at_once_waits_too() {
    every_second_write(true);
}
