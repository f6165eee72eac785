//! Modelled disks as devices, alone and under the engine, with loads.

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join};
use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, IoErrorKind, Timestamp, WriteFlags, ZeroFlags};
use stripewise_engine::{Array, CreateOptions, geometry::Level};
use stripewise_load::{Control, Load, LoadReport, Offsets, Sizes, Stop, Trace, replay, run_controlled};
use stripewise_sim::{
    World,
    model::{
        Contents, DiskOptions, ModelledDisk,
        hdd::HddParams,
        ssd::{Ssd, SsdParams},
    },
};

fn world(seed: u64, options: DiskOptions) -> (World, Arc<ModelledDisk>) {
    let mut world = World::new(seed);
    let disk = world.add_hdd("disk", HddParams::wd_caviar_black_640(), options);
    (world, disk)
}

fn run(world: &World, device: Arc<dyn Device>, load: Load) -> LoadReport {
    let env = world.env();
    world.run(async move { stripewise_load::run(env, device, load).await })
}

#[test]
fn a_seeded_load_is_the_same_in_every_world() {
    let bytes = |world_seed: u64, seed: u64| {
        let (world, disk) = world(world_seed, DiskOptions::default());
        let sizes = Sizes::Range { from: 4096, to: 65_536, step: 4096 };
        let load = Load { sizes, stop: Stop::Requests(50), seed: Some(seed), ..Load::default() };
        let (env, control) = (world.env(), Arc::new(Control::until_error()));
        let seen = control.clone();
        let report = world.run(async move { run_controlled(env, disk, load, control).await });
        assert_eq!(seen.done_bytes(), report.writes.bytes);
        report.writes.bytes
    };
    assert_eq!(bytes(1, 7), bytes(2, 7));
    assert_ne!(bytes(1, 7), bytes(1, 8));
}

#[test]
fn what_a_seeded_load_writes_is_the_same_in_every_world() {
    let content = |world_seed: u64, seed: u64| {
        let (world, disk) = world(world_seed, DiskOptions::default());
        let offsets = Offsets::Sequential;
        let load = Load { offsets, stop: Stop::Requests(8), seed: Some(seed), ..Load::default() };
        run(&world, disk.clone(), load);
        let found = world.run(async move { disk.read(0, smallvec![IoBuf::with_len(8 * 4096)]).await });
        found.into_one().unwrap().to_vec()
    };
    assert!(content(1, 7) == content(2, 7));
    assert!(content(1, 7) != content(1, 8));
}

#[test]
fn a_load_ends_when_it_is_told_to() {
    let (world, disk) = world(1, DiskOptions::default());
    let load = Load { depth: 4, stop: Stop::Time(Duration::from_secs(3600)), ..Load::default() };
    let (env, control) = (world.env(), Arc::new(Control::default()));
    let (clock, seen) = (world.env(), control.clone());
    world.env().spawn(Box::pin(async move {
        clock.sleep(Duration::from_secs(1)).await;
        seen.end();
    }));
    let report = world.run(async move { run_controlled(env, disk, load, control).await });
    assert!((1.0..1.2).contains(&report.elapsed.as_secs_f64()), "{:?}", report.elapsed);
}

#[test]
fn what_is_written_is_read_back() {
    let (world, disk) = world(1, DiskOptions::default());
    let on = disk.clone();
    world.run(async move {
        let data = IoBuf::copy_of(&[7; 8192]).freeze();
        on.write(1 << 30, smallvec![data.slice(0..4096), data.slice(4096..8192)], WriteFlags::default())
            .await
            .unwrap();
        on.write_zeroes((1 << 30) + 4096, 512, ZeroFlags::default()).await.unwrap();
        let found = on.read((1 << 30) - 512, smallvec![IoBuf::with_len(512), IoBuf::with_len(8192)]).await;
        found.result.unwrap();
        assert!(found.bufs[0][..] == [0; 512] && found.bufs[1][..4096] == [7; 4096]);
        assert!(found.bufs[1][4096..4608] == [0; 512] && found.bufs[1][4608..] == [7; 3584]);
        on.flush().await.unwrap();
    });
    assert!(world.now().0 > 1_000_000, "time has passed");
}

#[test]
fn a_partition_ends_where_it_ends() {
    let (world, disk) = world(1, DiskOptions { size_bytes: Some(12_250_000_896), ..DiskOptions::default() });
    assert_eq!(disk.info().size_bytes, 12_250_000_896);
    let odd = DiskOptions { size_bytes: Some(10_000), logical_block_bytes: 4096, ..DiskOptions::default() };
    assert_eq!(self::world(1, odd).1.info().size_bytes, 8192, "whole blocks");
    let on = disk.clone();
    let error =
        world.run(async move { on.read(12_250_000_896, smallvec![IoBuf::with_len(512)]).await.result });
    assert_eq!(error.unwrap_err().kind, IoErrorKind::Truncated);
    let error = world.run(async move { disk.write(5, smallvec![], WriteFlags::default()).await });
    assert_eq!(error.unwrap_err().kind, IoErrorKind::Refused);
}

#[test]
fn a_dropped_write_is_done_all_the_same() {
    let (world, disk) = world(1, DiskOptions::default());
    let on = disk.clone();
    world.run(async move {
        drop(on.write(0, smallvec![IoBuf::copy_of(&[7; 512]).freeze()], WriteFlags::default()));
        assert!(
            on.read(4096, smallvec![IoBuf::with_len(512)]).now_or_never().is_none(),
            "under way, then dropped"
        );
    });
    world.run_for(Duration::from_secs(1));
    let found = world.run(async move { disk.read(0, smallvec![IoBuf::with_len(512)]).await });
    assert_eq!(found.bufs[0][..], [7; 512]);
}

#[test]
fn power_failures_forget_what_was_under_way() {
    let (world, disk) = world(1, DiskOptions::default());
    let on = disk.clone();
    world.env().spawn(Box::pin(async move {
        let data = IoBuf::copy_of(&[7; 512]).freeze();
        on.write(1 << 20, smallvec![data.clone()], WriteFlags { fua: true }).await.unwrap();
        on.write(1 << 30, smallvec![data], WriteFlags { fua: true }).await.unwrap();
    }));
    while disk.counters().find("writes") != Some(2) {
        world.run_steps(1);
    }
    world.crash();
    let read = |at| {
        let on = disk.clone();
        world.run(async move { on.read(at, smallvec![IoBuf::with_len(512)]).await }).bufs[0][0]
    };
    assert_eq!((read(1 << 20), read(1 << 30)), (7, 0));
}

/// When two equal disks are through with the same reads, each asked for as soon as the one before is done.
fn ends_of_two(seed: u64, reads: &[u64]) -> Vec<[Timestamp; 2]> {
    let mut world = World::new(seed);
    let params = HddParams::wd_caviar_black_640;
    let disks = ["a", "b"].map(|name| world.add_hdd(name, params(), DiskOptions::default()));
    let read = |disk: &Arc<ModelledDisk>, at: u64| {
        let (disk, env) = (disk.clone(), world.env());
        async move {
            disk.read(at, smallvec![IoBuf::with_len(4096)]).await.result.unwrap();
            env.now()
        }
    };
    let of_both = |at: &u64| world.run(join(read(&disks[0], *at), read(&disks[1], *at))).into();
    reads.iter().map(of_both).collect()
}

#[test]
fn equal_disks_of_a_world_do_not_end_at_the_same_nanosecond() {
    let reads: Vec<u64> = (0..50).map(|i| (i * 7919 % 50) << 30).collect();
    let ends = ends_of_two(1, &reads);
    assert!(ends.iter().all(|[a, b]| a != b), "{ends:?}");
    assert_eq!(ends, ends_of_two(1, &reads), "the same seed");
    assert_ne!(ends, ends_of_two(2, &reads));
}

/// The later of two angles that know nothing of one another is 2/3 of a turn away on average; of angles in
/// lockstep, 1/2.
#[test]
fn who_waits_for_two_disks_waits_for_two_angles() {
    let turn_ns = f64::from(HddParams::wd_caviar_black_640().revolution_ns);
    let mut later_turns = 0.0;
    let worlds = 400;
    for seed in 0..worlds {
        let [a, b] = ends_of_two(seed, &[seed << 28])[0];
        later_turns += (a.max(b).0 - a.min(b).0) as f64 / 2.0 / turn_ns;
    }
    // The later one is behind the mean of both by half of the difference: by 1/6 of a turn.
    let behind_mean = later_turns / f64::from(worlds as u32);
    assert!((behind_mean - 1.0 / 6.0).abs() < 0.02, "{behind_mean} of a turn");
}

#[test]
fn loads_are_the_same_for_a_seed() {
    let run_with = |seed| {
        let (world, disk) = world(seed, DiskOptions::default());
        let load = Load {
            clients: 3,
            depth: 4,
            offsets: Offsets::Zipf { theta: 0.99 },
            sizes: Sizes::Weighted(vec![(4096, 3), (65536, 1)]),
            read_percent: 70,
            stop: Stop::Requests(2000),
            ..Load::default()
        };
        let report = run(&world, disk.clone(), load);
        (world.trace_hash(), world.now(), disk.counters(), report.to_string())
    };
    assert_eq!(run_with(1), run_with(1));
    assert_ne!(run_with(1).0, run_with(2).0);
}

#[test]
fn reports_add_up() {
    let (world, disk) = world(1, DiskOptions { contents: Contents::None, ..DiskOptions::default() });
    let load = Load { read_percent: 50, depth: 4, stop: Stop::Requests(500), ..Load::default() };
    let report = run(&world, disk.clone(), load);
    assert_eq!(report.reads.requests + report.writes.requests, 500);
    assert_eq!((report.reads.bytes + report.writes.bytes, report.reads.errors), (500 * 4096, 0));
    assert_eq!(report.elapsed.as_nanos(), u128::from(world.now().0));
    assert!(report.reads.latency_ns.value_at_quantile(0.5) > 1_000_000, "a disk, not memory");

    let thinking = Load {
        think: Duration::from_millis(50),
        stop: Stop::Time(Duration::from_secs(2)),
        ..Load::default()
    };
    let report = run(&world, disk.clone(), thinking);
    assert!((38..=40).contains(&report.writes.requests), "{} in 2 s", report.writes.requests);

    let warm = Load {
        warm_up: Duration::from_secs(1),
        stop: Stop::Time(Duration::from_secs(3)),
        read_percent: 100,
        ..Load::default()
    };
    let report = run(&world, disk, warm);
    assert!((1.9..2.1).contains(&report.elapsed.as_secs_f64()), "{:?}", report.elapsed);
}

#[test]
fn traces_are_replayed_at_their_times() {
    let (world, disk) = world(1, DiskOptions::default());
    let trace: Trace =
        "0 W 0 4096\n1000000 R 1073741824 4096\n1000000 R 2147483648 4096\n2000000 F".parse().unwrap();
    let env = world.env();
    let report = world.run(async move { replay(env, disk, &trace).await });
    assert_eq!((report.reads.requests, report.writes.requests, report.flushes.requests), (2, 1, 1));
    assert!((2.0..2.1).contains(&report.elapsed.as_secs_f64()));
}

/// Level 5, 4+1, on the first 256 MiB of five disks.
fn array(world: &mut World) -> Array {
    let members = (0..5)
        .map(|i| {
            let options = DiskOptions { size_bytes: Some(256 << 20), ..DiskOptions::default() };
            world.add_hdd(format!("disk{i}"), HddParams::wd_caviar_black_640(), options) as Arc<dyn Device>
        })
        .collect();
    let mut options = CreateOptions::new("sim:disks", Level::Raid5, members);
    options.assume_clean = true;
    let env = world.env();
    world.run(async move { Array::create(env, options).await }).unwrap()
}

#[test]
fn the_engine_runs_on_modelled_disks() {
    let mut hashes = Vec::new();
    for _ in 0..2 {
        let mut world = World::new(1);
        let array = array(&mut world);
        let sizes = Sizes::Range { from: 4096, to: 1 << 20, step: 4096 };
        let load = Load { depth: 32, sizes, stop: Stop::Requests(500), ..Load::default() };
        let report = run(&world, Arc::new(array.device()), load);
        assert_eq!((report.writes.requests, report.writes.errors), (500, 0));
        hashes.push(world.trace_hash());
        array.start_scrub(false).unwrap();
        let on = array.clone();
        world.run(async move { on.wait_for_jobs().await });
        let scrub = array.last_scrub().unwrap();
        assert!(scrub.done_stripes == scrub.total_stripes && scrub.mismatched_rows == 0, "{scrub:?}");
    }
    assert_eq!(hashes[0], hashes[1]);
}

/// As fio's jobs: each goes through the whole span, and does as much as one would alone.
#[test]
fn separate_clients_have_a_cursor_and_a_count_each() {
    let written = |separate: bool, stop: Stop| {
        let (world, disk) = world(1, DiskOptions::default());
        let (offsets, span_bytes) = (Offsets::Sequential, Some(64 << 10));
        run(&world, disk, Load { clients: 3, offsets, span_bytes, stop, separate, ..Load::default() })
            .writes
            .requests
    };
    assert_eq!((written(false, Stop::Span), written(true, Stop::Span)), (16, 48));
    let stop = Stop::Requests(10);
    assert_eq!((written(false, stop), written(true, stop)), (10, 30));
}

#[test]
fn close_writes_are_slower_than_contiguous_ones() {
    // The stride benchmark of msc-ct Fig. 8 on the disk of its Fig. 9(a), as a load.
    let seconds = |stride: u64| {
        let mut world = World::new(1);
        let options = DiskOptions { contents: Contents::None, ..DiskOptions::default() };
        let disk = world.add_hdd("disk", HddParams::seagate_cheetah_15k4_73(), options);
        let load = Load {
            depth: 32,
            offsets: Offsets::Stride { bytes: stride * 4096 },
            span_bytes: Some(64 << 20),
            stop: Stop::Span,
            ..Load::default()
        };
        let report = run(&world, disk, load);
        assert_eq!(report.writes.requests, (16384_u64).div_ceil(stride));
        report.elapsed.as_secs_f64()
    };
    let contiguous = seconds(1);
    assert!(seconds(2) > 2.0 * contiguous && seconds(4) > 1.2 * contiguous);
    assert!(seconds(64) < contiguous);
}

#[test]
fn an_array_of_hard_disks_with_parity_on_an_ssd_runs_twice_the_same() {
    let run_once = |seed| {
        let mut world = World::new(seed);
        let options = DiskOptions { size_bytes: Some(256 << 20), ..DiskOptions::default() };
        let mut members: Vec<Arc<dyn Device>> = Vec::new();
        for i in 0..4 {
            members.push(world.add_hdd(format!("disk{i}"), HddParams::wd_caviar_black_640(), options));
        }
        let parity = world.add_disk("ssd", Ssd::new(SsdParams::intel_x25e_64()), options);
        members.push(parity.clone());
        let mut create = CreateOptions::new("sim:parity", Level::Raid4, members);
        create.assume_clean = true;
        let env = world.env();
        let array = world.run(async move { Array::create(env, create).await }).unwrap();
        let load = Load { depth: 16, stop: Stop::Requests(400), ..Load::default() };
        let report = run(&world, Arc::new(array.device()), load);
        assert_eq!((report.writes.requests, report.writes.errors), (400, 0));
        assert!(parity.counters().find("host_units") >= Some(300), "{}", parity.counters());
        array.start_scrub(false).unwrap();
        let on = array.clone();
        world.run(async move { on.wait_for_jobs().await });
        assert_eq!(array.last_scrub().unwrap().mismatched_rows, 0);
        (world.trace_hash(), parity.counters())
    };
    assert_eq!(run_once(1), run_once(1));
    assert_ne!(run_once(1).0, run_once(2).0);
}

#[test]
#[should_panic(expected = "a load without a cursor has no end")]
fn a_load_that_would_never_end_is_refused() {
    let (world, disk) = world(1, DiskOptions::default());
    run(&world, disk, Load { offsets: Offsets::Uniform, stop: Stop::Span, ..Load::default() });
}
