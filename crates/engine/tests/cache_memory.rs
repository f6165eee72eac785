//! What the cache takes memory for: blocks or whole stripes, and what is read ahead.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{
    Shape,
    faulty::{Bench, bench},
};
use stripewise_engine::{
    CacheAlloc, CacheKind, CacheReport, CacheSettings, DestageReason, ReadCache, geometry::Level,
};

const BLOCK: usize = 4096;
const CHUNK: usize = 16384;
const SHAPE: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: CHUNK as u32 };
const STRIPE: usize = 3 * CHUNK;
const HOUSEKEEPING: Duration = Duration::from_secs(10);

fn use_cache(bench: &Bench, settings: CacheSettings) {
    let array = bench.array.clone();
    bench.world.run(async move { array.set_cache(settings).await }).unwrap();
    // It keeps nothing clean until requests that began before have ended.
    let env = bench.world.env();
    bench.world.run(async move { env.sleep(HOUSEKEEPING).await });
}

fn settings(kind: CacheKind, size_bytes: usize) -> CacheSettings {
    CacheSettings { age: None, idle: None, flush_time: None, ..CacheSettings::new(kind, size_bytes as u64) }
}

fn report(bench: &Bench) -> CacheReport {
    bench.array.cache().unwrap()
}

#[test]
fn a_stripe_takes_memory_for_all_of_its_blocks_if_that_is_chosen() {
    for (kind, unit) in [(CacheKind::Stripe, STRIPE), (CacheKind::Pbg, 3 * BLOCK)] {
        for alloc in CacheAlloc::ALL {
            let bench = bench(3, SHAPE);
            use_cache(&bench, CacheSettings { alloc, ..settings(kind, 1 << 20) });
            bench.write(5 * STRIPE as u64, 1, BLOCK).unwrap();
            let per_block = if alloc == CacheAlloc::Stripe { unit } else { BLOCK };
            let first = report(&bench);
            bench.write(6 * STRIPE as u64, 2, BLOCK).unwrap();
            let added = (report(&bench).used_bytes - first.used_bytes) as usize;
            assert!(
                (per_block..per_block * 5 / 4 + 1024).contains(&added),
                "{kind:?} {alloc:?}: {added} bytes"
            );
            // Its other blocks find their memory there.
            bench.write(6 * STRIPE as u64 + CHUNK as u64, 3, BLOCK).unwrap();
            let third = (report(&bench).used_bytes - first.used_bytes) as usize - added;
            assert_eq!(third < BLOCK, alloc == CacheAlloc::Stripe, "{kind:?} {alloc:?}: {third} bytes");
        }
    }
}

/// Scattered blocks fill a cache that takes memory by stripes: writes make room, and nothing is lost.
#[test]
fn scattered_blocks_of_more_stripes_than_there_is_memory_for_are_kept() {
    for kind in [CacheKind::Stripe, CacheKind::Pbg] {
        let bench = bench(4, SHAPE);
        use_cache(&bench, CacheSettings { alloc: CacheAlloc::Stripe, ..settings(kind, 5 * STRIPE) });
        for stripe in 0..20 {
            bench.write(stripe * STRIPE as u64, stripe as u8, BLOCK).unwrap();
            let now = report(&bench);
            assert!(now.used_bytes <= now.size_bytes, "{now:?}");
        }
        for stripe in 0..20 {
            assert_eq!(bench.read(stripe * STRIPE as u64, BLOCK).unwrap(), [stripe as u8; BLOCK]);
        }
    }
}

/// Reads what lies there, block after block. Returns how many reads were hits.
fn read_in_order(bench: &Bench, stripes: usize) -> u64 {
    let before = report(bench).read_hits;
    for at in (0..stripes * STRIPE).step_by(BLOCK) {
        assert_eq!(bench.read(at as u64, BLOCK).unwrap(), [(at / STRIPE) as u8; BLOCK], "at {at}");
    }
    report(bench).read_hits - before
}

#[test]
fn a_sequential_reader_finds_the_next_stripes() {
    const STRIPES: usize = 12;
    for kind in [CacheKind::Stripe, CacheKind::Pbg] {
        let bench = bench(5, SHAPE);
        for stripe in 0..STRIPES {
            bench.write((stripe * STRIPE) as u64, stripe as u8, STRIPE).unwrap();
        }
        use_cache(&bench, settings(kind, 16 * STRIPE));
        let (hits, all) = (read_in_order(&bench, STRIPES), (STRIPES * STRIPE / BLOCK) as u64);
        assert!(hits >= all * 2 / 3, "{hits} of {all}: {:?}", report(&bench));
        let held = report(&bench).clean_blocks as usize * BLOCK;
        assert!(held <= 3 * STRIPE, "a reader leaves {held} bytes behind");
        use_cache(&bench, CacheSettings { read: ReadCache::Written, ..settings(kind, 16 * STRIPE) });
        let before = report(&bench).ahead;
        read_in_order(&bench, STRIPES);
        assert_eq!(report(&bench).ahead, before, "nothing is read ahead any more");
    }
}

/// What was written is not dropped for a reader, and what is dirty is what it reads.
#[test]
fn a_sequential_reader_reads_what_is_dirty() {
    let bench = bench(6, SHAPE);
    use_cache(&bench, settings(CacheKind::Stripe, 4 * STRIPE));
    for stripe in (0..6).rev() {
        for at in (0..STRIPE).step_by(2 * BLOCK) {
            bench.write((stripe * STRIPE + at) as u64, stripe as u8, BLOCK).unwrap();
            bench.write((stripe * STRIPE + at + BLOCK) as u64, stripe as u8, BLOCK).unwrap();
        }
    }
    read_in_order(&bench, 6);
}

/// What members take in a flush limits what may be dirty from then on, though hardly anything else was destaged.
#[test]
fn a_flush_tells_how_fast_members_are() {
    let bench = bench(7, SHAPE);
    let capacity = bench.array.geometry().capacity_bytes();
    let limited =
        CacheSettings { flush_time: Some(Duration::from_secs(1)), ..settings(CacheKind::Stripe, 8 << 20) };
    use_cache(&bench, limited);
    bench.sims.iter().for_each(|sim| sim.set_slowness(1000));
    let unmeasured = report(&bench).dirty_max;
    for round in 1..4 {
        let every_other = (0..capacity).step_by(2 * BLOCK);
        every_other.for_each(|at| bench.write(at, round, BLOCK).unwrap());
        let array = bench.array.clone();
        bench.world.run(async move { array.flush().await }).unwrap();
    }
    let CacheReport { blocks_per_s, dirty_max, destaged, .. } = report(&bench);
    assert!(blocks_per_s > 0 && dirty_max < unmeasured, "{blocks_per_s} blocks a second, {dirty_max} blocks");
    let blocks = |reason: DestageReason| destaged[reason as usize].blocks;
    assert!(blocks(DestageReason::Flush) > 10 * blocks(DestageReason::Mark), "{destaged:?}");
}

/// Of a read that is cached in part only the gaps come from a member, and the read counts once.
#[test]
fn a_read_that_is_cached_in_part_counts_once() {
    let bench = bench(9, SHAPE);
    bench.fill(1);
    use_cache(&bench, settings(CacheKind::Stripe, 1 << 20));
    bench.write(BLOCK as u64, 2, BLOCK).unwrap();
    bench.sims.iter().for_each(|sim| sim.watch_reads());
    let content = bench.read(0, 3 * BLOCK).unwrap();
    assert!(content.chunks(BLOCK).map(|block| block[0]).eq([1, 2, 1]));
    let blocks: usize = bench.sims.iter().map(|sim| sim.watched_reads().count_ones(..)).sum();
    assert_eq!(blocks, 2);
    let CacheReport { read_hits, read_part_hits, read_misses, .. } = report(&bench);
    assert_eq!((read_hits, read_part_hits, read_misses), (0, 1, 0));
}
