//! Measuring members' strides: who may know of it, and what it must not hold up.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use common::{DATA_OFFSET, faulty::write_error};
use futures_util::future::{Either, select};
use stripewise_device::{
    Device, EnvHandle, IoBuf, WriteFlags,
    wrap::{Fault, FaultRule, Faults},
};
use stripewise_engine::{AddOptions, Array, ArrayError, CreateOptions, StrideBenches, geometry::Level};
use stripewise_sim::{
    World,
    model::{DiskOptions, hdd::HddParams},
};

/// How often somebody looks.
const LOOK: Duration = Duration::from_millis(200);

fn disk(world: &mut World, name: &str) -> (Arc<dyn Device>, Arc<Faults>) {
    let options = DiskOptions { size_bytes: Some(160 << 20), ..DiskOptions::default() };
    let (fault, faults) = Fault::new(world.add_hdd(
        name,
        HddParams::seagate_cheetah_15k4_73().with_write_cache(false),
        options,
    ));
    (Arc::new(fault), faults)
}

/// A device that the array alone holds, and its faults.
type Held = (Weak<dyn Device>, Arc<Faults>);

/// Level 5 of four disks.
fn of_disks(world: &mut World) -> (Array, Vec<Held>) {
    let disks: Vec<_> = ["a", "b", "c", "d"].into_iter().map(|name| disk(world, name)).collect();
    let kept = disks.iter().map(|(disk, faults)| (Arc::downgrade(disk), faults.clone())).collect();
    let members = disks.into_iter().map(|(disk, _)| disk).collect();
    let mut create = CreateOptions::new("sim:measuring", Level::Raid5, members);
    create.assume_clean = true;
    let env = world.env();
    (world.run(async move { Array::create(env, create).await }).unwrap(), kept)
}

/// Carries something out. Returns with it for how long benchmarks were seen to be under way.
async fn seen<T>(env: EnvHandle, benches: StrideBenches, future: impl Future<Output = T>) -> (T, Duration) {
    let mut seen = Duration::ZERO;
    let looks = async {
        loop {
            env.sleep(LOOK).await;
            seen += if benches.are_under_way() { LOOK } else { Duration::ZERO };
        }
    };
    let ended = match select(pin!(future), pin!(looks)).await {
        Either::Left((ended, _)) => ended,
        Either::Right((never, _)) => never,
    };
    (ended, seen)
}

#[test]
fn who_creates_and_adds_is_told_that_strides_are_being_measured() {
    let mut world = World::new(1);
    let (long, most) = (Duration::from_secs(5), StrideBenches::TIME + Duration::from_secs(5));
    let benches = StrideBenches::default();
    let members: Vec<_> = ["a", "b", "c"].map(|name| disk(&mut world, name).0).into();
    let mut create = CreateOptions::new("sim:measuring", Level::Raid5, members);
    (create.assume_clean, create.measure, create.benches) = (true, true, benches.clone());
    let env = world.env();
    let creates = seen(env.clone(), benches.clone(), Array::create(env.clone(), create));
    let (array, time) = world.run(creates);
    assert!(time > long / 2 && time < most, "reads alone: {time:?}");
    let (spare, array) = (disk(&mut world, "spare").0, array.unwrap());
    let options = AddOptions::default().benches(benches.clone());
    let adds = async move { array.add_with(spare, options).await };
    let (added, time) = world.run(seen(env, benches.clone(), adds));
    added.unwrap();
    assert!(time > long && time < most, "{time:?}");
    assert!(!benches.are_under_way(), "it has ended");
}

#[test]
fn the_members_of_a_failed_array_are_not_measured_for_that_reason() {
    let mut world = World::new(2);
    let (array, disks) = of_disks(&mut world);
    disks[2].1.add(FaultRule { range_bytes: DATA_OFFSET..u64::MAX, ..write_error() });
    let refused = world.run(async move {
        array.fail("a").await.unwrap();
        let whole = IoBuf::with_len(array.geometry().stripe_bytes() as usize).freeze();
        array.write(0, whole, WriteFlags::default()).await.unwrap_err();
        array.measure_strides().await
    });
    assert!(matches!(refused, Err(ArrayError::Failed)), "{refused:?}");
}

/// A former fault: the device stayed open until all others had been measured.
#[test]
fn a_member_that_is_removed_is_closed_while_others_are_measured() {
    let mut world = World::new(3);
    let (array, disks) = of_disks(&mut world);
    let (env, removes) = (world.env(), array.clone());
    let (removed, measured) = world.run(async move {
        let operator = async {
            env.sleep(Duration::from_secs(1)).await;
            removes.fail("a").await.unwrap();
            removes.remove("a").await.unwrap();
            env.sleep(Duration::from_secs(1)).await;
            disks[0].0.strong_count()
        };
        // It is looked at before the others have been measured, which is not so if they are done first.
        match select(pin!(operator), pin!(array.measure_strides())).await {
            Either::Left((held, measured)) => (held, measured.await),
            Either::Right(_) => panic!("all were measured within two seconds"),
        }
    });
    assert_eq!(removed, 0, "the device is held");
    let unmeasured = measured.unwrap();
    assert!(matches!(&unmeasured[..], [(name, _)] if name == "a"), "{unmeasured:?}");
}
