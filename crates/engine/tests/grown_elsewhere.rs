//! Another md made the array larger, so that regions have another shape, and did not stop it: old pages of
//! the bitmap lie where the new ones go. Power fails before these are written twice.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{check_parity, devices};
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{Array, AssembleOptions, CreateOptions, assemble, geometry::Level};
use stripewise_format::md::Superblock;
use stripewise_sim::{SimMember, World};

const MEMBER_BYTES: u64 = 256 << 10;
const REGION_BYTES: u64 = 64 << 10;
/// How often the pages of the bitmap were written at least: more often than the new ones are.
const WRITES: u64 = 6;

/// An array whose pages were written some times, stopped.
fn use_array(world: &World, members: &[Arc<SimMember>]) {
    let mut options = CreateOptions::new("sim:lab", Level::Raid5, devices(members));
    options.chunk_bytes = 16384;
    options.member_bytes = Some(MEMBER_BYTES);
    options.region_bytes = Some(REGION_BYTES);
    options.assume_clean = true;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    for write in 0..WRITES {
        let (array, data) = (array.clone(), IoBuf::copy_of(&[1; 4096]).freeze());
        world
            .run(async move { array.write(write * REGION_BYTES, data, WriteFlags::default()).await })
            .unwrap();
        world.run_for(Duration::from_secs(4));
    }
    world.run(async move { array.stop().await }).unwrap();
}

/// What another md leaves that has doubled the members, and was not stopped: no parity agrees in what is new.
fn grow(members: &[Arc<SimMember>]) {
    for (index, member) in members.iter().enumerate() {
        let mut superblock = Superblock::decode(&member.snapshot().bytes()[4096..8192], 8).unwrap();
        superblock.member_size_sectors = 2 * MEMBER_BYTES / 512;
        superblock.resync_offset_sectors = 0;
        superblock.events += 4;
        member.poke(4096, &superblock.encode()[..]);
        let new_data = superblock.data_offset_sectors * 512 + MEMBER_BYTES;
        member.poke(new_data, &vec![1 << index; MEMBER_BYTES as usize]);
    }
}

fn open(world: &World, members: &[Arc<SimMember>]) -> Array {
    let (env, devices) = (world.env(), devices(members));
    world.run(async move { assemble(env, devices, &AssembleOptions::default()).await }).unwrap()
}

#[test]
fn all_is_resynced_although_power_fails_soon_after_the_opening() {
    for has_resynced in [false, true] {
        let mut world = World::new(1);
        let members: Vec<_> = (0..3).map(|i| world.add_member(format!("m{i}"), 2 << 20)).collect();
        use_array(&world, &members);
        grow(&members);
        let array = open(&world, &members);
        match has_resynced {
            true => world.run(async move { array.wait_for_jobs().await }),
            false => array.pause_jobs(),
        }
        world.crash();
        let array = open(&world, &members);
        let geometry = array.geometry();
        world
            .run(async move {
                array.wait_for_jobs().await;
                array.stop().await
            })
            .unwrap();
        check_parity(&geometry, &members);
    }
}
