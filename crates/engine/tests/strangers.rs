//! Devices that are given and left out do not change what the others make.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{MEMBER_BYTES, devices};
use stripewise_device::wrap::Delay;
use stripewise_engine::{Array, AssembleOptions, CreateOptions, assemble, geometry::Level};
use stripewise_sim::{SimMember, World};
use uuid::Uuid;

fn array_of(world: &mut World, name: &str, level: Level, members: usize, bytes: u64) -> Vec<Arc<SimMember>> {
    let members: Vec<_> = (0..members).map(|i| world.add_member(format!("{name}{i}"), bytes)).collect();
    let mut options = CreateOptions::new(name, level, devices(&members));
    options.uuid = Some(Uuid::from_u128(7));
    options.assume_clean = true;
    let env = world.env();
    world.run(async move { Array::create(env, options).await.unwrap().stop().await.unwrap() });
    world.run_for(Duration::from_secs(1));
    members
}

/// "A device with the array's UUID that was made at another time is no member" (docs/failure-model.md).
#[test]
fn a_level_0_of_another_time_and_size_is_left_out() {
    for (bytes, level) in
        [(2 * MEMBER_BYTES, Level::Raid1), (2 * MEMBER_BYTES, Level::Raid0), (MEMBER_BYTES, Level::Raid0)]
    {
        let mut world = World::new(1);
        let ours = array_of(&mut world, "a", Level::Raid0, 2, MEMBER_BYTES);
        let other = array_of(&mut world, "b", level, 1, bytes);
        let all = [&ours[..], &other].concat();
        let (env, given) = (world.env(), devices(&all));
        let opened =
            world.run(async move { assemble(env, given, &AssembleOptions::default().run(true)).await });
        let array = opened.unwrap_or_else(|error| panic!("{bytes} bytes, {level:?}: {error}"));
        let report = world.run(async move { array.report().await });
        assert_eq!(report.excluded.len(), 1);
    }
}

/// A stranger of longer blocks changes neither the array's block nor its size.
#[test]
fn a_stranger_of_longer_blocks_changes_nothing() {
    let mut world = World::new(1);
    // Data that ends within a block of 4 KiB.
    let ours = array_of(&mut world, "a", Level::Raid1, 2, MEMBER_BYTES - 1024);
    let manners = stripewise_sim::Manners { block_bytes: 4096, ..Default::default() };
    let other: Vec<_> = vec![world.add_member_with("b", MEMBER_BYTES, manners)];
    let mut options = CreateOptions::new("b", Level::Raid1, devices(&other));
    options.uuid = Some(Uuid::from_u128(7));
    let env = world.env();
    world.run(async move { Array::create(env, options).await.unwrap().stop().await.unwrap() });
    let open = |members: &[Arc<SimMember>]| {
        let (env, given) = (world.env(), devices(members));
        world.run(async move {
            let array = assemble(env, given, &AssembleOptions::default()).await.unwrap();
            let geometry = array.geometry();
            array.stop().await.unwrap();
            (geometry.logical_block_bytes(), geometry.capacity_bytes())
        })
    };
    let alone = open(&ours);
    assert_eq!(alone, open(&[&ours[..], &other].concat()));
}

/// "A member that does not answer while an array is opened is left out" (docs/failure-model.md). Once it was
/// waited for without end.
#[test]
fn a_member_that_does_not_answer_is_left_out() {
    let mut world = World::new(1);
    let members = array_of(&mut world, "a", Level::Raid5, 3, MEMBER_BYTES);
    let env = world.env();
    let given = || {
        let mut given = devices(&members);
        given[1] = Arc::new(Delay::new(given[1].clone(), env.clone(), Duration::from_hours(9)));
        given
    };
    let open = |options: AssembleOptions| {
        let (env, given) = (env.clone(), given());
        world.run(async move { assemble(env, given, &options).await })
    };
    let Err(error) = open(AssembleOptions::default()) else { panic!("a member that was there is absent") };
    assert!(error.to_string().contains("no answer for 30 s"), "{error}");
    let began = world.now().0;
    let array = open(AssembleOptions::default().run(true)).unwrap();
    assert!(Duration::from_nanos(world.now().0 - began) < Duration::from_secs(35));
    let report = world.run(async move { array.report().await });
    assert!(report.excluded[0].reason.to_string().contains("no answer for 30 s"));
}
