//! One body for every volume: rows, blocks and bytes are the same content, and lie where the shape says.

#![allow(clippy::unwrap_used)]

use std::{ops::Range, sync::Arc};

use fastrand::Rng;
use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, SharedBuf, ZeroFlags, memory::MemoryDevice};
use stripewise_engine::{Array, CacheKind, CacheSettings, CreateOptions, geometry::Level};
use stripewise_rafs::{
    shape::{BLOCK_BYTES, Cell, Order, StripeNo},
    volume::{ArrayVolume, DeviceVolume, Volume},
};
use stripewise_sim::World;

/// Of each member or device.
const BYTES: u64 = 3 << 20;
const STRIPES: u64 = 4;

fn memory(number: usize) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(format!("memory{number}"), BYTES))
}

fn array(world: &World, level: Level, members: usize, cache: CacheKind) -> Array {
    let mut options = CreateOptions::new("volume", level, (0..members).map(memory).collect());
    options.chunk_bytes = 16384;
    options.assume_clean = true;
    let env = world.env();
    let made = async move {
        let array = Array::create(env, options).await.unwrap();
        if cache != CacheKind::None {
            array.set_cache(CacheSettings::new(cache, 4 << 20)).await.unwrap();
        }
        array
    };
    world.run(made)
}

/// What a volume should hold of its first stripes, by block number in the order of columns.
struct Model {
    volume: Arc<dyn Volume>,
    blocks: Vec<u64>,
    next: u64,
    rng: Rng,
}

/// A block that shows a number.
fn shown(number: u64) -> SharedBuf {
    let mut buf = IoBuf::with_len(BLOCK_BYTES);
    buf.as_chunks_mut().0.fill(number.to_le_bytes());
    buf.freeze()
}

fn number(block: &[u8]) -> u64 {
    let numbers = block.as_chunks().0;
    assert!(numbers.iter().all(|number| *number == numbers[0]), "a block is read as a whole");
    u64::from_le_bytes(numbers[0])
}

impl Model {
    fn new(volume: Arc<dyn Volume>) -> Self {
        let blocks = STRIPES * u64::from(volume.geometry().stripe_blocks());
        Self { volume, blocks: vec![0; blocks as usize], next: 0, rng: Rng::with_seed(1) }
    }

    /// Where the model has a cell.
    fn index(&self, stripe: StripeNo, cell: Cell) -> usize {
        let geometry = self.volume.geometry();
        geometry.block(stripe, geometry.slot(Order::Columns, cell)).0 as usize
    }

    fn renew(&mut self, stripe: StripeNo, cell: Cell) -> SharedBuf {
        self.next += 1;
        let index = self.index(stripe, cell);
        self.blocks[index] = self.next;
        shown(self.next)
    }

    fn some_rows(&mut self) -> Range<u32> {
        let first = self.rng.u32(..self.volume.geometry().rows());
        first..self.rng.u32(first..self.volume.geometry().rows()) + 1
    }

    fn cells(&self, rows: Range<u32>) -> Vec<Cell> {
        let columns = self.volume.geometry().data_columns();
        rows.flat_map(|row| (0..columns).map(move |column| Cell { row, column })).collect()
    }

    async fn request(&mut self) {
        let (stripe, rows) = (StripeNo(self.rng.u64(..STRIPES)), self.some_rows());
        let cells = self.cells(rows.clone());
        match self.rng.u8(..5) {
            0 => {
                let blocks: Vec<_> = cells.into_iter().map(|cell| self.renew(stripe, cell)).collect();
                self.volume.write_rows(stripe, rows.start, &blocks).await.unwrap();
            }
            1 => {
                let some = cells.into_iter().filter(|cell| (cell.row + cell.column) % 3 == 0);
                let blocks: Vec<_> = some.map(|cell| (cell, self.renew(stripe, cell))).collect();
                self.volume.write_blocks(stripe, &blocks).await.unwrap();
            }
            2 => {
                let read = self.volume.read_rows(stripe, rows).await.unwrap();
                assert_eq!(read.len(), cells.len());
                for (cell, block) in cells.into_iter().zip(read) {
                    assert_eq!(number(&block), self.blocks[self.index(stripe, cell)], "{stripe:?}, {cell:?}");
                }
            }
            3 => self.volume.flush().await.unwrap(),
            _ => {
                let first = self.rng.usize(..self.blocks.len());
                let count = self.rng.usize(1..=self.blocks.len() - first);
                let bufs = smallvec![IoBuf::with_len(count * BLOCK_BYTES)];
                let read = self.volume.read((first * BLOCK_BYTES) as u64, bufs).await.into_one().unwrap();
                let found: Vec<_> = read.chunks(BLOCK_BYTES).map(number).collect();
                assert_eq!(found, self.blocks[first..first + count]);
            }
        }
    }
}

/// Requests of all kinds; the stripes that are not in the model may be discarded.
fn conforms(world: &World, volume: impl Volume) {
    let stripes = volume.geometry().stripes();
    let mut model = Model::new(Arc::new(volume));
    world.run(async move {
        for _ in 0..200 {
            model.request().await;
        }
        model.volume.discard(StripeNo(STRIPES)..StripeNo(stripes)).await.unwrap();
    });
}

#[test]
fn a_device_is_a_volume() {
    let world = World::new(1);
    conforms(&world, DeviceVolume::new(memory(0), 3, 4).unwrap());
}

#[test]
fn an_array_of_every_level_is_a_volume() {
    let levels =
        [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid4, 5), (Level::Raid5, 5), (Level::Raid6, 5)];
    for (level, members) in levels {
        for cache in [CacheKind::None, CacheKind::Stripe] {
            if cache != CacheKind::None && !level.has_parity() {
                continue;
            }
            let world = World::new(1);
            let array = array(&world, level, members, cache);
            let volume = ArrayVolume::new(array.clone()).unwrap();
            let shape = array.geometry();
            assert_eq!(volume.geometry().data_columns() as usize, shape.data_columns());
            assert_eq!(volume.geometry().rows() as usize * BLOCK_BYTES, shape.chunk_bytes());
            conforms(&world, volume);
            if level.has_parity() {
                let failing = array.clone();
                world.run(async move { failing.fail("memory1").await }).unwrap();
                conforms(&world, zeroed(&world, array));
            }
        }
    }
}

/// The volume of an array that holds nothing.
fn zeroed(world: &World, array: Array) -> ArrayVolume {
    let (zeroing, len_bytes) = (array.clone(), array.geometry().capacity_bytes());
    world.run(async move { zeroing.write_zeroes(0, len_bytes, ZeroFlags::default()).await }).unwrap();
    ArrayVolume::new(array).unwrap()
}
