//! Write selection and members' classes on open arrays: chosen, kept, changed, counted and traced.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use fastrand::Rng;
use stripewise_device::{
    Device, EnvHandle, IoBuf, WriteFlags,
    wrap::{Trace, TraceEvent, TraceLog},
};
use stripewise_engine::{
    AddOptions, Array, AssembleOptions, CacheKind, CacheSettings, CreateOptions, ParityPlace, StrideChoice,
    TraceFilter, advice, assemble,
    geometry::Level,
    plan::{
        Band, Cycle,
        costs::ColumnCosts,
        selection::{POLICIES, Policy, Stripe, WriteSelection, by_counts, policy},
    },
    preview,
};
use stripewise_format::extension::MemberClass;
use stripewise_sim::{
    World,
    model::{
        DiskOptions,
        hdd::HddParams,
        ssd::{Ssd, SsdParams},
    },
};

/// Four hard disks, and a solid-state drive at `ssd_at`, each cut down to 64 MiB.
fn hybrid(world: &mut World, ssd_at: usize) -> Vec<Arc<dyn Device>> {
    let options = DiskOptions { size_bytes: Some(64 << 20), ..DiskOptions::default() };
    (0..5)
        .map(|index| -> Arc<dyn Device> {
            if index == ssd_at {
                world.add_disk("ssd", Ssd::new(SsdParams::intel_x25e_64().scaled(6)), options)
            } else {
                world.add_hdd(format!("hdd{index}"), HddParams::wd_caviar_black_640(), options)
            }
        })
        .collect()
}

fn create(
    world: &World,
    level: Level,
    devices: Vec<Arc<dyn Device>>,
    with: impl Fn(&mut CreateOptions),
) -> Array {
    let mut options = CreateOptions::new("sim:policies", level, devices);
    options.assume_clean = true;
    options.cache = Some(CacheSettings::default());
    with(&mut options);
    let env = world.env();
    world.run(async move { Array::create(env, options).await }).unwrap()
}

fn names_by_role(world: &World, array: &Array) -> Vec<String> {
    let array = array.clone();
    let report = world.run(async move { array.report().await });
    let mut members: Vec<_> = report.members.iter().map(|m| (m.slot.unwrap(), m.name.clone())).collect();
    members.sort();
    members.into_iter().map(|(_, name)| name).collect()
}

fn reopen(world: &World, array: Array, devices: Vec<Arc<dyn Device>>) -> Array {
    let env: EnvHandle = world.env();
    world.run(async move {
        array.stop().await.unwrap();
        assemble(env, devices, &AssembleOptions::default()).await.unwrap()
    })
}

#[test]
fn level_4_gives_its_parity_to_the_flash_unless_told_otherwise() {
    for measure in [false, true] {
        let mut world = World::new(1);
        let devices = hybrid(&mut world, 1);
        let array = create(&world, Level::Raid4, devices.clone(), |options| {
            options.measure = measure;
            options.parity = ParityPlace::Fastest;
        });
        assert_eq!(names_by_role(&world, &array), ["hdd0", "hdd2", "hdd3", "hdd4", "ssd"]);
        let array = reopen(&world, array, devices);
        assert_eq!(names_by_role(&world, &array), ["hdd0", "hdd2", "hdd3", "hdd4", "ssd"]);
        let report = world.run(async move { array.report().await });
        let ssd = report.members.iter().find(|member| member.name == "ssd").unwrap();
        assert_eq!((ssd.class, ssd.times.is_known()), (MemberClass::Ssd, measure));
    }
}

/// What is measured decides, and a level without parity has no cache.
#[test]
fn a_new_array_has_a_cache_if_a_member_was_measured_to_rotate() {
    let ssd = |world: &mut World, index: usize| -> Arc<dyn Device> {
        let options = DiskOptions { size_bytes: Some(64 << 20), ..DiskOptions::default() };
        world.add_disk(format!("ssd{index}"), Ssd::new(SsdParams::intel_x25e_64().scaled(6)), options)
    };
    for (level, measure, ssds, expected) in [
        (Level::Raid5, true, 1, CacheKind::Auto),
        (Level::Raid5, false, 1, CacheKind::None),
        (Level::Raid5, true, 5, CacheKind::None),
        (Level::Raid1, true, 1, CacheKind::None),
    ] {
        let mut world = World::new(14);
        let devices = match ssds {
            1 => hybrid(&mut world, 4),
            _ => (0..5).map(|index| ssd(&mut world, index)).collect(),
        };
        let array = create(&world, level, devices.clone(), |options| {
            (options.cache, options.measure, options.strides) = (None, measure, StrideChoice::Unknown);
        });
        assert_eq!(array.cache_settings().kind, expected, "{level:?}, measured: {measure}, {ssds} of flash");
        let array = reopen(&world, array, devices);
        assert_eq!(array.cache().map(|cache| cache.settings.kind).unwrap_or_default(), expected, "kept");
    }
}

/// Which members a page of the bitmap was written to, if that is all that was written durably.
fn marked(devices: &[Arc<dyn Device>], logs: &[Arc<TraceLog>]) -> Vec<String> {
    let is_durable = |event: &TraceEvent| matches!(event, TraceEvent::Write { fua: true, .. });
    let marked = devices.iter().zip(logs).filter(|(_, log)| log.take().iter().any(is_durable));
    marked.map(|(device, _)| device.info().name.clone()).collect()
}

#[test]
fn the_bitmap_is_on_the_fastest_members() {
    for (measure, expected) in [(false, ["a", "b"]), (true, ["b", "d"])] {
        let mut world = World::new(13);
        let options = DiskOptions { size_bytes: Some(64 << 20), ..DiskOptions::default() };
        let (slow, fast) = (HddParams::wd_caviar_black_640, HddParams::seagate_cheetah_15k4_73);
        let params = [("a", slow()), ("b", fast()), ("c", slow()), ("d", fast()), ("e", slow())];
        let (devices, logs): (Vec<_>, Vec<_>) = params
            .into_iter()
            .map(|(name, params)| {
                let (device, log) = Trace::new(world.add_hdd(name, params, options));
                (Arc::new(device) as Arc<dyn Device>, log)
            })
            .unzip();
        let array = create(&world, Level::Raid5, devices.clone(), |options| {
            (options.measure, options.region_bytes) = (measure, Some(1 << 20));
        });
        let write = |at| {
            let (array, data) = (array.clone(), IoBuf::zeroed(4096).freeze());
            world.run(async move { array.write(at, data, WriteFlags::default()).await }).unwrap();
        };
        // The first write marks the array as dirty, too, on all members.
        write(0);
        logs.iter().for_each(|log| drop(log.take()));
        write(64 << 20);
        assert_eq!(marked(&devices, &logs), expected, "measured: {measure}");
    }
}

/// An array made anew over its old self: what lies on the members says which is which.
#[test]
fn members_that_are_taken_as_they_are_keep_their_places() {
    for (parity, assume_clean, moves) in [
        (ParityPlace::Last, false, false),
        (ParityPlace::Auto, true, false),
        (ParityPlace::Auto, false, true),
    ] {
        let mut world = World::new(2);
        let devices = hybrid(&mut world, 1);
        let array = create(&world, Level::Raid4, devices, |options| {
            (options.parity, options.assume_clean) = (parity, assume_clean);
        });
        let last = if moves { "ssd" } else { "hdd4" };
        assert_eq!(names_by_role(&world, &array).last().unwrap(), last, "{parity:?}, {assume_clean}");
    }
}

#[test]
fn what_an_operator_says_a_member_is_counts_and_is_kept() {
    let mut world = World::new(3);
    let devices = hybrid(&mut world, 4);
    let array = create(&world, Level::Raid4, devices.clone(), |options| {
        options.parity = ParityPlace::Fastest;
        options.classes.insert("hdd2".into(), MemberClass::Ssd);
        options.classes.insert("ssd".into(), MemberClass::Hdd);
    });
    assert_eq!(names_by_role(&world, &array).last().unwrap(), "hdd2");
    let array = reopen(&world, array, devices);
    let report = world.run(async move { array.report().await });
    let class = |name: &str| report.members.iter().find(|m| m.name == name).unwrap().class;
    assert_eq!((class("hdd2"), class("ssd")), (MemberClass::Ssd, MemberClass::Hdd));
}

#[test]
fn a_policy_is_chosen_for_the_members_changed_while_running_and_kept() {
    let mut world = World::new(4);
    let devices = hybrid(&mut world, 4);
    let array = create(&world, Level::Raid4, devices.clone(), |_| ());
    assert_eq!(array.policy().name, "cost", "hard disks are among the members");
    for chosen in POLICIES {
        let changed = array.clone();
        world.run(async move { changed.set_policy(chosen).await }).unwrap();
        assert_eq!(array.policy().name, chosen.name);
    }
    let changed = array.clone();
    world.run(async move { changed.set_policy(policy("modthresh").unwrap()).await }).unwrap();
    let array = reopen(&world, array, devices);
    assert_eq!(array.policy().name, "modthresh");
}

static OWN: Policy = Policy {
    name: "reconstruct",
    summary: "always RCW: parity is never read",
    number: 200,
    make: || Arc::new(Reconstruct),
};

static OWN_POLICIES: &[&Policy] = &[&OWN];

/// A policy of a program that embeds the engine.
#[derive(Debug)]
struct Reconstruct;

impl WriteSelection for Reconstruct {
    fn policy(&self) -> &'static Policy {
        &OWN
    }

    fn choose(&self, _: &Stripe<'_>, _: &dyn ColumnCosts, bands: &mut [Band]) {
        by_counts(bands, |_rmw, _rcw| false);
    }
}

#[test]
fn a_policy_of_ones_own_is_found_again_by_its_number() {
    let mut world = World::new(9);
    let devices = hybrid(&mut world, 4);
    let array = create(&world, Level::Raid5, devices.clone(), |options| options.policy = Some(&OWN));
    assert_eq!(array.policy(), &OWN);
    let assemble_with = |array: Array, options: AssembleOptions| {
        let (env, devices) = (world.env(), devices.clone());
        world.run(async move {
            array.stop().await.unwrap();
            assemble(env, devices, &options).await.unwrap()
        })
    };
    let stranger = assemble_with(array, AssembleOptions::default());
    assert_eq!(stranger.policy().name, "classic", "it is not known here");
    let array = assemble_with(stranger, AssembleOptions::default().policies(OWN_POLICIES));
    assert_eq!(array.policy(), &OWN, "an opening that did not know it has left it on the members");
    let write = array.clone();
    let counts = world.run(async move {
        let data = IoBuf::zeroed(4096).freeze();
        write.write(0, data, WriteFlags::default()).await.unwrap();
        write.stats().report()
    });
    assert_eq!((counts.rows_rmw, counts.rows_rcw), (0, 1));
}

static TAKEN: Policy = Policy {
    name: "taken",
    summary: "has the number of another policy",
    number: 1,
    make: || Arc::new(Reconstruct),
};

#[test]
fn a_policy_of_ones_own_needs_a_number_of_its_own() {
    let mut world = World::new(9);
    let devices = hybrid(&mut world, 4);
    let mut options = CreateOptions::new("sim:policies", Level::Raid5, devices.clone());
    options.policy = Some(&TAKEN);
    let env = world.env();
    let error = world.run(async move { Array::create(env, options).await }).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("give it one from 128 to 255"), "{error}");
    let array = create(&world, Level::Raid5, devices, |_| ());
    let error = world.run(async move { array.set_policy(&TAKEN).await }).unwrap_err();
    assert!(error.to_string().contains("the number 1"), "{error}");
}

#[test]
fn a_class_for_a_device_that_is_no_member_is_refused() {
    let mut world = World::new(9);
    let mut options = CreateOptions::new("sim:policies", Level::Raid5, hybrid(&mut world, 4));
    options.classes.insert("hdd9".into(), MemberClass::Ssd);
    let env = world.env();
    let error = world.run(async move { Array::create(env, options).await }).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("hdd9, which is no member; the members are hdd0, hdd1"), "{error}");
}

/// Power fails anywhere while a policy is being changed, and members keep different ones. From the next
/// change of state on they keep the same: whichever is absent later, the array has one policy.
#[test]
fn a_crash_while_the_policy_changes_leaves_one_policy_after_the_next_opening() {
    for steps in 0..60 {
        let shape = common::Shape { level: Level::Raid5, members: 3, chunk_bytes: 4096 };
        let mut lab = common::Lab::new(steps, shape);
        lab.wait_for_jobs();
        let changed = lab.array.clone();
        let change = async move { _ = changed.set_policy(policy("modified").unwrap()).await };
        lab.world.env().spawn(Box::pin(change));
        lab.world.run_steps(steps);
        lab.crash();
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.stop();
        let only_look = AssembleOptions::default().run(true).read_only(true);
        let kept_by = |two: [usize; 2]| {
            lab.assemble(&two, only_look).unwrap();
            lab.array.policy().name
        };
        let kept = [[1, 2], [0, 2], [0, 1]].map(kept_by);
        assert!(kept.iter().all(|name| *name == kept[0]), "power failed after {steps} steps: {kept:?}");
    }
}

/// raid4s-modthresh 3.2.1: 128 KiB of a 4+1 array with chunks of 64 KiB, counted in rows and on each member.
#[test]
fn the_counters_tell_what_each_policy_did() {
    for (name, rmw, rcw) in [("classic", 0, 16), ("modthresh", 16, 0), ("modified", 16, 0)] {
        let mut world = World::new(5);
        let devices = hybrid(&mut world, 4);
        let array =
            create(&world, Level::Raid4, devices, |options| options.policy = Some(policy(name).unwrap()));
        array.trace_decisions(TraceFilter { chosen_only: true, ..TraceFilter::default() }, 8);
        let written = array.clone();
        let report = world.run(async move {
            let data = |len: usize| IoBuf::copy_of(&vec![7; len]).freeze();
            written.write(0, data(128 << 10), WriteFlags::default()).await.unwrap();
            written.write(256 << 10, data(256 << 10), WriteFlags::default()).await.unwrap();
            written.report().await
        });
        let stats = array.stats().report();
        assert_eq!((stats.rows_rmw, stats.rows_rcw, stats.rows_full), (rmw, rcw, 16), "{name}");
        assert_eq!((stats.stripe_writes, stats.stripe_writes_full), (2, 1));
        let of = |role: usize| report.members.iter().find(|m| m.slot.unwrap().0 == role).unwrap().stats;
        let parity = of(4);
        assert_eq!((parity.blocks_rmw, parity.blocks_rcw, parity.blocks_full), (rmw, rcw, 16), "{name}");
        assert_eq!((parity.stripe_writes, parity.written_bytes), (2, 128 << 10), "{name}");
        assert_eq!(parity.read_bytes, if rmw > 0 { 64 << 10 } else { 0 }, "{name}");
        assert_eq!((of(2).stripe_writes, of(0).stripe_writes), (1, 2), "{name}");
        let traced = array.traced(0);
        assert_eq!(traced.decisions.len(), 1, "the full stripe left no choice");
        let band = traced.decisions[0].bands[0];
        assert_eq!((band.rmw, band.rcw, band.rows.len()), (3, 2, 16));
        assert_eq!(band.cycle, if rmw > 0 { Cycle::Rmw } else { Cycle::Rcw });
        assert_eq!((traced.decisions[0].policy, traced.decisions[0].len_bytes), (name, 128 << 10));
    }
}

/// A member takes ten times as long from some moment on: `cost` learns that while it runs, and goes around
/// it.
#[test]
fn cost_turns_away_from_a_member_that_slows_down() {
    let mut world = World::new(6);
    let members: Vec<_> = (0..5).map(|index| world.add_member(format!("m{index}"), 64 << 20)).collect();
    let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let array =
        create(&world, Level::Raid4, devices, |options| options.policy = Some(policy("cost").unwrap()));
    // The first half of each stripe: RMW reads columns 0, 1 and parity; RCW columns 2 and 3.
    let run = |rounds: u64| {
        let before = array.stats().report();
        let array = array.clone();
        world.run(async move {
            let mut rng = Rng::with_seed(rounds);
            for _ in 0..rounds {
                let offset = rng.u64(..200) * (256 << 10);
                let data = IoBuf::copy_of(&vec![1; 128 << 10]).freeze();
                array.write(offset, data, WriteFlags::default()).await.unwrap();
            }
        });
        before
    };
    let share_rmw = |before: stripewise_engine::StatsReport| {
        let now = array.stats().report();
        let (rmw, rcw) = (now.rows_rmw - before.rows_rmw, now.rows_rcw - before.rows_rcw);
        rmw as f64 / (rmw + rcw) as f64
    };
    run(200);
    members[3].set_slowness(20);
    run(200);
    assert!(share_rmw(run(200)) > 0.9, "RCW would read the slow member");
    members[3].set_slowness(1);
    members[4].set_slowness(20);
    run(300);
    assert!(share_rmw(run(200)) < 0.1, "RMW would read slow parity");
}

/// Bytes written wear a member out whether or not the array is open, and at every level.
#[test]
fn what_was_written_stays_counted() {
    for level in [Level::Raid0, Level::Raid5] {
        let mut world = World::new(7);
        let devices: Vec<_> =
            (0..4).map(|index| world.add_member(format!("m{index}"), 64 << 20) as Arc<dyn Device>).collect();
        let mut array = create(&world, level, devices.clone(), |_| ());
        for round in 1..=3 {
            let written = array.clone();
            world.run(async move {
                let data = IoBuf::copy_of(&vec![1; 16 << 20]).freeze();
                written.write(0, data, WriteFlags::default()).await.unwrap();
            });
            array = reopen(&world, array, devices.clone());
            let reported = array.clone();
            let report = world.run(async move { reported.report().await });
            let written: u64 = report.members.iter().map(|member| member.endurance.written_bytes).sum();
            assert!(written >= round * (16 << 20), "level {level:?}, round {round}: {written}");
        }
    }
}

/// Nothing is selected where there is no parity: what would be a choice without effect is refused.
#[test]
fn levels_without_parity_have_no_policy() {
    let mut world = World::new(9);
    for level in [Level::Raid0, Level::Raid1] {
        let devices: Vec<_> = (0..2)
            .map(|index| world.add_member(format!("{level:?}{index}"), 64 << 20) as Arc<dyn Device>)
            .collect();
        let mut options = CreateOptions::new("sim:policies", level, devices.clone());
        options.policy = Some(policy("modthresh").unwrap());
        let env = world.env();
        let refused = world.run(async move { Array::create(env, options).await }).err().unwrap().to_string();
        assert!(refused.starts_with("policy modthresh") && refused.contains("keeps no parity"), "{refused}");
        let array = create(&world, level, devices, |_| ());
        let refused = world.run(async move { array.set_policy(policy("modthresh").unwrap()).await });
        assert!(refused.unwrap_err().to_string().contains("keeps no parity"));
    }
}

/// What was detected or said can be corrected while the array runs, and stays so.
#[test]
fn a_members_class_is_corrected_and_kept() {
    let mut world = World::new(10);
    let devices = hybrid(&mut world, 4);
    let mut array = create(&world, Level::Raid5, devices.clone(), |_| ());
    let classes = |world: &World, array: &Array| -> Vec<_> {
        let array = array.clone();
        let report = world.run(async move { array.report().await });
        report.members.iter().map(|member| (member.class, member.class_given)).collect()
    };
    assert_eq!(classes(&world, &array)[0], (MemberClass::Hdd, false), "as detected");
    let corrected = array.clone();
    world
        .run(async move {
            corrected.set_class("hdd0", MemberClass::Ssd).await?;
            corrected.set_class("ssd", MemberClass::Hdd).await
        })
        .unwrap();
    let wanted = |found: &[(MemberClass, bool)]| {
        assert_eq!((found[0], found[4]), ((MemberClass::Ssd, true), (MemberClass::Hdd, true)));
    };
    wanted(&classes(&world, &array));
    array = reopen(&world, array, devices);
    wanted(&classes(&world, &array));
    let (adding, spare) = (array.clone(), world.add_member("spare", 64 << 20) as Arc<dyn Device>);
    world
        .run(async move { adding.add_with(spare, AddOptions::default().class(Some(MemberClass::Ssd))).await })
        .unwrap();
    assert_eq!(classes(&world, &array)[5], (MemberClass::Ssd, true), "said when it was added");
    let error = world.run(async move { array.set_class("none", MemberClass::Ssd).await }).unwrap_err();
    assert!(error.to_string().contains("not a member"), "{error}");
}

/// A preview is what a creation comes to, and leaves the members alone.
#[test]
fn a_preview_has_the_places_and_the_advice_of_the_creation() {
    let mut world = World::new(11);
    for (level, parity) in [
        (Level::Raid4, ParityPlace::Fastest),
        (Level::Raid4, ParityPlace::Last),
        (Level::Raid6, ParityPlace::Last),
    ] {
        let devices = hybrid(&mut world, 1);
        let mut options = CreateOptions::new("sim:policies", level, devices.clone());
        (options.parity, options.measure, options.assume_clean) = (parity, true, true);
        let env = world.env();
        let found = world.run(async move { preview(env, options).await }).unwrap();
        let array = create(&world, level, devices, |options| {
            (options.parity, options.measure) = (parity, true);
        });
        let names: Vec<_> = found.members.into_iter().map(Option::unwrap).collect();
        assert_eq!(names, names_by_role(&world, &array));
        let described = array.clone();
        let report = world.run(async move { described.report().await });
        let mut classes: Vec<_> = report.members.iter().map(|m| (m.slot.unwrap(), m.class)).collect();
        classes.sort_by_key(|(role, _)| *role);
        let classes: Vec<_> = classes.into_iter().map(|(_, class)| class).collect();
        assert_eq!(found.advice, advice(level, &classes));
        assert!(!found.is_measured, "the only flash is known");
    }
}

/// Where classes are not known, what was measured decides, and it is said that another measurement may not.
#[test]
fn a_preview_tells_that_it_rests_on_a_measurement() {
    let mut world = World::new(12);
    let devices: Vec<_> =
        (0..3).map(|index| world.add_member(format!("m{index}"), 64 << 20) as Arc<dyn Device>).collect();
    for (parity, is_measured) in [(ParityPlace::Fastest, true), (ParityPlace::Last, false)] {
        let mut options = CreateOptions::new("sim:policies", Level::Raid4, devices.clone());
        (options.parity, options.measure) = (parity, true);
        let env = world.env();
        let found = world.run(async move { preview(env, options).await }).unwrap();
        assert_eq!(found.is_measured, is_measured);
    }
}

/// Two tasks add one device: the second must not measure or blank what the first is being filled with.
#[test]
fn a_device_is_added_once_however_many_ask() {
    let mut world = World::new(8);
    let devices: Vec<_> =
        (0..4).map(|index| world.add_member(format!("m{index}"), 64 << 20) as Arc<dyn Device>).collect();
    let array = create(&world, Level::Raid5, devices, |options| options.measure = true);
    let spare: Arc<dyn Device> = world.add_member("spare", 64 << 20);
    let (a, b) = world.run(async move {
        let (first, second) = (array.add(spare.clone()), array.add(spare));
        futures_util::future::join(first, second).await
    });
    assert_eq!((a.is_ok(), b.is_ok()), (true, false), "{a:?} {b:?}");
}
