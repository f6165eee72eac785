//! A cache that fills short gaps between what it destages (MSC-CT).

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{
    DATA_OFFSET, Shape,
    faulty::{Bench, bench, latent_error},
};
use stripewise_device::wrap::TraceEvent;
use stripewise_engine::{
    CacheKind, CacheSettings, StrideLimit, StrideLimits, geometry::Level, plan::selection::policy,
};

const BLOCK: usize = 4096;
const CHUNK: usize = 16 * BLOCK;
const SHAPES: [Shape; 3] = [
    Shape { level: Level::Raid4, members: 4, chunk_bytes: CHUNK as u32 },
    Shape { level: Level::Raid5, members: 4, chunk_bytes: CHUNK as u32 },
    Shape { level: Level::Raid6, members: 5, chunk_bytes: CHUNK as u32 },
];
const STRIPE: usize = 3 * CHUNK;
const FILLED: u8 = 7;
/// Older requests have ended by then, and the bitmap is written.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

/// An array full of one byte, with a cache that fills strides below these.
fn filling(shape: Shape, read: u16, write: u16) -> Bench {
    let bench = bench(3, shape);
    bench.fill(FILLED);
    let settings = CacheSettings {
        age: None,
        idle: None,
        flush_time: None,
        ..CacheSettings::new(CacheKind::StripeCt, 1 << 20)
    };
    let limits =
        StrideLimits { read: Some(StrideLimit::Blocks(read)), write: Some(StrideLimit::Blocks(write)) };
    let (array, env) = (bench.array.clone(), bench.world.env());
    bench.world.run(async move {
        array.set_policy(policy("modified").unwrap()).await.unwrap();
        array.set_cache(settings).await.unwrap();
        array.limit_strides(limits).await.unwrap();
        env.sleep(HOUSEKEEPING).await;
    });
    bench
}

/// Writes every other block of a column of a stripe.
fn dirty(bench: &Bench, stripe: usize) {
    // So that the region is marked already.
    bench.write((stripe * STRIPE) as u64, 1, STRIPE).unwrap();
    bench.write((stripe * STRIPE) as u64, FILLED, STRIPE).unwrap();
    for row in (0..CHUNK / BLOCK).step_by(2) {
        bench.write((stripe * STRIPE + row * BLOCK) as u64, 1, BLOCK).unwrap();
    }
}

/// Flushes. Returns the requests to members for it, by reads and writes.
fn destage(bench: &Bench) -> [usize; 2] {
    bench.logs.iter().for_each(|log| drop(log.take()));
    let array = bench.array.clone();
    bench.world.run(async move { array.flush().await }).unwrap();
    let events: Vec<_> = bench.logs.iter().flat_map(|log| log.take()).collect();
    let count = |is_it: fn(&TraceEvent) -> bool| events.iter().filter(|event| is_it(event)).count();
    [
        count(|event| matches!(event, TraceEvent::Read { .. })),
        count(|event| matches!(event, TraceEvent::Write { .. })),
    ]
}

fn check(bench: &Bench, stripe: usize) {
    for row in 0..CHUNK / BLOCK {
        let expected = if row % 2 == 0 { 1 } else { FILLED };
        let found = bench.read((stripe * STRIPE + row * BLOCK) as u64, BLOCK).unwrap();
        assert_eq!(found, [expected; BLOCK], "row {row}");
    }
}

/// Redundancy agrees with data, as a scrub sees it.
fn check_redundancy(bench: &Bench) {
    let array = bench.array.clone();
    array.start_scrub(false).unwrap();
    bench.world.run(async move { array.wait_for_jobs().await });
    assert_eq!(bench.array.last_scrub().unwrap().mismatched_rows, 0);
}

#[test]
fn gaps_are_read_and_written_with_what_lies_around_them() {
    for shape in SHAPES {
        let parity = shape.members - 3;
        let bench = filling(shape, 1, 1);
        dirty(&bench, 5);
        assert_eq!(destage(&bench), [8 * (1 + parity); 2], "each block by itself");
        let bench = filling(shape, 3, 3);
        dirty(&bench, 5);
        assert_eq!(destage(&bench), [1 + parity; 2], "one read and one write of each member");
        check(&bench, 5);
        check_redundancy(&bench);
        let stats = bench.array.stats().report();
        assert_eq!(
            (stats.blocks_filled, stats.requests_saved),
            (14 * (1 + parity as u64), 14 * (1 + parity as u64))
        );
    }
}

#[test]
fn a_gap_that_cannot_be_read_fails_nothing() {
    let bench = filling(SHAPES[0], 3, 3);
    dirty(&bench, 5);
    let start = bench.array.geometry().chunk_bytes() as u64 * 5;
    let gap = DATA_OFFSET + start + BLOCK as u64;
    bench.faults[0].add(latent_error(gap..gap + BLOCK as u64));
    // Its own blocks are written one by one.
    assert_eq!(destage(&bench)[1], 16);
    assert_eq!(bench.in_sync(), [true; 4]);
    check(&bench, 5);
    check_redundancy(&bench);
}
