//! A number of operations over memory members and nothing else, for counting instructions: `operations CASE
//! COUNT`, and over members that move no data with `null` behind that. `operations kernel` says which kernel
//! of parity is chosen here.
//!
//! Runs in the simulated world, whose executor needs no threads and no system calls, as callgrind likes it;
//! the engine and the members are the real ones.

use std::{collections::BTreeSet, sync::Arc};

use fastrand::Rng;
use stripewise_device::{
    Device, IoBuf, WriteFlags,
    memory::{MemoryDevice, NullDevice},
};
use stripewise_engine::{
    Array, CacheAlloc, CacheKind, CacheSettings, CreateOptions, StrideLimit, StrideLimits, geometry::Level,
};
use stripewise_parity::Kernel;
use stripewise_sim::World;

const MEMBER_BYTES: u64 = 64 << 20;
/// More than the metadata takes.
const METADATA_BYTES: u64 = 1 << 20;
const BLOCK: usize = 4096;
/// What the cases of a cache write and read: a part of what it can hold.
const HIT_BYTES: u64 = CACHE_BYTES / 4;
const CACHE_BYTES: u64 = 32 << 20;
/// The cache of scattered writes: of 64 stripes, if memory is by stripes. They go to three times as much, as in msc-ct IV-B.
const SCATTERED_CACHE_BYTES: u64 = 32 << 20;
/// Blocks of a sweep: of the paper's machine, a page cache wrote 180 MiB back where the cache had 512.
const SWEEP_BLOCKS: usize = SCATTERED_CACHE_BYTES as usize / BLOCK * 180 / 512;
/// The chunk of scattered writes, as in msc-ct IV.
const SCATTERED_CHUNK_BYTES: u32 = 128 << 10;
/// S_max of scattered writes: what the stride benchmark finds on the paper's drive.
const STRIDE_MAX: u16 = 4;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().unwrap_or_default();
    if case == "kernel" {
        println!("{}", Kernel::best().name());
        return;
    }
    let count: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let world = World::new(1);
    let is_null = arguments.next().is_some_and(|members| members == "null");
    let member = |i| -> Arc<dyn Device> {
        match is_null {
            true => Arc::new(NullDevice::new(format!("null{i}"), MEMBER_BYTES, METADATA_BYTES)),
            false => Arc::new(MemoryDevice::new(format!("memory{i}"), MEMBER_BYTES)),
        }
    };
    let mut options = CreateOptions::new("operations", Level::Raid5, (0..5).map(member).collect());
    options.assume_clean = true;
    if case.ends_with("-hit") {
        options.cache = Some(CacheSettings::new(CacheKind::Stripe, CACHE_BYTES));
    }
    let scattered = case.strip_prefix("scattered-").and_then(papers_cache);
    let is_scattered = scattered.is_some();
    if is_scattered {
        options.chunk_bytes = SCATTERED_CHUNK_BYTES;
        options.cache = scattered;
    }
    let env = world.env();
    let array =
        world.run(async move { Array::create(env, options).await }).expect("memory members do not fail");
    match case.as_str() {
        "random-write" => world.run(random_writes(array, count)),
        "random-read" => world.run(random_reads(array, count)),
        "full-stripe" => world.run(full_stripes(array, count)),
        "write-hit" => world.run(write_hits(array, count)),
        "read-hit" => world.run(read_hits(array, count)),
        _ if is_scattered => world.run(scattered_writes(array, count)),
        _ => {
            eprintln!(
                "give random-write, random-read, full-stripe, write-hit, read-hit, scattered-pbg, scattered-stripe, \
                 scattered-stripe+ct or scattered-stripe+ct-blocks and a count, or kernel"
            );
        }
    }
}

async fn random_writes(array: Array, count: u64) {
    let blocks = array.geometry().capacity_bytes() / BLOCK as u64;
    let mut rng = Rng::with_seed(1);
    let data = IoBuf::copy_of(&[7; BLOCK]).freeze();
    for _ in 0..count {
        let at = rng.u64(..blocks) * BLOCK as u64;
        array.write(at, data.clone(), WriteFlags::default()).await.expect("memory members do not fail");
    }
}

/// The paper's cache of this kind; the name of one whose memory is by blocks, and not by stripes or rows, ends so.
fn papers_cache(name: &str) -> Option<CacheSettings> {
    let by_blocks = name.strip_suffix("-blocks");
    let is_named = |kind: &CacheKind| *kind != CacheKind::None && kind.name() == by_blocks.unwrap_or(name);
    let kind = CacheKind::ALL.into_iter().find(is_named)?;
    let paper = CacheSettings::as_in_paper(kind, SCATTERED_CACHE_BYTES);
    Some(CacheSettings { alloc: if by_blocks.is_some() { CacheAlloc::Block } else { paper.alloc }, ..paper })
}

/// Writes of a block anywhere in three times what the cache holds, to the end of a flush. They come as a page cache writes them back: each
/// block of a sweep once, in ascending order.
async fn scattered_writes(array: Array, count: u64) {
    let limit = Some(StrideLimit::Blocks(STRIDE_MAX));
    array.limit_strides(StrideLimits { read: limit, write: limit }).await.expect("members keep a limit");
    let blocks = 3 * SCATTERED_CACHE_BYTES / BLOCK as u64;
    let mut rng = Rng::with_seed(1);
    let data = IoBuf::copy_of(&[7; BLOCK]).freeze();
    for first in (0..count).step_by(SWEEP_BLOCKS) {
        let mut sweep = BTreeSet::new();
        while (sweep.len() as u64) < (count - first).min(SWEEP_BLOCKS as u64) {
            sweep.insert(rng.u64(..blocks));
        }
        for block in sweep {
            let at = block * BLOCK as u64;
            array.write(at, data.clone(), WriteFlags::default()).await.expect("memory members do not fail");
        }
    }
    array.flush().await.expect("memory members do not fail");
}

async fn random_reads(array: Array, count: u64) {
    let blocks = array.geometry().capacity_bytes() / BLOCK as u64;
    let mut rng = Rng::with_seed(1);
    let mut buf = IoBuf::with_len(BLOCK);
    for _ in 0..count {
        let at = rng.u64(..blocks) * BLOCK as u64;
        buf = array.read(at, buf).await.expect("memory members do not fail");
    }
}

async fn full_stripes(array: Array, count: u64) {
    let stripe_bytes = array.geometry().stripe_bytes();
    let data = IoBuf::zeroed(stripe_bytes as usize).freeze();
    let stripes = array.geometry().stripes();
    for i in 0..count {
        let at = i % stripes * stripe_bytes;
        array.write(at, data.clone(), WriteFlags::default()).await.expect("memory members do not fail");
    }
}

/// Blocks that are dirty in the cache: all of some stripes but the last of each, so that none is destaged.
async fn cached_blocks(array: &Array) -> Vec<u64> {
    let in_stripe = array.geometry().stripe_bytes() / BLOCK as u64;
    let blocks: Vec<u64> =
        (0..HIT_BYTES / BLOCK as u64).filter(|block| block % in_stripe < in_stripe - 1).collect();
    let data = IoBuf::copy_of(&[7; BLOCK]).freeze();
    for block in &blocks {
        let written = array.write(block * BLOCK as u64, data.clone(), WriteFlags::default()).await;
        written.expect("memory members do not fail");
    }
    blocks
}

async fn write_hits(array: Array, count: u64) {
    let blocks = cached_blocks(&array).await;
    let mut rng = Rng::with_seed(1);
    let data = IoBuf::copy_of(&[7; BLOCK]).freeze();
    for _ in 0..count {
        let at = blocks[rng.usize(..blocks.len())] * BLOCK as u64;
        array.write(at, data.clone(), WriteFlags::default()).await.expect("memory members do not fail");
    }
}

async fn read_hits(array: Array, count: u64) {
    let blocks = cached_blocks(&array).await;
    let mut rng = Rng::with_seed(1);
    let mut buf = IoBuf::with_len(BLOCK);
    for _ in 0..count {
        let at = blocks[rng.usize(..blocks.len())] * BLOCK as u64;
        buf = array.read(at, buf).await.expect("memory members do not fail");
    }
}
