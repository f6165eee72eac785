//! A fault of a single request, and one that strikes while another is being recorded: what it means for the
//! member, and for writes that wait.

#![allow(clippy::unwrap_used)]

mod common;

use std::{ops::Range, time::Duration};

use common::{
    DATA_OFFSET, Shape,
    faulty::{Bench, bench},
};
use stripewise_device::{
    IoBuf, IoErrorKind, WriteFlags,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::geometry::Level;

const CHUNK: u64 = 16384;
const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: CHUNK as u32 };

fn cannot_write(bench: &Bench, member: usize, range_bytes: Range<u64>, times: u32) {
    let (operation, kind) = (Operation::Write, IoErrorKind::Medium);
    bench.faults[member].add(FaultRule { operation, range_bytes, kind, times, healed_by_write: false });
}

/// The last block of one chunk and the first of the next: parity is written in two runs, of which the second
/// fails, once.
#[test]
fn a_member_that_did_not_take_the_second_run_of_parity_leaves() {
    let bench = bench(3, RAID5);
    cannot_write(&bench, 3, DATA_OFFSET + CHUNK - 4096..DATA_OFFSET + CHUNK, 1);
    bench.write(CHUNK - 4096, 5, 8192).unwrap();
    assert!(bench.faults[3].is_quiet(), "it failed");
    assert_eq!(bench.in_sync(), [true, true, true, false]);
}

/// Two of four members fail: one its data, and one the superblock that would tell of that.
#[test]
fn nothing_is_acknowledged_that_passed_over_a_member_whose_failure_was_not_recorded() {
    for seed in 0..12 {
        let bench = bench(seed, RAID5);
        bench.write(0, 1, 3 * CHUNK as usize).unwrap();
        let array = bench.array.clone();
        bench.world.run(async move { array.flush().await }).unwrap();
        // The first column of the first stripe is on member 0.
        cannot_write(&bench, 0, 0..1 << 40, u32::MAX);
        cannot_write(&bench, 1, 0..DATA_OFFSET, u32::MAX);
        let (array, env) = (bench.array.clone(), bench.world.env());
        let acknowledged = bench.world.run(async move {
            let mut writes = Vec::new();
            for row in 0..4 {
                let data = IoBuf::copy_of(&[9; 4096]).freeze();
                writes.push(array.write(row * 4096, data, WriteFlags { fua: true }));
                env.sleep(Duration::from_micros(60)).await;
            }
            let mut acknowledged = 0;
            for write in writes {
                acknowledged += u32::from(write.await.is_ok());
            }
            acknowledged
        });
        assert_eq!(acknowledged, 0, "seed {seed}");
    }
}

/// "has failed more than 20 reads" (docs/failure-model.md): also those that a write needs.
#[test]
fn reads_that_fail_for_writes_count() {
    let bench = bench(3, Shape { chunk_bytes: 4096, ..RAID5 });
    // In every fourth stripe the first column is on member 0.
    let stripes = || (0..120).step_by(4);
    for stripe in stripes() {
        let start = DATA_OFFSET + stripe * 4096;
        bench.faults[0].add(FaultRule {
            operation: Operation::Read,
            range_bytes: start..start + 4096,
            kind: IoErrorKind::Medium,
            times: u32::MAX,
            healed_by_write: true,
        });
    }
    stripes().for_each(|stripe| bench.write(stripe * 3 * 4096, 5, 512).unwrap());
    assert_eq!(bench.in_sync(), [false, true, true, true]);
}

/// By member, although parity is written in two runs.
#[test]
fn a_stripe_write_counts_once() {
    let bench = bench(3, RAID5);
    bench.write(CHUNK - 4096, 5, 8192).unwrap();
    let array = bench.array.clone();
    let report = bench.world.run(async move { array.report().await });
    let counted: Vec<_> = report.members.iter().map(|member| member.stats.stripe_writes).collect();
    assert_eq!(counted, [1, 1, 0, 1]);
}
