//! An array as a device: requests of several buffers, and which parts of it hold nothing.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Lab, SHAPES};
use fastrand::Rng;
use futures_util::FutureExt;
use stripewise_device::{
    Completion, Device, DeviceInfo, Extent, IoBuf, IoError, IoFuture, ReadBufs, ReadDone, WriteBufs,
    WriteFlags, ZeroFlags, memory::MemoryDevice,
};
use stripewise_engine::{Array, CreateOptions, geometry::Level};
use stripewise_sim::World;

/// A length as so many parts of whole sectors.
fn cut(rng: &mut Rng, len: usize, parts: usize) -> Vec<usize> {
    let mut ends: Vec<usize> = (1..parts).map(|_| rng.usize(1..=len / 512) * 512).chain([len]).collect();
    ends.sort_unstable();
    ends.dedup();
    ends.iter().scan(0, |start, end| Some(end - std::mem::replace(start, *end))).collect()
}

/// Bytes that tell their place.
fn content(rng: &mut Rng, len: usize) -> Vec<u8> {
    let base = rng.u32(..);
    (0..len).map(|i| (base ^ (i as u32 / 4)).wrapping_mul(0x9e37_79b1).to_le_bytes()[i % 4]).collect()
}

#[test]
fn requests_of_several_buffers_are_as_those_of_one() {
    for (seed, shape) in (0..).zip(SHAPES) {
        let lab = Lab::new(seed, shape);
        let device = Arc::new(lab.array.device());
        let mut rng = Rng::with_seed(seed);
        let capacity = device.info().size_bytes as usize;
        let mut model = vec![0; capacity];
        for round in 0..60 {
            let len = rng.usize(1..=(200 << 10) / 512) * 512;
            let offset = rng.usize(..=(capacity - len) / 512) * 512;
            let (bytes, parts) = (content(&mut rng, len), 1 + round % 5);
            let mut at = 0;
            let pieces = cut(&mut rng, len, parts).into_iter().map(|part| {
                at += part;
                IoBuf::copy_of(&bytes[at - part..at]).freeze()
            });
            let from: WriteBufs = pieces.collect();
            lab.world.run(device.write(offset as u64, from, WriteFlags::default())).unwrap();
            model[offset..offset + len].copy_from_slice(&bytes);
            // Back in another cut, with something before and behind it.
            let (start, end) = (offset.saturating_sub(8192), (offset + len + 4096).min(capacity));
            let lens = cut(&mut rng, end - start, 1 + (round + 2) % 4);
            let into: ReadBufs = lens.iter().map(|len| IoBuf::with_len(*len)).collect();
            let ReadDone { result, bufs } = lab.world.run(device.read(start as u64, into));
            result.unwrap();
            assert_eq!(
                bufs.iter().map(|buf| buf.len()).collect::<Vec<_>>(),
                lens,
                "buffers come back in order"
            );
            let found: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            assert!(found == model[start..end], "round {round}, {shape:?}");
        }
        assert!(lab.read_all() == model);
        lab.check_parity(&lab.members);
    }
}

/// A member that says where it holds nothing: blocks of zeroes.
struct Sparse(MemoryDevice);

/// The grain in which holes are told.
const BLOCK: u64 = 4096;

impl Device for Sparse {
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

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.0.write_zeroes(offset_bytes, len_bytes, flags)
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        let read = self.0.read(offset_bytes, smallvec::smallvec![IoBuf::with_len(len_bytes as usize)]);
        let bytes = read.now_or_never().expect("memory is done at once").into_one().unwrap();
        let extents = bytes.chunks(BLOCK as usize).map(|block| Extent {
            len_bytes: block.len() as u64,
            is_hole: block.iter().all(|byte| *byte == 0),
        });
        IoFuture::ready(Ok(extents.collect()))
    }
}

struct Thin {
    world: World,
    array: Array,
    model: Vec<u8>,
}

const CHUNK_BYTES: u64 = 16384;

/// An array that holds nothing, but for some blocks.
fn thin(level: Level) -> Thin {
    let world = World::new(1);
    let member = |i| Arc::new(Sparse(MemoryDevice::new(format!("m{i}"), 3 << 20))) as Arc<dyn Device>;
    let mut options = CreateOptions::new("sim:thin", level, (0..4).map(member).collect());
    options.chunk_bytes = CHUNK_BYTES as u32;
    options.assume_clean = true;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    let mut model = vec![0; array.geometry().capacity_bytes() as usize];
    // In chunks of different members, and one whole chunk.
    for (at, blocks) in [(0, 1), (7, 1), (16, 4), (50, 3), (101, 1), (130, 9)] {
        let range = at * BLOCK as usize..(at + blocks) * BLOCK as usize;
        model[range.clone()].fill(at as u8 + 1);
        let (writer, data) = (array.clone(), IoBuf::copy_of(&model[range.clone()]).freeze());
        world
            .run(async move { writer.write(range.start as u64, data, WriteFlags::default()).await })
            .unwrap();
    }
    Thin { world, array, model }
}

impl Thin {
    /// The blocks of the array that are holes, by its own account, with requests of this length.
    fn holes(&self, step: usize) -> Vec<bool> {
        let device = self.array.device();
        let mut holes = Vec::new();
        let mut at = 0;
        while at < self.model.len() {
            let len = step.min(self.model.len() - at) as u64;
            let extents = self.world.run(device.extents(at as u64, len)).unwrap();
            let covered: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
            assert!((1..=len).contains(&covered), "{covered} of {len}");
            for extent in extents {
                holes.extend(std::iter::repeat_n(extent.is_hole, (extent.len_bytes / BLOCK) as usize));
            }
            at += covered as usize;
        }
        holes
    }

    /// No block is called a hole that holds something; returns how many are called holes.
    fn check(&self) -> usize {
        let mut found = Vec::new();
        for step in [BLOCK as usize, 20480, self.model.len()] {
            let holes = self.holes(step);
            assert_eq!(holes.len(), self.model.len() / BLOCK as usize);
            for (block, (is_hole, bytes)) in holes.iter().zip(self.model.chunks(BLOCK as usize)).enumerate() {
                assert!(!is_hole || bytes.iter().all(|byte| *byte == 0), "block {block} is no hole");
            }
            found.push(holes.iter().filter(|is_hole| **is_hole).count());
        }
        assert!(found.iter().all(|count| *count == found[0]), "{found:?}");
        found[0]
    }
}

#[test]
fn what_a_missing_member_held_is_no_hole() {
    for level in [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6] {
        for lost in 0..4 {
            let thin = thin(level);
            let blocks = thin.model.len() / BLOCK as usize;
            let stored =
                thin.model.chunks(BLOCK as usize).filter(|block| block.iter().any(|b| *b != 0)).count();
            assert_eq!(thin.check(), blocks - stored, "with all members every hole is told, {level:?}");
            let array = thin.array.clone();
            thin.world.run(async move { array.fail(&format!("m{lost}")).await }).unwrap();
            let holes = thin.check();
            let only_parity_is_lost = level == Level::Raid4 && lost == 3;
            assert_eq!(holes == blocks - stored, only_parity_is_lost || level == Level::Raid1 && lost != 0);
        }
    }
}
