//! Where a resync is due: parity is not relied on until it has passed, and a resync that a stop cuts short is
//! due again.

#![allow(clippy::unwrap_used)]

mod common;

use common::{DATA_OFFSET, Lab, Shape};
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{AssembleOptions, geometry::Level};

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
