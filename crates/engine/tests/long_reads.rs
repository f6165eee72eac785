//! Reads of several chunks of one member, one of which is bad: what fails is counted once, and where it is.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{
    DATA_OFFSET, Shape,
    faulty::{benches, latent_error},
};
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::geometry::Level;

const CHUNK: u64 = 16384;
const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: CHUNK as u32 };
const RAID4: Shape = Shape { level: Level::Raid4, ..RAID5 };
const STRIPE: u64 = 3 * CHUNK;
/// Where the bad block is: a stripe in which member 0 has data.
const BAD: u64 = 24;

/// "Of a chunk that waits to be rewritten the first counts" (docs/failure-model.md).
#[test]
fn one_bad_block_counts_once_wherever_reads_of_it_begin() {
    for bench in benches(6, RAID4) {
        bench.fill(5);
        let at = DATA_OFFSET + BAD * CHUNK;
        bench.faults[0].add(latent_error(at..at + 512));
        for first in 0..BAD {
            let len = ((BAD + 1 - first) * STRIPE) as usize;
            assert!(bench.read(first * STRIPE, len).unwrap().iter().all(|b| *b == 5));
        }
        let array = bench.array.clone();
        let report = bench.world.run(async move { array.report().await });
        assert_eq!((report.members[0].read_errors, bench.in_sync()), (1, vec![true; 4]), "one bad block");
    }
}

/// Of each block in turn: what is read around it is right, and its member is asked for it once.
#[test]
fn a_piece_that_is_recovered_comes_to_its_place() {
    for bench in benches(7, RAID5) {
        let mut content = vec![0; 4 * STRIPE as usize];
        fastrand::Rng::with_seed(7).fill(&mut content);
        let (array, data) = (bench.array.clone(), IoBuf::copy_of(&content).freeze());
        bench.world.run(async move { array.write(0, data, WriteFlags::default()).await }).unwrap();
        let reads_of = |member: usize| {
            let array = bench.array.clone();
            bench.world.run(async move { array.report().await }).members[member].stats.reads
        };
        for (member, chunk) in (0..4).flat_map(|member| (0..4).map(move |chunk| (member, chunk))) {
            let at = DATA_OFFSET + chunk * CHUNK;
            bench.faults[member].clear();
            bench.faults[member].add(latent_error(at..at + 512));
            assert!(bench.read(0, content.len()).unwrap() == content, "all, {member}, {chunk}");
            let stripe = (chunk * STRIPE) as usize..((chunk + 1) * STRIPE) as usize;
            let (before, errors) = (reads_of(member), bench.array.stats().report().member_read_errors);
            assert!(bench.read(chunk * STRIPE, STRIPE as usize).unwrap() == content[stripe]);
            if bench.array.stats().report().member_read_errors > errors {
                assert_eq!(reads_of(member) - before, 1, "its only piece was asked for once");
            }
            bench.faults[member].clear();
        }
    }
}

/// "No member is dropped for what cannot be healed" (docs/failure-model.md).
#[test]
fn a_block_that_cannot_be_healed_costs_no_member_however_often_it_is_read_with_others() {
    for bench in benches(6, RAID5) {
        bench.fill(5);
        let at = DATA_OFFSET + BAD * CHUNK;
        bench.faults[0].add(latent_error(at..at + 512));
        bench.faults[1].add(latent_error(at..at + 512));
        for _ in 0..30 {
            bench.read((BAD - 4) * STRIPE, 5 * STRIPE as usize).unwrap_err();
            bench.world.run_for(Duration::from_secs(3));
        }
        assert_eq!(bench.in_sync(), [true; 4], "it is lost, and no reason to lose more");
    }
}
