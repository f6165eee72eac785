//! Resync of distributed regions, which go in groups of neighbours: all of them are walked.

#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeSet, sync::Arc};

use common::{DATA_OFFSET, check_parity, devices};
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{
    Array, AssembleOptions, CreateOptions, JobKind, JobOutcome, MapKind, assemble,
    geometry::{Level, StripeIndex},
};
use stripewise_sim::{SimMember, World};

const CHUNK_BYTES: u64 = 64 << 10;
/// 256 stripes, and as many regions: a group of neighbours is 4 MiB of a member, 64 regions.
const DATA_BYTES: u64 = 16 << 20;
const GROUP: u64 = 64;

fn create(seed: u64, level: Level, members: usize) -> (World, Vec<Arc<SimMember>>, Array) {
    let mut world = World::new(seed);
    let members: Vec<_> =
        (0..members).map(|i| world.add_member(format!("m{i}"), DATA_OFFSET + DATA_BYTES)).collect();
    let mut options = CreateOptions::new("sim:groups", level, devices(&members));
    options.chunk_bytes = CHUNK_BYTES as u32;
    options.region_bytes = Some(CHUNK_BYTES);
    options.map = Some(MapKind::Distributed);
    options.assume_clean = true;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    (world, members, array)
}

#[test]
fn every_group_of_distributed_regions_is_resynced() {
    for (seed, (level, members)) in (0..).zip([(Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid1, 2)]) {
        let (world, members, array) = create(seed, level, members);
        // At the ends of groups and within them.
        let stripes: BTreeSet<u64> = [0, 5, GROUP - 1, GROUP, GROUP + 7, 3 * GROUP, 4 * GROUP - 1].into();
        let (writer, stripe_bytes) = (array.clone(), array.geometry().stripe_bytes());
        let written = stripes.clone();
        world.run(async move {
            for stripe in written {
                let data = IoBuf::copy_of(&[7; 4096]).freeze();
                writer.write(stripe * stripe_bytes, data, WriteFlags { fua: true }).await.unwrap();
            }
        });
        let geometry = array.geometry();
        world.crash();
        // What a crash leaves of redundancy, at its worst.
        for stripe in &stripes {
            let redundant = geometry.member_of(StripeIndex(*stripe), geometry.data_columns()).0;
            members[redundant].poke(DATA_OFFSET + stripe * CHUNK_BYTES + 4096, &[0xee; 512]);
        }
        let (env, devices) = (world.env(), devices(&members));
        let array =
            world.run(async move { assemble(env, devices, &AssembleOptions::default()).await }).unwrap();
        let waiting = array.clone();
        world.run(async move { waiting.wait_for_jobs().await });
        let job = array.last_job().unwrap();
        assert_eq!((job.kind, job.outcome), (JobKind::Resync, Some(JobOutcome::Done)));
        assert_eq!((job.total_stripes, job.done_stripes), (stripes.len() as u64, stripes.len() as u64));
        assert_eq!(job.mismatched_rows, stripes.len() as u64, "{level:?}");
        check_parity(&array.geometry(), &members);
    }
}
