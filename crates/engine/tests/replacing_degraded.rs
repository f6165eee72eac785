//! A replacement in a degraded array whose new member fails a flush, while other changes of state are made:
//! jobs and commands come to their end, whichever of them waits for the members' metadata at that moment.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::devices;
use stripewise_device::{
    Device, IoBuf, IoErrorKind, WriteFlags,
    wrap::{Fault, FaultRule, Faults, Operation},
};
use stripewise_engine::{Array, CreateOptions, SpeedLimits, Tuning, geometry::Level};
use stripewise_sim::World;

const SEEDS: std::ops::Range<u64> = 30..80;
const CHUNK_BYTES: u32 = 4096;
const REGION_BYTES: u64 = 64 << 10;
/// Writes, and changes of what is said of a member, of each client.
const REQUESTS: u64 = 200;
/// Steps in which everything ends.
const STEPS_MAX: u64 = 500_000;
const UNLIMITED: SpeedLimits = SpeedLimits { min_bytes_per_s: u64::MAX, max_bytes_per_s: u64::MAX };

/// An array of level 6, one role of which is vacant, and whose member `m1` is being replaced.
fn replacing(world: &mut World, seed: u64) -> (Array, Arc<Faults>) {
    let sims: Vec<_> = (0..6).map(|index| world.add_member(format!("m{index}"), 6 << 20)).collect();
    let new = world.add_member("new", 6 << 20);
    let (device, faults) = Fault::new(new.clone());
    let mut options = CreateOptions::new("sim:lab", Level::Raid6, devices(&sims));
    options.chunk_bytes = CHUNK_BYTES;
    options.assume_clean = true;
    options.region_bytes = Some(REGION_BYTES);
    options.tuning = Tuning {
        disk_batch_bytes: CHUNK_BYTES.into(),
        flash_batch_bytes: CHUNK_BYTES.into(),
        in_flight_bytes: 4 * u64::from(CHUNK_BYTES),
        checkpoint_interval: Duration::from_micros(100 + seed * 17 % 3000),
        ..Tuning::PRODUCTION
    };
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    array.set_speed_limits(UNLIMITED);
    let (command, device) = (array.clone(), Arc::new(device) as Arc<dyn Device>);
    world
        .run(async move {
            command.add(device).await?;
            command.replace("m1", "new").await
        })
        .unwrap();
    world.run_steps_until(100_000, || array.job().is_some_and(|job| job.done_stripes > 3));
    let command = array.clone();
    world.run(async move { command.fail("m4").await }).unwrap();
    sims.iter().chain([&new]).for_each(|sim| sim.set_metadata_slowness(1 + (seed % 4) as u32 * 10));
    (array, faults)
}

/// Marks one region after the other, and changes the state of the array all the time.
async fn busy(array: Array, writes: bool) {
    for request in 0..REQUESTS {
        let data = IoBuf::copy_of(&[request as u8; 4096]).freeze();
        let at = request * 37 * REGION_BYTES % (array.geometry().capacity_bytes() - REGION_BYTES);
        if writes {
            _ = array.write(at / 4096 * 4096, data, WriteFlags::default()).await;
        }
        _ = array.set_endurance("m0", Default::default()).await;
    }
}

#[test]
fn a_flush_that_fails_while_a_member_is_replaced_ends_nothing_but_that() {
    for seed in SEEDS {
        let mut world = World::new(seed);
        let (array, faults) = replacing(&mut world, seed);
        for client in 0..3 {
            world.env().spawn(Box::pin(busy(array.clone(), client == 0)));
        }
        world.run_steps(300 + seed * 13 % 3000);
        faults.add(FaultRule {
            operation: Operation::Flush,
            range_bytes: 0..u64::MAX,
            kind: IoErrorKind::Medium,
            times: 1,
            healed_by_write: false,
        });
        let ended = world.run_within(STEPS_MAX, async move {
            array.wait_for_jobs().await;
            array.report().await
        });
        assert!(ended.is_some(), "seed {seed}: it hangs");
    }
}
