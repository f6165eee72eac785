//! What was written to members is kept on them: a crash forgets no more than is promised, and notes cost next
//! to nothing.

#![allow(clippy::unwrap_used)]

use std::{ops::Range, sync::Arc, time::Duration};

use stripewise_device::{Device, IoBuf, WriteFlags};
use stripewise_engine::{
    Array, ArrayReport, AssembleOptions, CreateOptions, assemble,
    endurance::{NOTE_BYTES_MAX, NOTE_BYTES_MIN, NOTE_INTERVAL_S},
    examine,
    geometry::Level,
};
use stripewise_format::extension::{Endurance, OtherCopy};
use stripewise_sim::World;

const MIB: usize = 1 << 20;

fn mirror(world: &mut World) -> (Vec<Arc<dyn Device>>, Array) {
    let devices: Vec<_> =
        (0..2).map(|index| world.add_member(format!("m{index}"), 32 << 20) as Arc<dyn Device>).collect();
    let mut options = CreateOptions::new("sim:wear", Level::Raid1, devices.clone());
    options.assume_clean = true;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    (devices, array)
}

fn report(world: &World, array: &Array) -> ArrayReport {
    let array = array.clone();
    world.run(async move { array.report().await })
}

fn write(world: &World, array: &Array, len: usize) {
    let (array, data) = (array.clone(), IoBuf::copy_of(&vec![7; len]).freeze());
    world.run(async move { array.write(0, data, WriteFlags::default()).await }).unwrap();
}

/// What each member has been written, as an array that is opened after a crash knows it.
fn after_a_crash(world: &World, devices: Vec<Arc<dyn Device>>) -> Vec<u64> {
    world.crash();
    let env = world.env();
    let options = AssembleOptions::default().force(true);
    let array = world.run(async move { assemble(env, devices, &options).await }).unwrap();
    report(world, &array).members.iter().map(|member| member.endurance.written_bytes).collect()
}

/// It is written all the time, so that no change of state notes anything by the way.
#[test]
fn what_a_minute_writes_is_noted_without_an_event() {
    let mut world = World::new(1);
    let (devices, array) = mirror(&mut world);
    write(&world, &array, MIB);
    let events = report(&world, &array).events;
    for _ in 0..=NOTE_INTERVAL_S {
        write(&world, &array, MIB);
        world.run_for(Duration::from_secs(1));
    }
    let then = report(&world, &array);
    assert_eq!(then.events, events);
    let written = then.members[0].endurance.written_bytes;
    assert!(written > NOTE_INTERVAL_S * MIB as u64);
    assert!(written - then.members[0].noted_written_bytes <= 3 * MIB as u64, "{then:?}");
    for found in after_a_crash(&world, devices) {
        assert!(found + 3 * MIB as u64 >= written, "{found} of {written}");
    }
}

/// An array that is written every second, shortly before what was written is noted.
fn before_a_note() -> (World, Vec<Arc<dyn Device>>, Array) {
    let mut world = World::new(5);
    let (devices, array) = mirror(&mut world);
    for _ in 1..NOTE_INTERVAL_S {
        write(&world, &array, MIB / 16);
        world.run_for(Duration::from_secs(1));
    }
    write(&world, &array, MIB / 16);
    (world, devices, array)
}

/// From when to when it is noted, and what was noted before.
fn time_of_a_note() -> (Range<u64>, u64) {
    let (world, _devices, array) = before_a_note();
    let noted = || report(&world, &array).members[0].noted_written_bytes;
    let before = noted();
    loop {
        world.run_for(Duration::from_micros(100));
        let from = world.now().0;
        // A report waits for a note under way.
        if noted() != before {
            return (from..world.now().0, before);
        }
    }
}

/// Power fails in each part of a note: one copy of the header or the other is whole, and the array comes back
/// as if there had been none.
#[test]
fn a_note_that_is_cut_short_costs_nothing() {
    let (note, before) = time_of_a_note();
    let mut cut = 0;
    for step in 0..12 {
        let (world, devices, array) = before_a_note();
        let marked = report(&world, &array).bitmap.unwrap().marked;
        let at = note.start + (note.end - note.start) * step / 12;
        world.run_for(Duration::from_nanos(at - world.now().0));
        world.crash();
        for device in devices.clone() {
            let (_, copies) = world.run(async move { examine(device).await }).unwrap().extension.unwrap();
            cut += usize::from(copies.other != OtherCopy::Same);
        }
        let env = world.env();
        let opened = world.run(async move { assemble(env, devices, &AssembleOptions::default()).await });
        let opened = report(&world, &opened.unwrap());
        assert!(opened.members.iter().all(|member| member.endurance.written_bytes >= before), "{opened:?}");
        assert!(opened.bitmap.unwrap().marked <= marked, "the bitmap is trusted: {opened:?}");
    }
    assert!(cut > 0, "no crash came in the middle of a note");
}

/// Faster writes are noted before the minute is over: the bound is a volume then.
#[test]
fn no_more_than_the_bound_is_forgotten() {
    let mut world = World::new(2);
    let (devices, array) = mirror(&mut world);
    let rounds = NOTE_BYTES_MAX / 4 * 5 / (16 * MIB as u64);
    for _ in 0..rounds {
        write(&world, &array, 16 * MIB);
        world.run_for(Duration::from_millis(200));
    }
    let then = report(&world, &array);
    let written = then.members[0].endurance.written_bytes;
    assert!(written >= NOTE_BYTES_MAX / 4 * 5);
    // What comes in the second that housekeeping takes.
    let bound = NOTE_BYTES_MAX + 6 * 16 * MIB as u64;
    for found in after_a_crash(&world, devices) {
        assert!(found + bound >= written, "{found} of {written}");
    }
}

#[test]
fn an_array_that_is_not_written_is_left_alone() {
    let mut world = World::new(3);
    let (_devices, array) = mirror(&mut world);
    write(&world, &array, 4096);
    // Until it is clean.
    world.run_for(Duration::from_secs(10));
    let before = report(&world, &array).members[0].stats.metadata_bytes;
    world.run_for(Duration::from_secs(3600));
    assert_eq!(report(&world, &array).members[0].stats.metadata_bytes, before);
}

/// A member that an operator takes out in good health knows to the byte what its data area was written.
#[test]
fn a_member_that_leaves_takes_its_count_along() {
    let mut world = World::new(4);
    let (devices, array) = mirror(&mut world);
    write(&world, &array, 16 * MIB);
    let failed = array.clone();
    world.run(async move { failed.fail("m1").await }).unwrap();
    let written = report(&world, &array).members[1].endurance.written_bytes;
    let device = devices[1].clone();
    let kept = world.run(async move { examine(device).await }).unwrap().extension.unwrap().0.endurance;
    assert!(kept.written_bytes >= 16 * MIB as u64);
    assert!(written - kept.written_bytes < NOTE_BYTES_MIN, "{kept:?} of {written}");
    // It wears, whosever member it is: the count and the rating come back with it, also into another array.
    let back = array.clone();
    let device = devices[1].clone();
    world
        .run(async move {
            back.remove("m1").await?;
            back.add(device).await?;
            let rated = Endurance { rated_write_bytes: 1 << 50, ..Endurance::default() };
            back.set_endurance("m1", rated).await
        })
        .unwrap();
    let found = report(&world, &array).members.pop().unwrap().endurance;
    assert!(found.written_bytes >= kept.written_bytes && found.written_since_s == kept.written_since_s);
    world.run(async move { array.stop().await }).unwrap();
    let options = CreateOptions::new("sim:another", Level::Raid0, devices.clone());
    let env = world.env();
    let other = world.run(async move { Array::create(env, options).await }).unwrap();
    let again = report(&world, &other).members[1].endurance;
    assert!(again.written_bytes >= found.written_bytes && again.rated_write_bytes == 1 << 50, "{again:?}");
}

/// A note that a member does not answer keeps nobody from failing it.
#[test]
fn a_member_that_hangs_in_a_note_can_be_failed() {
    let (world, _devices, array) = before_a_note();
    world.members()[1].set_slowness(1_000_000);
    // The note begins.
    world.run_for(Duration::from_millis(1500));
    let begun = world.now();
    world.run(async move { array.fail("m1").await }).unwrap();
    let waited = world.now().since(begun);
    assert!(waited < Duration::from_secs(6), "{waited:?}");
}
