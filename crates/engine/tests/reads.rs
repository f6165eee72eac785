//! Reads that one member can serve, through the array as a device.

#![allow(clippy::unwrap_used)]

mod common;

use std::{pin::pin, time::Duration};

use common::{
    Shape,
    faulty::{benches, latent_error},
};
use futures_util::future::{Either, join, join_all, select};
use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, IoFuture, ReadDone};
use stripewise_engine::{Array, geometry::Level};

const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };

/// A block of the first chunk, by the array as a device.
fn start(array: &Array, offset_bytes: u64) -> IoFuture<ReadDone> {
    array.device().read(offset_bytes, smallvec![IoBuf::with_len(4096)])
}

#[test]
fn stopping_waits_for_a_read_that_a_member_is_at() {
    for bench in benches(1, RAID5) {
        bench.fill(7);
        bench.faults[0].add(latent_error(1 << 20..(1 << 20) + 512));
        let (array, env) = (bench.array.clone(), bench.world.env());
        bench.world.run(async move {
            // The first of them cannot be read, and is recovered all the same.
            let reads = [0, 16384].map(|at| start(&array, at));
            let stop = pin!(array.stop());
            let Either::Right((_, stop)) = select(stop, env.sleep(Duration::from_secs(5))).await else {
                panic!("nobody has taken what was read");
            };
            let (stopped, read) = join(stop, join_all(reads)).await;
            stopped.unwrap();
            for done in read {
                assert!(done.result.is_ok());
                assert!(done.bufs[0].iter().all(|byte| *byte == 7));
            }
            let refused = start(&array, 0).await;
            assert!(refused.result.is_err(), "the array is closed");
        });
    }
}

#[test]
fn what_a_member_cannot_read_is_recovered() {
    for bench in benches(3, RAID5) {
        bench.fill(7);
        bench.faults[0].add(latent_error(1 << 20..(1 << 20) + 512));
        let array = bench.array.clone();
        bench.world.run(async move {
            let done = start(&array, 0).await;
            assert!(done.result.is_ok());
            assert!(done.bufs[0].iter().all(|byte| *byte == 7));
        });
        bench.world.run_for(Duration::from_secs(3));
        let stats = bench.array.stats().report();
        assert_eq!((stats.member_read_errors, stats.healed_blocks), (1, 1));
    }
}

#[test]
fn reads_that_are_forgotten_leave_nothing_behind() {
    for bench in benches(4, RAID5) {
        bench.fill(7);
        bench.faults[0].add(latent_error(1 << 20..(1 << 20) + 512));
        let array = bench.array.clone();
        bench.world.run(async move {
            (0..16).for_each(|block| drop(start(&array, block * 4096)));
            let errors = array.stats().report().member_read_errors;
            assert!(errors <= 1, "one read failed, at once or not at all yet: {errors}");
            assert!(start(&array, 16384).await.result.is_ok());
            array.stop().await.unwrap();
        });
    }
}
