//! Mirrors whose size is no multiple of a stripe: most real ones. The last stripe is shorter than the others.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{DATA_OFFSET, Lab, Shape};
use stripewise_device::{Device, IoBuf, WriteFlags};
use stripewise_engine::{JobKind, JobOutcome, geometry::Level};
use stripewise_sim::SimMember;

/// A stripe of level 1 is 64 KiB; what is left of the member is less.
const TAILS: [u64; 4] = [512, 4096, 20 << 10, 63 << 10];
const STRIPES_BYTES: u64 = 5 * (64 << 10);

/// A full mirror, every sector of which has content of its own.
fn filled(seed: u64, members: usize, tail: u64) -> (Lab, Vec<u8>) {
    let shape = Shape { level: Level::Raid1, members, chunk_bytes: 65536 };
    let lab = Lab::with_member_bytes(seed, shape, DATA_OFFSET + STRIPES_BYTES + tail);
    let capacity = lab.array.geometry().capacity_bytes();
    assert_eq!(capacity, STRIPES_BYTES + tail / 4096 * 4096 + tail % 4096);
    let content: Vec<u8> = (0..capacity).map(|i| (i / 512 % 251) as u8 + 1).collect();
    let (array, data) = (lab.array.clone(), IoBuf::copy_of(&content).freeze());
    lab.world.run(async move { array.write(0, data, WriteFlags { fua: true }).await }).unwrap();
    (lab, content)
}

fn data_of(member: &Arc<SimMember>, len: usize) -> Vec<u8> {
    member.bytes()[DATA_OFFSET as usize..][..len].to_vec()
}

#[test]
fn a_rebuild_fills_the_short_last_stripe() {
    for (seed, tail) in (0..).zip(TAILS) {
        let (mut lab, content) = filled(seed, 2, tail);
        let spare = lab.world.add_member("spare", DATA_OFFSET + STRIPES_BYTES + tail);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world.run(async move {
            array.fail("m0").await.unwrap();
            array.add(device).await.unwrap();
            array.wait_for_jobs().await;
            array.fail("m1").await.unwrap();
        });
        let job = lab.array.last_job().unwrap();
        assert_eq!((job.kind, job.outcome), (JobKind::Rebuild, Some(JobOutcome::Done)));
        assert!(data_of(&spare, content.len()) == content, "a tail of {tail} bytes is on the spare");
        assert!(lab.read_all() == content, "and is what is read");
    }
}

#[test]
fn a_replacement_takes_over_the_short_last_stripe() {
    for (seed, tail) in (0..).zip(TAILS) {
        let (mut lab, content) = filled(seed, 3, tail);
        let spare = lab.world.add_member("spare", DATA_OFFSET + STRIPES_BYTES + tail);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world.run(async move {
            array.add(device).await.unwrap();
            array.replace("m1", "spare").await.unwrap();
            array.wait_for_jobs().await;
        });
        assert!(data_of(&spare, content.len()) == content, "a tail of {tail} bytes");
    }
}

#[test]
fn a_repair_mends_the_short_last_stripe() {
    for (seed, tail) in (0..).zip(TAILS) {
        let (lab, content) = filled(seed, 3, tail);
        let last = DATA_OFFSET + content.len() as u64 - 512;
        lab.members[2].poke(last, &[0xee; 512]);
        lab.array.start_scrub(true).unwrap();
        lab.wait_for_jobs();
        assert_eq!(lab.array.last_scrub().unwrap().mismatched_rows, 1, "a tail of {tail} bytes");
        assert!(data_of(&lab.members[2], content.len()) == content);
    }
}
