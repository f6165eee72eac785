//! Whole rows and blocks of stripes, beside ordinary requests and a model of every byte.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};

use common::{
    DATA_OFFSET, Shape,
    timed::{How, TIMED_BYTES, Timed, WHILE, timed},
};
use fastrand::Rng;
use futures_util::future::join_all;
use smallvec::smallvec;
use stripewise_device::{
    Completion, Device, DeviceInfo, IoBuf, IoFuture, ReadBufs, ReadDone, SharedBuf, WriteBufs, WriteFlags,
    ZeroFlags, memory::MemoryDevice,
};
use stripewise_engine::{
    Array, ArrayError, CacheKind, CacheSettings, CreateOptions, JobOutcome, TraceFilter,
    geometry::{Geometry, Level, StripeIndex},
    locking::PRESETS,
    plan::selection::POLICIES,
};
use stripewise_sim::World;

const BLOCK: usize = 4096;
const CHUNK: usize = 4 * BLOCK;
const ROWS: usize = CHUNK / BLOCK;
/// Stripes that are used.
const STRIPES: u64 = 6;
const LEVELS: [(Level, usize); 5] =
    [(Level::Raid4, 4), (Level::Raid5, 5), (Level::Raid5, 3), (Level::Raid6, 5), (Level::Raid6, 6)];

fn how(level: Level, members: usize, seed: u64, delay: bool) -> How {
    How {
        shape: Shape { level, members, chunk_bytes: CHUNK as u32 },
        preset: &PRESETS[seed as usize % PRESETS.len()],
        policy: level.has_parity().then(|| POLICIES[seed as usize % POLICIES.len()]),
        delay: delay.then_some(WHILE),
    }
}

/// An array, and what it should hold.
struct Modelled {
    timed: Timed,
    geometry: Geometry,
    bytes: Vec<u8>,
    rng: Rng,
}

impl Modelled {
    fn new(how: How, seed: u64) -> Self {
        let timed = timed(how);
        let geometry = timed.array.geometry();
        let bytes = vec![0; (STRIPES * geometry.stripe_bytes()) as usize];
        Self { timed, geometry, bytes, rng: Rng::with_seed(seed) }
    }

    fn array(&self) -> Array {
        self.timed.array.clone()
    }

    fn cache(&self, kind: CacheKind) {
        let array = self.array();
        self.timed
            .world
            .run(async move { array.set_cache(CacheSettings::new(kind, 4 << 20)).await })
            .unwrap();
    }

    fn fail(&self, member: usize) {
        let array = self.array();
        self.timed.world.run(async move { array.fail(&format!("memory{member}")).await }).unwrap();
    }

    fn flush(&self) {
        let array = self.array();
        self.timed.world.run(async move { array.flush().await }).unwrap();
    }

    fn columns(&self) -> usize {
        self.geometry.data_columns()
    }

    /// Where a block lies in the array.
    fn at(&self, stripe: u64, row: usize, column: usize) -> usize {
        stripe as usize * self.geometry.stripe_bytes() as usize + column * CHUNK + row * BLOCK
    }

    /// New content of a block, which the model has from now on. Some blocks are parts of larger buffers.
    fn fresh(&mut self, at: usize) -> SharedBuf {
        let (in_front, mut bytes) = (self.rng.usize(..3) * BLOCK, vec![0; BLOCK]);
        self.rng.fill(&mut bytes);
        self.bytes[at..at + BLOCK].copy_from_slice(&bytes);
        let mut buf = IoBuf::zeroed(in_front + BLOCK + self.rng.usize(..2) * BLOCK);
        buf[in_front..in_front + BLOCK].copy_from_slice(&bytes);
        buf.freeze().slice(in_front..in_front + BLOCK)
    }

    fn some_rows(&mut self) -> std::ops::Range<usize> {
        let first = self.rng.usize(..ROWS);
        first..first + self.rng.usize(1..=ROWS - first)
    }

    fn write_rows(&mut self) {
        let (stripe, rows, columns) = (self.rng.u64(..STRIPES), self.some_rows(), self.columns());
        let places = rows.clone().flat_map(|row| (0..columns).map(move |column| (row, column)));
        let blocks: Vec<_> = places.map(|(row, column)| self.fresh(self.at(stripe, row, column))).collect();
        let array = self.array();
        let written = async move { array.write_rows(StripeIndex(stripe), rows.start, &blocks).await };
        self.timed.world.run(written).unwrap();
    }

    fn write_blocks(&mut self) {
        let stripe = self.rng.u64(..STRIPES);
        let blocks: Vec<_> = (0..self.rng.usize(1..8))
            .map(|_| {
                let (row, column) = (self.rng.usize(..ROWS), self.rng.usize(..self.columns()));
                (row, column, self.fresh(self.at(stripe, row, column)))
            })
            .collect();
        let array = self.array();
        self.timed.world.run(async move { array.write_blocks(StripeIndex(stripe), &blocks).await }).unwrap();
    }

    /// Sectors anywhere.
    fn write(&mut self) {
        let first = self.rng.usize(..self.bytes.len() / 512);
        let count = self.rng.usize(1..40).min(self.bytes.len() / 512 - first);
        let bytes = first * 512..(first + count) * 512;
        let mut rng = self.rng.fork();
        rng.fill(&mut self.bytes[bytes.clone()]);
        let (array, data) = (self.array(), IoBuf::copy_of(&self.bytes[bytes]).freeze());
        let written = async move { array.write(first as u64 * 512, data, WriteFlags::default()).await };
        self.timed.world.run(written).unwrap();
    }

    fn read_rows(&mut self) {
        let (stripe, rows, array) = (self.rng.u64(..STRIPES), self.some_rows(), self.array());
        let wanted = rows.clone();
        let read = self.timed.world.run(async move { array.read_rows(StripeIndex(stripe), wanted).await });
        let (read, columns) = (read.unwrap(), self.columns());
        assert_eq!(read.len(), rows.len() * columns);
        for (index, block) in read.iter().enumerate() {
            let at = self.at(stripe, rows.start + index / columns, index % columns);
            assert!(block[..] == self.bytes[at..at + BLOCK], "stripe {stripe}, block {index} of {rows:?}");
        }
    }

    fn read(&mut self) {
        let first = self.rng.usize(..self.bytes.len() / 512);
        let bytes = first * 512..(first + self.rng.usize(1..40)).min(self.bytes.len() / 512) * 512;
        assert!(read(&self.timed, bytes.start, bytes.len()) == self.bytes[bytes.clone()], "{bytes:?}");
    }

    fn read_without(&mut self) {
        let (stripe, rows, column) =
            (self.rng.u64(..STRIPES), self.some_rows(), self.rng.usize(..self.columns()));
        for (row, block) in rows.clone().zip(without(&self.timed, column, stripe, rows)) {
            let at = self.at(stripe, row, column);
            assert!(block[..] == self.bytes[at..at + BLOCK], "stripe {stripe}, row {row}, column {column}");
        }
    }

    fn any_request(&mut self, may_recover: bool) {
        match self.rng.u8(..12) {
            0..3 => self.write_rows(),
            3..6 => self.write_blocks(),
            6..8 => self.write(),
            8 => self.read(),
            9 => self.flush(),
            10 if may_recover => self.read_without(),
            _ => self.read_rows(),
        }
    }

    fn check_all(&self) {
        assert!(read(&self.timed, 0, self.bytes.len()) == self.bytes);
    }
}

fn read(timed: &Timed, at: usize, len: usize) -> Vec<u8> {
    let array = timed.array.clone();
    timed.world.run(async move { array.read(at as u64, IoBuf::with_len(len)).await }).unwrap().to_vec()
}

fn without(timed: &Timed, column: usize, stripe: u64, rows: std::ops::Range<usize>) -> Vec<IoBuf> {
    let array = timed.array.clone();
    let read = async move { array.read_without(column, StripeIndex(stripe), rows).await };
    let recovered = timed.world.run(read).unwrap();
    assert!(!recovered.is_in_doubt);
    recovered.blocks
}

/// A scrub finds no row whose parity does not agree.
fn assert_sound(array: &Array, world: &World) {
    array.start_scrub(false).unwrap();
    let waiting = array.clone();
    world.run(async move { waiting.wait_for_jobs().await });
    let scrub = array.last_scrub().unwrap();
    assert_eq!((scrub.outcome, scrub.mismatched_rows), (Some(JobOutcome::Done), 0));
}

#[test]
fn requests_of_all_kinds_leave_what_a_model_of_bytes_holds() {
    for (number, (level, members)) in LEVELS.into_iter().enumerate() {
        for seed in 0..6 {
            let mut array =
                Modelled::new(how(level, members, seed, seed % 2 == 0), 100 * number as u64 + seed);
            match seed / 2 {
                0 => {}
                1 => array.cache(CacheKind::Stripe),
                _ => array.cache(CacheKind::Pbg),
            }
            (0..120).for_each(|_| array.any_request(true));
            array.check_all();
            array.flush();
            assert_sound(&array.timed.array, &array.timed.world);
            let tolerance = array.geometry.parity_columns();
            for lost in 0..tolerance {
                array.fail((seed as usize + 2 * lost) % members);
                (0..60).for_each(|_| array.any_request(lost + 1 < tolerance));
                array.check_all();
            }
            array.flush();
            array.check_all();
        }
    }
}

#[test]
fn levels_without_parity_take_rows_and_blocks_too() {
    for (level, members) in [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid1, 3)] {
        for seed in 0..2 {
            let mut array = Modelled::new(how(level, members, seed, seed == 0), seed);
            (0..80).for_each(|_| match array.rng.u8(..4) {
                0 => array.write_rows(),
                1 => array.write_blocks(),
                2 => array.write(),
                _ => array.read_rows(),
            });
            array.check_all();
            if level == Level::Raid1 {
                assert_sound(&array.timed.array, &array.timed.world);
            }
        }
    }
}

/// A member that notes where the data of its writes lies in memory, and counts its reads.
struct Noting {
    inner: MemoryDevice,
    log: Arc<Mutex<Vec<usize>>>,
    reads: Arc<Mutex<usize>>,
}

impl Device for Noting {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        *self.reads.lock().unwrap() += 1;
        self.inner.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.log.lock().unwrap().extend(from.iter().map(|buf| buf.as_ptr() as usize));
        self.inner.write(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        self.inner.flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.inner.write_zeroes(offset_bytes, len_bytes, flags)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.inner.discard(offset_bytes, len_bytes)
    }
}

#[test]
fn whole_rows_are_written_without_a_read_and_without_a_copy() {
    for (level, members) in LEVELS {
        for cached in [false, true] {
            let world = World::new(1);
            let (log, reads) = (Arc::default(), Arc::default());
            let member = |i| {
                let inner = MemoryDevice::new(format!("m{i}"), TIMED_BYTES);
                Arc::new(Noting { inner, log: Arc::clone(&log), reads: Arc::clone(&reads) })
                    as Arc<dyn Device>
            };
            let mut options = CreateOptions::new("rows", level, (0..members).map(member).collect());
            options.chunk_bytes = CHUNK as u32;
            options.assume_clean = true;
            let env = world.env();
            let array = world.run(async move { Array::create(env, options).await }).unwrap();
            if cached {
                let array = array.clone();
                let settings = CacheSettings::new(CacheKind::Stripe, 4 << 20);
                world.run(async move { array.set_cache(settings).await }).unwrap();
            }
            let columns = array.geometry().data_columns();
            let blocks: Vec<_> =
                (0..2 * columns as u8).map(|i| IoBuf::copy_of(&[i; BLOCK]).freeze()).collect();
            let written: Vec<_> = blocks.iter().map(|block| block.as_ptr() as usize).collect();
            // The first write to a region marks it.
            for round in 0..2 {
                log.lock().unwrap().clear();
                *reads.lock().unwrap() = 0;
                let (array, blocks) = (array.clone(), blocks.clone());
                world.run(async move { array.write_rows(StripeIndex(2), 1, &blocks).await }).unwrap();
                assert_eq!(*reads.lock().unwrap(), 0, "{level:?}");
                let log = log.lock().unwrap();
                assert!(written.iter().all(|at| log.contains(at)), "{level:?}: something was copied");
                // Each block by itself, and one buffer of each parity column.
                assert!(round == 0 || log.len() == written.len() + members - columns, "{level:?}");
            }
            let reading = array.clone();
            let rows = world.run(async move { reading.read_rows(StripeIndex(2), 1..3).await }).unwrap();
            assert!(rows.iter().zip(0u8..).all(|(block, i)| block[..] == [i; BLOCK]));
            assert_eq!(*reads.lock().unwrap(), columns, "one read of each member");
            assert_sound(&array, &world);
        }
    }
}

/// Many blocks of a stripe are planned once.
#[test]
fn blocks_of_a_stripe_are_written_by_one_plan() {
    let mut array = Modelled::new(how(Level::Raid5, 5, 0, false), 1);
    array.timed.array.trace_decisions(TraceFilter::default(), 10);
    let places = [(0, 0), (0, 2), (1, 1), (3, 3)];
    let blocks: Vec<_> =
        places.iter().map(|(row, column)| (*row, *column, array.fresh(array.at(1, *row, *column)))).collect();
    let writing = array.array();
    array.timed.world.run(async move { writing.write_blocks(StripeIndex(1), &blocks).await }).unwrap();
    let decisions = array.timed.array.traced(0).decisions;
    assert_eq!(decisions.len(), 1);
    assert_eq!(
        (decisions[0].stripe, decisions[0].len_bytes, decisions[0].bands.len()),
        (1, 4 * BLOCK as u64, 3)
    );
    array.check_all();
}

/// Writes of the same stripe at the same time, of which each block is of one of them.
#[test]
fn rows_that_are_written_at_the_same_time_keep_their_parity() {
    for (level, members) in LEVELS {
        for cached in [false, true] {
            let mut array = Modelled::new(how(level, members, 3, true), 4);
            if cached {
                array.cache(CacheKind::Stripe);
            }
            for _ in 0..20 {
                let mut writes = Vec::new();
                for value in 0..4u8 {
                    let rows = array.some_rows();
                    let block = IoBuf::copy_of(&[value; BLOCK]).freeze();
                    let blocks = vec![block; rows.len() * array.columns()];
                    let (writing, column) = (array.array(), array.rng.usize(..array.columns()));
                    writes.push(async move {
                        let one = (rows.start, column, blocks[0].clone());
                        writing.write_rows(StripeIndex(0), rows.start, &blocks).await.unwrap();
                        writing.write_blocks(StripeIndex(0), &[one]).await.unwrap();
                    });
                }
                array.timed.world.run(async move { join_all(writes).await });
            }
            array.flush();
            assert_sound(&array.timed.array, &array.timed.world);
        }
    }
}

/// A destage that comes later must not write what the rows have replaced.
#[test]
fn rows_replace_what_the_cache_holds_of_them_and_nothing_else() {
    for (level, members) in LEVELS {
        for kind in [CacheKind::Stripe, CacheKind::Pbg] {
            let mut array = Modelled::new(how(level, members, 2, true), 7);
            array.cache(kind);
            for row in 0..ROWS {
                let block = (row, 0, array.fresh(array.at(0, row, 0)));
                let writing = array.array();
                array
                    .timed
                    .world
                    .run(async move { writing.write_blocks(StripeIndex(0), &[block]).await })
                    .unwrap();
            }
            let dirty = |array: &Modelled| array.timed.array.cache().unwrap().dirty_blocks;
            assert_eq!(dirty(&array), ROWS as u64);
            let blocks: Vec<_> =
                (0..array.columns()).map(|column| array.fresh(array.at(0, 1, column))).collect();
            let writing = array.array();
            array
                .timed
                .world
                .run(async move { writing.write_rows(StripeIndex(0), 1, &blocks).await })
                .unwrap();
            assert_eq!(dirty(&array), ROWS as u64 - 1);
            array.check_all();
            array.flush();
            array.check_all();
            array.cache(CacheKind::None);
            array.check_all();
        }
    }
}

/// The member that holds a column holds something else than was written, and does not say so.
fn rot(array: &Modelled, stripe: u64, row: usize, column: usize) {
    let member = array.geometry.member_of(StripeIndex(stripe), column).0;
    let at = DATA_OFFSET + array.geometry.chunk_start(StripeIndex(stripe)) + (row * BLOCK) as u64;
    let (device, rotten) = (array.timed.members[member].clone(), smallvec![IoBuf::zeroed(BLOCK).freeze()]);
    array.timed.world.run(async move { device.write(at, rotten, WriteFlags::default()).await }).unwrap();
}

#[test]
fn a_block_that_lies_is_recovered_from_the_others_and_healed() {
    let levels = LEVELS.into_iter().chain([(Level::Raid1, 2)]);
    for (level, members) in levels {
        let mut array = Modelled::new(how(level, members, 1, true), 3);
        (0..30).for_each(|_| array.write_rows());
        let (stripe, row, column) = (3, 2, array.columns() - 1);
        let at = array.at(stripe, row, column);
        let whole: Vec<_> =
            (0..array.columns()).map(|column| array.fresh(array.at(stripe, row, column))).collect();
        let writing = array.array();
        let written = async move { writing.write_rows(StripeIndex(stripe), row, &whole).await };
        array.timed.world.run(written).unwrap();
        // Of mirrors, the one that is read in this stripe.
        let believed = if level == Level::Raid1 { stripe as usize % members } else { column };
        rot(&array, stripe, row, believed);
        assert!(read(&array.timed, at, BLOCK) == [0; BLOCK], "the member is believed");
        let good = without(&array.timed, believed, stripe, row..row + 1).remove(0).freeze();
        assert!(good[..] == array.bytes[at..at + BLOCK]);
        let healing = array.array();
        let content = good.clone();
        let healed = async move { healing.heal_block(believed, StripeIndex(stripe), row, content).await };
        assert_eq!(array.timed.world.run(healed), Ok(true));
        array.check_all();
        assert_sound(&array.timed.array, &array.timed.world);
        // What was written since is not overwritten.
        let block = (row, column, array.fresh(at));
        let writing = array.array();
        let late = async move {
            writing.write_blocks(StripeIndex(stripe), &[block]).await?;
            writing.heal_block(believed, StripeIndex(stripe), row, good).await
        };
        assert_eq!(array.timed.world.run(late), Ok(false));
        array.check_all();
    }
}

#[test]
fn what_is_no_row_or_block_of_a_stripe_is_refused() {
    let array = Modelled::new(how(Level::Raid5, 5, 0, false), 1);
    let block = |len: usize| IoBuf::zeroed(len).freeze();
    let stripes = array.geometry.stripes();
    let refused = |result: Result<(), ArrayError>| matches!(result, Err(ArrayError::Blocks { .. }));
    let (asked, world) = (array.array(), &array.timed.world);
    world.run(async move {
        let whole = vec![block(BLOCK); 4];
        assert!(refused(asked.write_rows(StripeIndex(0), 0, &whole[..3]).await), "no whole row");
        assert!(refused(asked.write_rows(StripeIndex(0), ROWS, &whole).await));
        assert!(refused(asked.write_rows(StripeIndex(0), usize::MAX, &whole).await));
        assert!(refused(asked.write_rows(StripeIndex(stripes), 0, &whole).await));
        assert!(refused(asked.write_rows(StripeIndex(0), 0, &vec![block(512); 4]).await));
        assert!(refused(asked.write_blocks(StripeIndex(0), &[(0, 4, block(BLOCK))]).await));
        assert!(refused(asked.write_blocks(StripeIndex(0), &[(ROWS, 0, block(BLOCK))]).await));
        assert!(refused(asked.read_rows(StripeIndex(0), 0..ROWS + 1).await.map(drop)));
        assert!(refused(asked.read_without(4, StripeIndex(0), 0..1).await.map(drop)));
        assert_eq!(asked.write_rows(StripeIndex(0), 0, &[]).await, Ok(()));
        assert!(asked.read_rows(StripeIndex(0), 1..1).await.unwrap().is_empty());
        assert!(asked.read_without(0, StripeIndex(0), 1..1).await.unwrap().blocks.is_empty());
    });
}
