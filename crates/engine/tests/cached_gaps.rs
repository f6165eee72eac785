//! A cache that fills short gaps between what it destages (MSC-CT).

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{
    DATA_OFFSET, Shape,
    faulty::{Bench, bench, latent_error, write_error},
};
use futures_util::future::{Either, select};
use stripewise_device::{
    Device, IoBuf, WriteFlags,
    wrap::{Fault, FaultRule, Faults, TraceEvent},
};
use stripewise_engine::{
    Array, CacheKind, CacheSettings, CreateOptions, StrideLimit, StrideLimits,
    geometry::{Level, StripeIndex},
    plan::{passes::GapRule, selection::policy},
};

use stripewise_sim::{
    World,
    model::{DiskOptions, hdd::HddParams},
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
/// A cache whose reserve lets several stripes be destaged at a time.
const LARGE: u64 = 16 << 20;
/// Older requests have ended by then, and the bitmap is written.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

/// An array full of one byte, with a cache that fills strides below these.
fn filling(shape: Shape, read: u16, write: u16) -> Bench {
    filling_with(1 << 20, shape, read, write)
}

/// The same with a cache of so many bytes.
fn filling_with(cache_bytes: u64, shape: Shape, read: u16, write: u16) -> Bench {
    let bench = bench(3, shape);
    bench.fill(FILLED);
    let settings = CacheSettings {
        age: None,
        idle: None,
        flush_time: None,
        ..CacheSettings::new(CacheKind::StripeCt, cache_bytes)
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

/// Blocks of a member that are written when two neighbouring stripes are destaged, of which one has a block near its end there,
/// and the other has one near its beginning.
fn written_across(bench: &Bench) -> Vec<usize> {
    let geometry = bench.array.geometry();
    let (first, second) = (5, 6);
    let member = geometry.member_of(StripeIndex(first as u64), 0);
    // If it has the parity there, any other block does.
    let column = geometry.column_of(StripeIndex(second as u64), member);
    let column = if column < geometry.data_columns() { column } else { 0 };
    for stripe in [first, second] {
        bench.write((stripe * STRIPE) as u64, FILLED, STRIPE).unwrap();
    }
    for (stripe, at) in [(first, 14 * BLOCK), (second, column * CHUNK + 2 * BLOCK)] {
        bench.write((stripe * STRIPE + at) as u64, 1, BLOCK).unwrap();
    }
    bench.logs.iter().for_each(|log| drop(log.take()));
    let array = bench.array.clone();
    bench.world.run(async move { array.flush().await }).unwrap();
    let mut blocks = Vec::new();
    for event in bench.logs[member.0].take() {
        if let TraceEvent::Write { offset_bytes, len_bytes, .. } = event {
            let start = (offset_bytes - DATA_OFFSET) as usize;
            blocks.extend((start..start + len_bytes as usize).step_by(BLOCK).map(|at| at / BLOCK));
        }
    }
    blocks.sort_unstable();
    for (stripe, at) in [(first, 14 * BLOCK), (second, column * CHUNK + 2 * BLOCK)] {
        for around in [at - BLOCK, at, at + BLOCK] {
            let found = bench.read((stripe * STRIPE + around) as u64, BLOCK).unwrap();
            assert_eq!(found, [if around == at { 1 } else { FILLED }; BLOCK]);
        }
    }
    blocks
}

#[test]
fn a_gap_is_filled_across_the_end_of_a_stripe() {
    let rows = CHUNK / BLOCK;
    let ends = [5 * rows + 14, 6 * rows + 2];
    for shape in SHAPES {
        for (limit, is_filled) in [(4, false), (5, true)] {
            let bench = filling_with(LARGE, shape, limit, limit);
            let written = written_across(&bench);
            let expected: Vec<_> = if is_filled { (ends[0]..ends[1] + 1).collect() } else { ends.into() };
            assert_eq!(written, expected, "{:?}, strides below {limit}", shape.level);
            check_redundancy(&bench);
        }
        // The paper's rule is about one stripe.
        let bench = filling_with(LARGE, shape, 5, 5);
        let array = bench.array.clone();
        let settings = CacheSettings { gaps: GapRule::Thresholds, ..array.cache().unwrap().settings };
        bench.world.run(async move { array.set_cache(settings).await }).unwrap();
        assert_eq!(written_across(&bench), ends, "{:?}", shape.level);
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

/// On modelled disks, while clients write where it is measured.
#[test]
fn strides_are_measured_on_an_open_array_beside_its_clients() {
    let mut world = World::new(7);
    let (array, _) = of_disks(&mut world);
    let (load, measured) = (array.clone(), array.clone());
    let whole = array.geometry().capacity_bytes();
    let written = Arc::new(Mutex::new(BTreeMap::new()));
    let noted = written.clone();
    let measured = world.run(async move {
        let clients = async {
            let mut count = 0_u64;
            loop {
                let stripe = (whole / 5 * 2 + count % 1024 * (whole / 5 / 1024)) / STRIPE as u64;
                let at = stripe * STRIPE as u64;
                let data = IoBuf::copy_of(&[count as u8; BLOCK]).freeze();
                // One that has begun may be there, or not.
                noted.lock().unwrap().remove(&at);
                load.write(at, data, WriteFlags::default()).await.unwrap();
                noted.lock().unwrap().insert(at, count as u8);
                count += 1;
            }
        };
        match select(pin!(measured.measure_strides()), pin!(clients)).await {
            Either::Left((result, _)) => result,
            Either::Right((never, _)) => never,
        }
    });
    measured.unwrap();
    let written = std::mem::take(&mut *written.lock().unwrap());
    assert!(written.len() > 40, "{}", written.len());
    for (at, byte) in written {
        let reader = array.clone();
        let found = world.run(async move { reader.read(at, IoBuf::with_len(BLOCK)).await }).unwrap();
        assert!(found.iter().all(|found| *found == byte), "at {at}");
    }
    let report = array.clone();
    let members = world.run(async move { report.report().await }).members;
    for member in members {
        let strides = member.strides;
        assert!((2..=16).contains(&strides.write.s_max) && strides.read.s_max >= 2, "{strides:?}");
    }
    array.start_scrub(false).unwrap();
    let scrubbed = array.clone();
    world.run(async move { scrubbed.wait_for_jobs().await });
    assert_eq!(array.last_scrub().unwrap().mismatched_rows, 0);
    let mirror = bench(1, Shape { level: Level::Raid1, members: 2, chunk_bytes: 4096 });
    let refused = mirror.array.clone();
    let refused = mirror.world.run(async move { refused.measure_strides().await });
    assert!(refused.unwrap_err().to_string().contains("no cache"));
}

/// Level 5 of modelled disks of 160 MiB; the third may fail writes to its data.
fn of_disks(world: &mut World) -> (Array, Arc<Faults>) {
    let through = HddParams::seagate_cheetah_15k4_73().with_write_cache(false);
    let options = DiskOptions { size_bytes: Some(160 << 20), ..DiskOptions::default() };
    let mut members: Vec<Arc<dyn Device>> = Vec::new();
    for i in 0..4 {
        members.push(world.add_hdd(format!("d{i}"), through.clone(), options));
    }
    let (fault, faults) = Fault::new(members.remove(2));
    members.insert(2, Arc::new(fault));
    let mut create = CreateOptions::new("sim:strides", Level::Raid5, members);
    (create.assume_clean, create.chunk_bytes) = (true, CHUNK as u32);
    let env = world.env();
    (world.run(async move { Array::create(env, create).await }).unwrap(), faults)
}

/// What it was written before may be lost, as after a client's write that fails.
#[test]
fn a_member_that_takes_no_write_of_the_benchmark_fails() {
    let mut world = World::new(8);
    let (array, faults) = of_disks(&mut world);
    faults.add(FaultRule { range_bytes: DATA_OFFSET..u64::MAX, ..write_error() });
    let measured = array.clone();
    let unmeasured = world.run(async move { measured.measure_strides().await }).unwrap();
    assert_eq!(unmeasured.len(), 1, "{unmeasured:?}");
    assert_eq!(unmeasured[0].0, "d2");
    let report = array.clone();
    assert_eq!(world.run(async move { report.report().await }).in_sync, [true, true, false, true]);
}

/// A rebuild keeps the rows of its batches until those before them are filled, and clients write in between.
#[test]
fn strides_are_measured_beside_a_rebuild_and_clients() {
    for seed in 0..4 {
        let mut world = World::new(seed);
        let (array, _) = of_disks(&mut world);
        let through = HddParams::seagate_cheetah_15k4_73();
        let spare = world.add_hdd(
            "spare",
            through,
            DiskOptions { size_bytes: Some(160 << 20), ..DiskOptions::default() },
        );
        let (load, measured) = (array.clone(), array.clone());
        let ended = world.run(async move {
            measured.fail("d1").await.unwrap();
            measured.add(spare).await.unwrap();
            let clients = async {
                let middle = load.geometry().capacity_bytes() / 5 * 2 / BLOCK as u64;
                for count in 0_u64.. {
                    let at = (middle + count * 37 % (middle / 2)) * BLOCK as u64;
                    let data = IoBuf::copy_of(&[count as u8; BLOCK]).freeze();
                    load.write(at, data, WriteFlags::default()).await.unwrap();
                }
            };
            match select(pin!(measured.measure_strides()), pin!(clients)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(((), _)) => unreachable!("clients go on"),
            }
        });
        assert!(ended.unwrap().is_empty(), "seed {seed}");
        let waits = array.clone();
        world.run(async move { waits.wait_for_jobs().await });
        let report = array.clone();
        assert_eq!(world.run(async move { report.report().await }).in_sync, [true; 4]);
    }
}
