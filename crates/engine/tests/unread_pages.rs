//! The newest copies of the bitmap's pages cannot be read when a dirty array is opened, and power fails while
//! the pages are written anew: what they marked is resynced at the next opening.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{DATA_OFFSET, Shape, check_parity};
use stripewise_device::{
    Device, IoBuf, IoErrorKind, WriteFlags,
    wrap::{Fault, FaultRule, Operation},
};
use stripewise_engine::{Array, AssembleOptions, CreateOptions, assemble, geometry::Level};
use stripewise_sim::{SimMember, World, check::image::newest_page_slots};

const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
const MEMBER_BYTES: u64 = 2 << 20;
const REGION_BYTES: u64 = 64 << 10;
const SEEDS: u64 = 12;
/// Steps of the scheduler from an opening's begin until its pages are written, and later.
const STEPS: std::ops::Range<u64> = 20..70;

/// An array of two regions that were marked one after the other, and a row of the second of which disagrees.
fn crashed(seed: u64) -> (World, Vec<Arc<SimMember>>) {
    let mut world = World::new(seed);
    let members: Vec<_> =
        (0..RAID5.members).map(|index| world.add_member(format!("m{index}"), MEMBER_BYTES)).collect();
    let mut options = CreateOptions::new("sim:lab", RAID5.level, common::devices(&members));
    options.chunk_bytes = RAID5.chunk_bytes;
    options.region_bytes = Some(REGION_BYTES);
    options.assume_clean = true;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    for region in 0..2 {
        let (array, data) = (array.clone(), IoBuf::copy_of(&[1; 4096]).freeze());
        let at = region * 3 * REGION_BYTES;
        world.run(async move { array.write(at, data, WriteFlags { fua: true }).await }).unwrap();
    }
    world.crash();
    let row = DATA_OFFSET + REGION_BYTES;
    let right = members[0].bytes()[row as usize];
    members[0].poke(row, &[right ^ 1]);
    (world, members)
}

/// The members, none of which can read the newest copy of a page until it is written.
fn hiding(members: &[Arc<SimMember>]) -> Vec<Arc<dyn Device>> {
    let device = |member: &Arc<SimMember>| {
        let (device, faults) = Fault::new(member.clone());
        for range_bytes in newest_page_slots(&member.bytes()).into_iter().flatten() {
            faults.add(FaultRule {
                operation: Operation::Read,
                range_bytes,
                kind: IoErrorKind::Medium,
                times: u32::MAX,
                healed_by_write: true,
            });
        }
        Arc::new(device) as Arc<dyn Device>
    };
    members.iter().map(device).collect()
}

#[test]
fn what_unread_pages_marked_is_resynced_although_power_fails_while_they_are_written() {
    for seed in 0..SEEDS {
        for steps in STEPS {
            let (world, members) = crashed(seed);
            let (env, hidden) = (world.env(), hiding(&members));
            world.env().spawn(Box::pin(async move {
                _ = assemble(env, hidden, &AssembleOptions::default()).await;
            }));
            world.run_steps(steps);
            world.crash();
            let (env, devices) = (world.env(), common::devices(&members));
            let array =
                world.run(async move { assemble(env, devices, &AssembleOptions::default()).await }).unwrap();
            let waiting = array.clone();
            world.run(async move { waiting.wait_for_jobs().await });
            println!("seed {seed}, {steps} steps");
            check_parity(&array.geometry(), &members);
        }
    }
}
