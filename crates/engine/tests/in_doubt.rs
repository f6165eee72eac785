//! Where a resync is due: parity is not relied on until it has passed, and a resync that a stop cuts short is
//! due again.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    DATA_OFFSET, Lab, Shape,
    faulty::{bench, latent_error},
};
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{AssembleOptions, assemble, geometry::Level};

const CHUNK: u64 = 16384;

fn write(lab: &Lab, at: u64, byte: u8) {
    let (array, data) = (lab.array.clone(), IoBuf::copy_of(&[byte; 4096]).freeze());
    lab.world.run(async move { array.write(at, data, WriteFlags { fua: true }).await }).unwrap();
}

#[test]
fn a_resync_that_was_paused_when_the_array_stopped_is_due_again() {
    let mut lab = Lab::new(3, Shape { level: Level::Raid5, members: 4, chunk_bytes: CHUNK as u32 });
    write(&lab, 0, 7);
    lab.crash();
    lab.members[3].poke(DATA_OFFSET + 4096, &[0x5a; 512]);
    lab.assemble_all(AssembleOptions::default()).unwrap();
    lab.array.pause_jobs();
    lab.pass(2);
    lab.stop();
    lab.assemble_all(AssembleOptions::default()).unwrap();
    lab.wait_for_jobs();
    lab.check_parity(&lab.members);
}

/// The stripe is the first of its region; the one before needs no resync.
#[test]
fn what_is_written_before_the_resync_survives_its_member() {
    let mut lab = Lab::new(3, Shape { level: Level::Raid5, members: 6, chunk_bytes: CHUNK as u32 });
    let stripe = 4 * 5 * CHUNK;
    write(&lab, stripe + 4096, 7);
    lab.crash();
    // Parity of stripe 4 is on member 1, and its first column on member 2.
    lab.members[1].poke(DATA_OFFSET + 4 * CHUNK, &[0x5a; 512]);
    lab.assemble_all(AssembleOptions::default()).unwrap();
    lab.array.pause_jobs();
    write(&lab, stripe, 9);
    let array = lab.array.clone();
    let read = lab.world.run(async move {
        array.fail("m2").await.unwrap();
        array.read(stripe, IoBuf::with_len(4096)).await
    });
    assert!(read.unwrap().iter().all(|byte| *byte == 9));
}

/// Level 6 without a member, where a resync is due, and another member cannot read its block: what is lost is recovered
/// from both parities, and part of a block is written.
#[test]
fn a_part_of_a_block_is_written_beside_one_that_is_lost_and_one_that_cannot_be_read() {
    let mut bench = bench(5, Shape { level: Level::Raid6, members: 6, chunk_bytes: CHUNK as u32 });
    bench.fill(7);
    let array = bench.array.clone();
    bench.world.run(async move { array.flush().await }).unwrap();
    bench.world.crash();
    let (env, members) = (bench.world.env(), bench.members.clone());
    bench.array =
        bench.world.run(async move { assemble(env, members, &AssembleOptions::default()).await }).unwrap();
    bench.array.pause_jobs();
    // Stripe 0 of level 6: data on members 0 to 3, P and Q on the last two.
    let array = bench.array.clone();
    bench.world.run(async move { array.fail("m2").await }).unwrap();
    bench.faults[1].add(latent_error(DATA_OFFSET..DATA_OFFSET + 4096));
    bench.write(3 * CHUNK, 9, 512).unwrap();
    for column in [1, 2] {
        let found = bench.read(column * CHUNK, 4096).unwrap();
        assert!(found.iter().all(|byte| *byte == 7), "column {column}");
    }
    let written = bench.read(3 * CHUNK, 4096).unwrap();
    assert!(written[..512].iter().all(|byte| *byte == 9) && written[512..].iter().all(|byte| *byte == 7));
}
