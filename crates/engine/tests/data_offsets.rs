//! Members whose data begins at different places, as different sizes or another tool's choice make them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, WriteFlags, memory::MemoryDevice};
use stripewise_engine::{Array, AssembleOptions, CreateOptions, assemble, examine, geometry::Level};
use stripewise_sim::{World, check::layout::Layout};

/// Of each member.
const DATA_BYTES: u64 = 1 << 20;
const CHUNK_BYTES: u32 = 16384;
/// Too large for the headroom of a small member: its data begins some MiB later. Most of it is never touched.
const LARGE_BYTES: u64 = 4 << 30;
const SMALL_BYTES: u64 = 3 << 20;

struct Rig {
    world: World,
    level: Level,
    /// By role.
    devices: Vec<Arc<dyn Device>>,
    array: Array,
}

fn memory(name: &str, size_bytes: u64) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(name, size_bytes))
}

impl Rig {
    fn new(level: Level, sizes: &[u64]) -> Self {
        let world = World::new(1);
        let devices: Vec<_> =
            sizes.iter().enumerate().map(|(i, size)| memory(&format!("m{i}"), *size)).collect();
        let mut options = CreateOptions::new("sim:offsets", level, devices.clone());
        options.chunk_bytes = CHUNK_BYTES;
        options.member_bytes = Some(DATA_BYTES);
        options.assume_clean = true;
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        Self { world, level, devices, array }
    }

    fn capacity(&self) -> usize {
        self.array.geometry().capacity_bytes() as usize
    }

    /// Each block of the array gets content of its own.
    fn fill(&self) -> Vec<u8> {
        let content: Vec<u8> = (0..self.capacity())
            .map(|i| ((i / 512) as u32).wrapping_mul(0x9e37_79b1).to_le_bytes()[2])
            .collect();
        let (array, data) = (self.array.clone(), IoBuf::copy_of(&content).freeze());
        self.world.run(async move { array.write(0, data, WriteFlags::default()).await }).unwrap();
        content
    }

    fn read_all(&self) -> Vec<u8> {
        let (array, len) = (self.array.clone(), self.capacity());
        self.world.run(async move { array.read(0, IoBuf::with_len(len)).await }).unwrap().to_vec()
    }

    fn reopen(&mut self) {
        let (array, env, devices) = (self.array.clone(), self.world.env(), self.devices.clone());
        self.array = self.world.run(async move {
            array.stop().await.unwrap();
            assemble(env, devices, &AssembleOptions::default()).await.unwrap()
        });
    }

    /// Where each member's own superblock says that its data begins.
    fn offsets(&self) -> Vec<u64> {
        let of = |device: &Arc<dyn Device>| {
            let device = device.clone();
            let examined = self.world.run(async move { examine(device).await }).unwrap();
            examined.superblock.data_offset_sectors * 512
        };
        self.devices.iter().map(of).collect()
    }

    /// Redundancy agrees, of what lies where the members' superblocks say, by arithmetic that is not the
    /// engine's.
    fn check_redundancy(&self) {
        let read = |(device, offset): (&Arc<dyn Device>, u64)| {
            let read = device.read(offset, smallvec![IoBuf::with_len(DATA_BYTES as usize)]);
            self.world.run(read).into_one().unwrap().to_vec()
        };
        let data: Vec<Vec<u8>> = self.devices.iter().zip(self.offsets()).map(read).collect();
        let layout = Layout {
            level: self.level.number(),
            members: self.devices.len(),
            chunk_bytes: CHUNK_BYTES as usize,
            member_bytes: DATA_BYTES as usize,
        };
        let data: Vec<Option<&[u8]>> = data.iter().map(|bytes| Some(&bytes[..])).collect();
        assert_eq!(layout.disagreeing_rows(&data), [0; 0]);
    }
}

const SIZES: [u64; 4] = [SMALL_BYTES, LARGE_BYTES, SMALL_BYTES, 2 * LARGE_BYTES];
const LEVELS: [Level; 4] = [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6];

#[test]
fn each_member_s_data_is_at_its_own_offset() {
    for level in LEVELS {
        let mut rig = Rig::new(level, &SIZES);
        let offsets = rig.offsets();
        assert!(
            offsets[0] == offsets[2] && offsets[0] < offsets[1] && offsets[1] < offsets[3],
            "{offsets:?}"
        );
        let content = rig.fill();
        rig.check_redundancy();
        rig.reopen();
        assert!(rig.read_all() == content, "{level:?}");
        // And where the last to be opened, and the freshest, is another one.
        rig.devices.rotate_left(1);
        rig.reopen();
        assert!(rig.read_all() == content, "{level:?}");
        rig.devices.rotate_right(1);
        rig.fill();
        rig.check_redundancy();
    }
}

#[test]
fn a_spare_is_filled_at_its_own_offset() {
    for (level, lost) in LEVELS.into_iter().flat_map(|level| [(level, 0), (level, 1)]) {
        let mut rig = Rig::new(level, &SIZES);
        let content = rig.fill();
        // Another offset than that of the member whose role it takes.
        let spare = memory("spare", if SIZES[lost] == SMALL_BYTES { LARGE_BYTES } else { SMALL_BYTES });
        let before = rig.offsets();
        let (array, added) = (rig.array.clone(), spare.clone());
        rig.world.run(async move {
            array.fail(&format!("m{lost}")).await.unwrap();
            array.add(added).await.unwrap();
            array.wait_for_jobs().await;
        });
        rig.devices[lost] = spare;
        assert_ne!(rig.offsets()[lost], before[lost]);
        rig.check_redundancy();
        rig.reopen();
        // What was filled is what is read, with as many of the others lost as the level tolerates without it.
        let others = (0..SIZES.len()).filter(|member| *member != lost);
        let tolerated = if level == Level::Raid1 { 3 } else { rig.array.geometry().parity_columns() };
        for member in others.take(tolerated) {
            let array = rig.array.clone();
            rig.world.run(async move { array.fail(&format!("m{member}")).await }).unwrap();
        }
        assert!(rig.read_all() == content, "{level:?} without m{lost}");
    }
}
