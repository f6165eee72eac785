//! A device that gets the number of a member that was removed, and that has no room for the bitmap. Pages
//! once went on to where the number's last member had them: into the new member's data.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{DATA_OFFSET, MEMBER_BYTES, devices};
use stripewise_device::{Device, IoBuf, WriteFlags};
use stripewise_engine::{Array, AssembleOptions, CreateOptions, assemble, geometry::Level};
use stripewise_format::md::Superblock;
use stripewise_sim::{SimMember, World};

const SMALL_OFFSET: u64 = 128 << 10;

/// As an old mdadm made it: its data begins so early that there is no extension area.
fn shift(member: &SimMember) {
    let bytes = member.snapshot().bytes().to_vec();
    let mut superblock = Superblock::decode(&bytes[4096..8192], 8).unwrap();
    superblock.data_size_sectors += (DATA_OFFSET - SMALL_OFFSET) / 512;
    superblock.data_offset_sectors = SMALL_OFFSET / 512;
    superblock.bad_blocks = Default::default();
    member.poke(SMALL_OFFSET, &bytes[DATA_OFFSET as usize..]);
    member.poke(4096, &superblock.encode()[..]);
}

#[test]
fn pages_do_not_go_where_the_last_member_of_a_number_had_them() {
    let mut world = World::new(7);
    let members: Vec<_> = (0..3).map(|i| world.add_member(format!("m{i}"), MEMBER_BYTES)).collect();
    let mut options = CreateOptions::new("reused", Level::Raid5, devices(&members));
    options.chunk_bytes = 4096;
    options.assume_clean = true;
    let env = world.env();
    world.run(async move { Array::create(env, options).await.unwrap().stop().await.unwrap() });
    shift(&members[1]);
    shift(&members[2]);
    let (env, given) = (world.env(), devices(&members));
    let array = world.run(async move { assemble(env, given, &AssembleOptions::default()).await.unwrap() });
    let capacity = array.geometry().capacity_bytes() as usize;
    let small = world.add_member("small", SMALL_OFFSET + array.geometry().member_bytes());
    let device = small.clone() as Arc<dyn Device>;
    // Until every number of the table was given once, as after years of replaced disks.
    for i in 0..125 {
        let spare = world.add_member(format!("s{i}"), MEMBER_BYTES) as Arc<dyn Device>;
        let array = array.clone();
        world.run(async move {
            array.add(spare).await.unwrap();
            array.remove(&format!("s{i}")).await.unwrap();
        });
    }
    let changed = array.clone();
    world.run(async move {
        let array = changed;
        let data = IoBuf::copy_of(&vec![0x5a; capacity]).freeze();
        array.write(0, data, WriteFlags { fua: true }).await.unwrap();
        array.fail("m0").await.unwrap();
        array.remove("m0").await.unwrap();
        array.add(device).await.unwrap();
        array.wait_for_jobs().await;
        assert_eq!(array.report().await.degraded(), 0);
    });
    world.run_for(Duration::from_secs(5));
    let written = array.clone();
    let found = world.run(async move {
        let data = IoBuf::copy_of(&[0x5a; 4096]).freeze();
        written.write(0, data, WriteFlags { fua: true }).await.unwrap();
        written.read(0, IoBuf::with_len(capacity)).await.unwrap().to_vec()
    });
    let wrong: Vec<usize> =
        (0..capacity).step_by(4096).filter(|at| found[*at..at + 4096] != [0x5a; 4096]).collect();
    assert!(wrong.is_empty(), "blocks at {wrong:?} are not what was written");
}
