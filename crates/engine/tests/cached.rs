//! Arrays with a cache against a model: healthy, degraded, rebuilding, crashed, stopped.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{
    DATA_OFFSET, Lab, SHAPES, Shape,
    faulty::latent_error,
    timed::{How, timed},
};
use std::time::Duration;
use stripewise_device::{Device, IoBuf, WriteFlags};
use stripewise_engine::{
    ArrayError, AssembleOptions, CacheError, CacheKind, CacheSettings, ReadCache,
    destage::{WHAT, WHEN},
    geometry::Level,
    locking::PRESETS,
};

/// Shapes of which the level keeps parity.
fn shapes() -> impl Iterator<Item = Shape> {
    let two = Shape { level: Level::Raid5, members: 2, chunk_bytes: 8192 };
    SHAPES.into_iter().filter(|shape| shape.level.has_parity()).chain([two])
}

/// A cache of a few stripes, as the seed says.
fn cache(seed: u64, lab: &Lab) -> CacheSettings {
    let kind = [CacheKind::Stripe, CacheKind::Pbg, CacheKind::StripeCt][seed as usize % 3];
    let stripes = [2, 3, 8, 1000][(seed / 2) as usize % 4];
    let stripe_bytes = lab.array.geometry().stripe_bytes();
    CacheSettings::new(kind, (stripes * stripe_bytes * 5 / 4 + 16384).min(64 << 20))
}

fn options(seed: u64, lab: &Lab) -> AssembleOptions {
    AssembleOptions::default().cache(cache(seed, lab))
}

/// An array with a cache.
fn cached(seed: u64, shape: Shape) -> Lab {
    let mut lab = Lab::new(seed, shape);
    lab.stop();
    let options = options(seed, &lab);
    println!("{:?}", options.cache);
    lab.assemble_all(options).unwrap();
    lab
}

fn all() -> impl Iterator<Item = (u64, Lab)> {
    shapes().enumerate().flat_map(|(number, shape)| {
        (0..8).map(move |seed| (seed, cached(1000 * number as u64 + seed, shape)))
    })
}

fn fail(lab: &Lab, member: usize) {
    let (array, name) = (lab.array.clone(), lab.members[member].info().name.clone());
    lab.world.run(async move { array.fail(&name).await }).unwrap();
}

#[test]
fn a_healthy_array_keeps_what_is_written_and_its_parity() {
    for (seed, mut lab) in all() {
        lab.run_clients(4, 60);
        lab.check_all();
        lab.flush();
        lab.check_all();
        lab.check_parity(&lab.members);
        lab.run_clients(2, 30);
        lab.stop();
        lab.check_parity(&lab.members);
        lab.assemble_all(options(seed + 1, &lab)).unwrap();
        lab.check_all();
    }
}

#[test]
fn what_was_flushed_survives_a_power_failure() {
    for (seed, mut lab) in all() {
        for _ in 0..4 {
            lab.start_clients(3, 100);
            lab.world.run_steps(lab.world.random(4000));
            lab.crash();
            lab.assemble_all(options(seed + 1, &lab)).unwrap();
            lab.adopt();
        }
        lab.wait_for_jobs();
        lab.check_parity(&lab.members);
    }
}

#[test]
fn every_tolerated_loss_is_survived_under_load() {
    for (_, lab) in all() {
        lab.start_clients(3, 200);
        let mut alive: Vec<usize> = (0..lab.shape.members).collect();
        for _ in 0..lab.array.geometry().parity_columns() {
            lab.world.run_steps(lab.world.random(3000));
            let victim = alive.swap_remove(lab.world.random(alive.len() as u64) as usize);
            fail(&lab, victim);
        }
        lab.run_clients(1, 0);
        lab.pass(5);
        lab.check_all();
        lab.flush();
        lab.check_all();
    }
}

#[test]
fn a_member_is_rebuilt_under_load() {
    for (seed, mut lab) in all() {
        lab.run_clients(3, 30);
        let victim = lab.world.random(lab.members.len() as u64) as usize;
        fail(&lab, victim);
        lab.run_clients(3, 30);
        let spare = lab.world.add_member("spare", common::MEMBER_BYTES);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world.run(async move { array.add(device).await }).unwrap();
        lab.run_clients(3, 60);
        lab.wait_for_jobs();
        lab.check_all();
        lab.members[victim] = spare;
        lab.stop();
        lab.check_parity(&lab.members);
        lab.assemble_all(options(seed + 1, &lab)).unwrap();
        lab.check_all();
    }
}

/// Without a flush, what is dirty reaches the members by itself: after half a minute, or when clients are idle.
#[test]
fn what_is_dirty_is_written_in_time() {
    for (seed, mut lab) in all() {
        lab.run_clients(3, 30);
        lab.pass(40);
        lab.check_parity(&lab.members);
        lab.crash();
        lab.assemble_all(options(seed + 1, &lab)).unwrap();
        lab.adopt();
    }
}

/// Any settings: of none, too.
fn any_settings(seed: u64, lab: &Lab) -> CacheSettings {
    let any = |count: usize| lab.world.random(count as u64) as usize;
    let low_percent = 1 + any(98) as u8;
    let time = || [None, Some(Duration::from_millis(50)), Some(Duration::from_secs(30))][any(3)];
    CacheSettings {
        kind: CacheKind::ALL[any(3)],
        when: WHEN[any(2)],
        what: WHAT[any(3)],
        low_percent,
        high_percent: low_percent + 1,
        age: time(),
        idle: time(),
        flush_time: time(),
        read: ReadCache::ALL[any(2)],
        ..cache(seed, lab)
    }
}

/// Another kind, another size, other policies, or no cache: what is written stays right, and members keep the choice.
#[test]
fn a_cache_is_changed_under_load() {
    for (seed, mut lab) in all() {
        for turn in 0..5 {
            lab.start_clients(3, 60);
            lab.world.run_steps(lab.world.random(2000));
            let (array, settings) = (lab.array.clone(), any_settings(seed + turn, &lab));
            let changed = array.clone();
            lab.world.run(async move { changed.set_cache(settings).await }).unwrap();
            assert_eq!(array.cache_settings(), settings);
            assert_eq!(array.cache().is_some(), settings.kind != CacheKind::None);
            if array.cache().is_none() {
                // Clients end meanwhile.
                lab.pass(5);
                lab.check_parity(&lab.members);
            }
        }
        lab.pass(5);
        lab.check_all();
        let chosen = lab.array.cache_settings();
        lab.stop();
        lab.check_parity(&lab.members);
        lab.assemble_all(AssembleOptions::default()).unwrap();
        assert_eq!(lab.array.cache_settings(), chosen, "as members keep it");
        lab.check_all();
    }
}

/// The array loses more members than it can do without while something is dirty: that can be read still, and is given
/// up only by force.
#[test]
fn what_cannot_be_written_is_lost_only_by_force() {
    let shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
    let bench = common::faulty::bench(1, shape);
    let settings = CacheSettings { age: None, idle: None, ..CacheSettings::new(CacheKind::Stripe, 16 << 20) };
    let array = || bench.array.clone();
    let cached = array();
    bench.world.run(async move { cached.set_cache(settings).await }).unwrap();
    bench.write(4096, 7, 8192).unwrap();
    assert_eq!(bench.array.cache().unwrap().dirty_blocks, 2);
    bench.faults[..2].iter().for_each(|faults| faults.set_gone(true));
    let stopped = array();
    let refused = bench.world.run(async move { stopped.stop().await }).unwrap_err();
    assert!(matches!(&refused, ArrayError::Unwritten { bytes: 8192, .. }), "{refused}");
    assert_eq!(bench.read(4096, 8192).unwrap(), [7; 8192], "what is dirty can be read still");
    let flushed = array();
    for _ in 0..2 {
        let flushed = flushed.clone();
        assert!(
            bench.world.run(async move { flushed.flush().await }).is_err(),
            "a flush fails until it is written"
        );
    }
    let changed = array();
    let other = CacheSettings { age: Some(Duration::from_secs(7)), ..settings };
    assert_eq!(bench.world.run(async move { changed.set_cache(other).await }), Err(ArrayError::Failed));
    let used = bench.array.cache().unwrap().settings;
    assert_eq!([used, bench.array.cache_settings()], [settings; 2], "what no member can keep is not used");
    let forced = array();
    assert_eq!(bench.world.run(async move { forced.stop_by_force().await }), Err(ArrayError::Failed));
}

/// A member is missing, and another one has a bad block: what is dirty in other rows of the stripe is written all the same.
#[test]
fn a_row_that_cannot_be_written_keeps_no_other_in_the_cache() {
    let shape = Shape { level: Level::Raid5, members: 5, chunk_bytes: 16384 };
    for (seed, kind) in [(3, CacheKind::Stripe), (4, CacheKind::StripeCt), (5, CacheKind::Pbg)] {
        let bench = common::faulty::bench(seed, shape);
        bench.fill(1);
        let settings = CacheSettings { age: None, idle: None, ..CacheSettings::new(kind, 16 << 20) };
        let array = || bench.array.clone();
        let cached = array();
        bench.world.run(async move {
            cached.fail("m0").await.unwrap();
            cached.set_cache(settings).await.unwrap();
        });
        let bad = DATA_OFFSET + 4096;
        bench.faults[1].add(latent_error(bad..bad + 512));
        bench.write(16384, 7, 16384).unwrap();
        let flushed = array();
        let flush = bench.world.run(async move { flushed.flush().await });
        assert!(matches!(flush, Err(ArrayError::Unreadable { .. })), "{kind:?}: {flush:?}");
        assert_eq!(bench.array.cache().unwrap().dirty_blocks, 1, "{kind:?}");
        let (durable, data) = (array(), IoBuf::copy_of(&[8; 4096]).freeze());
        let fua = WriteFlags { fua: true };
        bench.world.run(async move { durable.write(16384 + 2 * 4096, data, fua).await }).unwrap();
        let forced = array();
        bench.world.run(async move { forced.stop_by_force().await }).unwrap();
        let opened = bench.assemble(1..5, AssembleOptions::default()).unwrap();
        for (row, byte) in [(0, 7), (2, 8), (3, 7)] {
            let opened = opened.clone();
            let read = async move { opened.read(16384 + row * 4096, IoBuf::with_len(4096)).await };
            assert!(bench.world.run(read).unwrap().iter().all(|one| *one == byte), "{kind:?}, row {row}");
        }
    }
}

/// One block that cannot be written is tried again each second, and all others are destaged when they are old, or clients idle.
#[test]
fn a_stripe_that_cannot_be_written_keeps_no_other_waiting() {
    let shape = Shape { level: Level::Raid5, members: 5, chunk_bytes: 4096 };
    for (age, idle) in [(Some(Duration::from_secs(2)), None), (None, Some(Duration::from_secs(2)))] {
        let bench = common::faulty::bench(6, shape);
        bench.fill(1);
        let settings = CacheSettings { age, idle, ..CacheSettings::new(CacheKind::Stripe, 16 << 20) };
        let cached = bench.array.clone();
        bench.world.run(async move {
            cached.fail("m0").await.unwrap();
            cached.set_cache(settings).await.unwrap();
        });
        bench.faults[1].add(latent_error(DATA_OFFSET..DATA_OFFSET + 512));
        let (geometry, first) = (bench.array.geometry(), 4096);
        let stripes = geometry.capacity_bytes() / geometry.stripe_bytes();
        assert!(stripes > 200, "{stripes}");
        (0..stripes)
            .for_each(|stripe| bench.write(stripe * geometry.stripe_bytes() + first, 7, 4096).unwrap());
        let env = bench.world.env();
        bench.world.run(async move { env.sleep(Duration::from_millis(3500)).await });
        assert_eq!(bench.array.cache().unwrap().dirty_blocks, 1, "{age:?}, {idle:?}");
    }
}

#[test]
fn caches_that_cannot_be_are_refused_and_leave_the_old_one() {
    let (_, lab) = all().next().unwrap();
    let before = lab.array.cache_settings();
    let array = lab.array.clone();
    let set = |settings| {
        let array = array.clone();
        lab.world.run(async move { array.set_cache(settings).await })
    };
    let refused = set(CacheSettings::new(CacheKind::Stripe, 1)).unwrap_err();
    assert!(matches!(refused, ArrayError::Cache(CacheError::Size { .. })), "{refused}");
    let marks = CacheSettings { low_percent: 90, high_percent: 80, ..before };
    assert_eq!(set(marks), Err(ArrayError::Cache(CacheError::Marks { low: 90, high: 80 })));
    assert_eq!(lab.array.cache_settings(), before);
}

/// A region that is to be written again is not cleared in between.
#[test]
fn regions_with_dirty_cells_stay_marked() {
    let shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
    let bench = common::faulty::bench(2, shape);
    let settings = CacheSettings { age: None, idle: None, ..CacheSettings::new(CacheKind::Stripe, 16 << 20) };
    let array = || bench.array.clone();
    let (cached, flushed) = (array(), array());
    bench.world.run(async move { cached.set_cache(settings).await }).unwrap();
    let flush = || {
        let flushed = flushed.clone();
        bench.world.run(async move { flushed.flush().await }).unwrap();
    };
    let marked_after = |seconds| {
        let (array, env) = (array(), bench.world.env());
        let report = bench.world.run(async move {
            env.sleep(Duration::from_secs(seconds)).await;
            array.report().await
        });
        report.bitmap.unwrap().marked
    };
    bench.write(0, 1, 4096).unwrap();
    assert_eq!(marked_after(5), 0, "nothing is announced before it is destaged");
    flush();
    bench.write(0, 2, 4096).unwrap();
    assert_eq!(marked_after(5), 1);
    flush();
    assert_eq!(marked_after(5), 0);
}

/// What the policy of when says about full stripes holds from the first one on, not only after the destager's first rest: on
/// flash they go at once by `lt`, and wait for the marks by `hlm`.
#[test]
fn the_first_full_stripe_is_treated_as_the_policy_of_when_says() {
    let shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
    // Without a pause the destager has perhaps not run before the write.
    for (name, pause_ms, left) in [("lt", 1, 0), ("hlm", 1, 12), ("hlm", 0, 12)] {
        let bench = timed(How { shape, preset: &PRESETS[0], policy: None, delay: None });
        let (array, env) = (bench.array.clone(), bench.world.env());
        let when = WHEN.iter().copied().find(|when| when.name == name).unwrap();
        let dirty = bench.world.run(async move {
            let settings = CacheSettings { when, ..CacheSettings::new(CacheKind::Stripe, 1 << 20) };
            array.set_cache(settings).await.unwrap();
            env.sleep(Duration::from_millis(pause_ms)).await;
            for at in (0..array.geometry().stripe_bytes()).step_by(4096) {
                array.write(at, IoBuf::zeroed(4096).freeze(), WriteFlags::default()).await.unwrap();
            }
            env.sleep(Duration::from_millis(1)).await;
            array.cache().unwrap().dirty_blocks
        });
        assert_eq!(dirty, left, "{name} after {pause_ms} ms");
    }
}

/// A cache is replaced over and over while more writers than it has room for wait for memory.
#[test]
fn a_cache_is_replaced_while_writers_lack_memory() {
    for (seed, lab) in all().filter(|(seed, _)| seed % 8 < 2) {
        lab.start_clients(6, 150);
        for turn in 0..30 {
            lab.world.run_steps(lab.world.random(400));
            let (array, settings) = (lab.array.clone(), cache((seed + turn) % 2, &lab));
            let size_bytes = settings.size_bytes.map(|size| size + 4096 * (turn % 3));
            lab.world
                .run(async move { array.set_cache(CacheSettings { size_bytes, ..settings }).await })
                .unwrap();
        }
        lab.check_all();
        lab.stop();
        lab.check_parity(&lab.members);
    }
}
