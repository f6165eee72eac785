//! A number of operations over memory members and nothing else, for counting instructions: `operations CASE
//! COUNT`, and over members that move no data with `null` behind that. `operations kernel` says which kernel
//! of parity is chosen here.
//!
//! Runs in the simulated world, whose executor needs no threads and no system calls, as callgrind likes it;
//! the engine and the members are the real ones.

use std::sync::Arc;

use fastrand::Rng;
use stripewise_device::{
    Device, IoBuf, WriteFlags,
    memory::{MemoryDevice, NullDevice},
};
use stripewise_engine::{
    Array, CacheKind, CacheSettings, CreateOptions, StrideLimit, StrideLimits, geometry::Level,
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
/// The cache of scattered writes. They go to three times as much, as in msc-ct IV-B.
const SMALL_CACHE_BYTES: u64 = 4 << 20;
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
    let destaged = case.strip_prefix("scattered-").and_then(kind);
    options.cache =
        options.cache.or(destaged.map(|kind| CacheSettings::as_in_paper(kind, SMALL_CACHE_BYTES)));
    let env = world.env();
    let array =
        world.run(async move { Array::create(env, options).await }).expect("memory members do not fail");
    match case.as_str() {
        "random-write" => world.run(random_writes(array, count)),
        "random-read" => world.run(random_reads(array, count)),
        "full-stripe" => world.run(full_stripes(array, count)),
        "write-hit" => world.run(write_hits(array, count)),
        "read-hit" => world.run(read_hits(array, count)),
        _ if destaged.is_some() => world.run(scattered_writes(array, count)),
        _ => {
            eprintln!(
                "give random-write, random-read, full-stripe, write-hit, read-hit, scattered-pbg, scattered-stripe or \
                 scattered-stripe+ct and a count, or kernel"
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

/// The cache of this name.
fn kind(name: &str) -> Option<CacheKind> {
    CacheKind::ALL.into_iter().find(|kind| *kind != CacheKind::None && kind.name() == name)
}

/// Writes of a block anywhere in three times what the cache holds, to the end of a flush.
async fn scattered_writes(array: Array, count: u64) {
    let limit = Some(StrideLimit::Blocks(STRIDE_MAX));
    array.limit_strides(StrideLimits { read: limit, write: limit }).await.expect("members keep a limit");
    let blocks = 3 * SMALL_CACHE_BYTES / BLOCK as u64;
    let mut rng = Rng::with_seed(1);
    let data = IoBuf::copy_of(&[7; BLOCK]).freeze();
    for _ in 0..count {
        let at = rng.u64(..blocks) * BLOCK as u64;
        array.write(at, data.clone(), WriteFlags::default()).await.expect("memory members do not fail");
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
