//! Shapes at the edges: members with 4 KiB logical blocks, the smallest and largest chunks, many members, odd
//! sizes.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use fastrand::Rng;
use stripewise_device::{Device, IoBuf, WriteFlags, ZeroFlags, memory::MemoryDevice};
use stripewise_engine::{
    Array, ArrayError, AssembleOptions, CreateError, CreateOptions, assemble, geometry::Level,
};
use stripewise_sim::World;

struct Rig {
    world: World,
    devices: Vec<Arc<dyn Device>>,
}

fn rig(sizes: &[u64], block: u32) -> Rig {
    let device = |(i, size): (usize, &u64)| {
        Arc::new(MemoryDevice::with_block_bytes(format!("m{i}"), *size, block)) as Arc<dyn Device>
    };
    Rig { world: World::new(1), devices: sizes.iter().enumerate().map(device).collect() }
}

impl Rig {
    fn create(&self, level: Level, chunk_bytes: u32) -> Result<Array, CreateError> {
        let mut options = CreateOptions::new("shapes", level, self.devices.clone());
        options.chunk_bytes = chunk_bytes;
        options.assume_clean = true;
        let env = self.world.env();
        self.world.run(async move { Array::create(env, options).await })
    }

    /// Random writes and zeroings against a plain copy, a failed member, a restart, and a scrub.
    fn exercise(&self, level: Level, chunk_bytes: u32) {
        let array = self.create(level, chunk_bytes).unwrap();
        let block = u64::from(array.geometry().logical_block_bytes());
        let span = array.geometry().capacity_bytes().min(8 << 20) / block * block;
        let env = self.world.env();
        let devices = self.devices.clone();
        self.world.run(async move {
            let mut rng = Rng::with_seed(7);
            let mut model = vec![0u8; span as usize];
            work(&array, &mut rng, &mut model, block).await;
            if array.geometry().parity_columns() > 0 {
                array.fail("m0").await.unwrap();
                work(&array, &mut rng, &mut model, block).await;
            }
            array.stop().await.unwrap();
            let array = assemble(env, devices, &AssembleOptions::default().run(true)).await.unwrap();
            let found = array.read(0, IoBuf::with_len(span as usize)).await.unwrap();
            assert!(found[..] == model[..]);
            // The tail of the array, where chunks may be short.
            let capacity = array.geometry().capacity_bytes();
            let tail = IoBuf::copy_of(&vec![9; (3 * block) as usize]).freeze();
            array.write(capacity - 3 * block, tail, WriteFlags { fua: true }).await.unwrap();
            let found =
                array.read(capacity - 3 * block, IoBuf::with_len((3 * block) as usize)).await.unwrap();
            assert!(found.iter().all(|b| *b == 9));
            let beyond = array.read(capacity - block, IoBuf::with_len((2 * block) as usize)).await;
            assert!(matches!(beyond, Err(ArrayError::Range { .. })));
            array.stop().await.unwrap();
        });
    }
}

async fn work(array: &Array, rng: &mut Rng, model: &mut [u8], block: u64) {
    let blocks = model.len() as u64 / block;
    for _ in 0..60 {
        let len = rng.u64(1..=(300_000 / block).min(blocks));
        let at = rng.u64(..=blocks - len);
        let (start, bytes) = ((at * block) as usize, (len * block) as usize);
        let byte = rng.u8(1..);
        if rng.u8(..5) == 0 {
            model[start..start + bytes].fill(0);
            array
                .write_zeroes(at * block, len * block, ZeroFlags { may_unmap: true, ..ZeroFlags::default() })
                .await
                .unwrap();
        } else {
            model[start..start + bytes].fill(byte);
            let data = IoBuf::copy_of(&vec![byte; bytes]).freeze();
            array.write(at * block, data, WriteFlags::default()).await.unwrap();
        }
        let found = array.read(at * block, IoBuf::with_len(bytes)).await.unwrap();
        assert!(found[..] == model[start..start + bytes]);
    }
}

const LEVELS: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6];

#[test]
fn members_with_4_kib_logical_blocks() {
    for level in LEVELS {
        rig(&[6 << 20; 4], 4096).exercise(level, 16384);
    }
}

#[test]
fn the_smallest_and_the_largest_chunk() {
    for level in LEVELS {
        rig(&[6 << 20; 4], 512).exercise(level, 4096);
        rig(&[6 << 20; 4], 512).exercise(level, 1 << 20);
    }
}

#[test]
fn members_of_different_and_odd_sizes_give_what_the_smallest_has() {
    for level in LEVELS {
        let sizes = [(6 << 20) + 512 * 7, (7 << 20) + 512, (6 << 20) + 512 * 11, 9 << 20];
        let rig = rig(&sizes, 512);
        rig.exercise(level, 65_536);
    }
}

#[test]
fn many_members() {
    rig(&[3 << 20; 40], 512).exercise(Level::Raid6, 8192);
    rig(&[3 << 20; 130], 512).exercise(Level::Raid5, 4096);
}

#[test]
fn too_few_members_and_too_little_room_are_refused() {
    let few = rig(&[6 << 20; 3], 512).create(Level::Raid6, 65_536);
    assert!(matches!(few, Err(CreateError::Geometry(_))));
    let small = rig(&[1 << 20; 3], 512).create(Level::Raid5, 65_536);
    assert!(small.is_err());
}
