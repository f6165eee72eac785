//! Arrays that lose more members than their level tolerates: what is read from then on is right, or an error.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{
    DATA_OFFSET, MEMBER_BYTES, Shape,
    faulty::{Bench, bench, write_error},
};
use stripewise_device::{
    ZeroFlags,
    wrap::{Fault, FaultRule},
};
use stripewise_engine::{ArrayError, AssembleOptions, MemberState, SpeedLimits, geometry::Level};

const RAID1: Shape = Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 };
const RAID4: Shape = Shape { level: Level::Raid4, members: 4, chunk_bytes: 16384 };
const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
const RAID6: Shape = Shape { level: Level::Raid6, members: 5, chunk_bytes: 16384 };

const BLOCK: usize = 4096;
/// Every rotation of the layouts, and a stripe more.
const STRIPES_READ: u64 = 6;

/// What the block at this index holds before the array fails.
fn old(block: usize) -> u8 {
    (block % 199) as u8 + 1
}

/// What the failing write brings.
const NEW: u8 = 0xee;

/// An array with other content in each block, all of it flushed.
fn filled(seed: u64, shape: Shape) -> Bench {
    let bench = bench(seed, shape);
    let blocks = bench.array.geometry().capacity_bytes() as usize / BLOCK;
    (0..blocks).for_each(|block| bench.write((block * BLOCK) as u64, old(block), BLOCK).unwrap());
    let array = bench.array.clone();
    bench.world.run(async move { array.flush().await }).unwrap();
    bench
}

/// Reads the first stripes block by block, and in longer pieces: each block is as it was, or an error. Blocks
/// that the failing write was to change may have changed. Returns how many could be read.
fn only_right_data_or_errors(bench: &Bench, written: std::ops::Range<usize>) -> usize {
    let end = (STRIPES_READ * bench.array.geometry().stripe_bytes()) as usize;
    let mut readable = 0;
    for len in [BLOCK, 4 * BLOCK, 16 * BLOCK] {
        for at in (0..end).step_by(len) {
            let Ok(found) = bench.read(at as u64, len.min(end - at)) else { continue };
            for (index, content) in found.chunks(BLOCK).enumerate() {
                let block = at / BLOCK + index;
                let all_are = |byte: u8| content.iter().all(|found| *found == byte);
                let is_new = written.contains(&block) && all_are(NEW);
                assert!(is_new || all_are(old(block)), "block {block}: {:02x?}", &content[..8]);
                readable += usize::from(len == BLOCK);
            }
        }
    }
    readable
}

/// Members fail as far as the level tolerates it, one more fails its next write, and one block is written:
/// each member and each block of the first stripes in turn.
fn fails_at_a_write_of_one_block(shape: Shape) {
    let tolerated = if shape.level == Level::Raid6 { 2 } else { 1 };
    let blocks_of_stripe = (shape.members - tolerated) * shape.chunk_bytes as usize / BLOCK;
    for failing in 0..shape.members {
        for block in (0..2 * blocks_of_stripe).step_by(3) {
            let bench = filled(block as u64, shape);
            let others = (0..shape.members).filter(|member| *member != failing).take(tolerated);
            for member in others {
                let (array, name) = (bench.array.clone(), format!("m{member}"));
                bench.world.run(async move { array.fail(&name).await }).unwrap();
            }
            bench.faults[failing].add(write_error());
            let result = bench.write((block * BLOCK) as u64, NEW, BLOCK);
            if result.is_ok() {
                continue; // the failing member has no part in this row
            }
            assert_eq!(result, Err(ArrayError::Failed));
            let readable = only_right_data_or_errors(&bench, block..block + 1);
            assert!(readable > 0, "what lies on members in step can be read");
        }
    }
}

#[test]
fn what_a_failed_array_cannot_tell_is_an_error_at_level_4() {
    fails_at_a_write_of_one_block(RAID4);
}

#[test]
fn what_a_failed_array_cannot_tell_is_an_error_at_level_5() {
    fails_at_a_write_of_one_block(RAID5);
}

#[test]
fn what_a_failed_array_cannot_tell_is_an_error_at_level_6() {
    fails_at_a_write_of_one_block(RAID6);
}

/// Lets go of an array, which may have failed.
fn stop(bench: &Bench) {
    let array = bench.array.clone();
    let _ = bench.world.run(async move { array.stop().await });
}

/// Opened read-only, such an array is not resynced: what would have to be reconstructed where it was being
/// written is an error, and all else is read. With force it is reconstructed.
#[test]
fn a_failed_array_that_is_opened_read_only_returns_nothing_wrong() {
    for (shape, block) in [RAID4, RAID5, RAID6].into_iter().flat_map(|shape| (0..12).map(move |b| (shape, b)))
    {
        let mut bench = filled(block as u64, shape);
        let (array, other) = (bench.array.clone(), 1 + block % (shape.members - 1));
        bench.world.run(async move { array.fail("m0").await }).unwrap();
        if shape.level == Level::Raid6 {
            let (array, name) = (bench.array.clone(), format!("m{}", 1 + other % (shape.members - 1)));
            bench.world.run(async move { array.fail(&name).await }).unwrap();
        }
        bench.faults[other].add(write_error());
        if bench.write((block * BLOCK) as u64, NEW, BLOCK).is_ok() {
            continue;
        }
        stop(&bench);
        let options = AssembleOptions::default().run(true).read_only(true);
        bench.array = bench.assemble(0..shape.members, options).unwrap();
        let readable = only_right_data_or_errors(&bench, block..block + 1);
        stop(&bench);
        bench.array = bench.assemble(0..shape.members, options.force(true)).unwrap();
        let end = STRIPES_READ * bench.array.geometry().stripe_bytes();
        assert!((0..end).step_by(BLOCK).all(|at| bench.read(at, BLOCK).is_ok()));
        assert!(readable < (end as usize) / BLOCK, "{shape:?}, block {block}");
    }
}

#[test]
fn the_last_mirror_is_read_although_it_takes_no_writes() {
    let bench = filled(1, RAID1);
    let array = bench.array.clone();
    bench.world.run(async move { array.fail("m0").await }).unwrap();
    bench.faults[1].add(write_error());
    assert_eq!(bench.write(0, NEW, BLOCK), Err(ArrayError::Failed));
    let blocks = (STRIPES_READ * bench.array.geometry().stripe_bytes()) as usize / BLOCK;
    assert_eq!(only_right_data_or_errors(&bench, 0..1), blocks);
}

/// Several members fail in one write, and their reads fail afterwards, so that each block is looked for
/// elsewhere.
#[test]
fn members_that_fail_all_at_once_are_not_made_up_from_the_others() {
    for shape in [RAID4, RAID5, RAID6] {
        for first in 0..shape.members - 2 {
            let bench = filled(first as u64, shape);
            bench.faults[first..first + 3].iter().for_each(|faults| faults.add(write_error()));
            let len = 2 * bench.array.geometry().stripe_bytes() as usize;
            assert_eq!(bench.write(0, NEW, len), Err(ArrayError::Failed));
            only_right_data_or_errors(&bench, 0..len / BLOCK);
            bench.faults[first].set_gone(true);
            only_right_data_or_errors(&bench, 0..len / BLOCK);
        }
    }
}

/// A role whose member was lost is filled again from what the others hold. Nothing of rows that were half
/// written when the array failed may reach the member that is being filled as whole.
#[test]
fn a_rebuild_that_the_failure_cuts_short_leaves_nothing_that_counts() {
    for shape in [RAID5, RAID6] {
        let mut bench = filled(3, shape);
        let array = bench.array.clone();
        bench.world.run(async move { array.fail("m0").await }).unwrap();
        if shape.level == Level::Raid6 {
            let array = bench.array.clone();
            bench.world.run(async move { array.fail("m1").await }).unwrap();
        }
        let sim = bench.world.add_member("spare", MEMBER_BYTES);
        let (spare, _faults) = Fault::new(sim);
        let limits = SpeedLimits { min_bytes_per_s: 1 << 14, max_bytes_per_s: 1 << 14 };
        bench.array.set_speed_limits(limits);
        let array = bench.array.clone();
        bench.world.run(async move { array.add(std::sync::Arc::new(spare)).await }).unwrap();
        bench.world.run_steps(200);
        bench.faults[2].add(write_error());
        let len = bench.array.geometry().stripe_bytes() as usize;
        assert_eq!(bench.write(0, NEW, len), Err(ArrayError::Failed));
        bench.world.run_for(Duration::from_secs(3));
        only_right_data_or_errors(&bench, 0..len / BLOCK);
    }
}

/// A job that was waiting when the array failed goes on with nothing: its next batch would be made from
/// half-written rows.
#[test]
fn jobs_that_wait_while_the_array_fails_touch_nothing_afterwards() {
    for (shape, fills) in [RAID4, RAID5, RAID6].into_iter().flat_map(|shape| [(shape, true), (shape, false)])
    {
        let mut bench = filled(5, shape);
        bench.array.pause_jobs();
        if fills {
            let (spare, _, _) = bench.spare("spare");
            let array = bench.array.clone();
            bench.world.run(async move { array.add(spare).await }).unwrap();
            let array = bench.array.clone();
            bench.world.run(async move { array.fail("m0").await }).unwrap();
        } else {
            bench.array.start_scrub(true).unwrap();
        }
        bench.world.run_steps(200);
        assert!(bench.array.job().is_some_and(|job| job.done_stripes == 0), "{shape:?}: a job waits");
        let tolerated = bench.array.geometry().parity_columns();
        let failing = 1..2 + tolerated - usize::from(fills);
        // Of data alone, so that the row is half written, and not refused before.
        let fault = FaultRule { range_bytes: DATA_OFFSET..u64::MAX, ..write_error() };
        bench.faults[failing].iter().for_each(|faults| faults.add(fault.clone()));
        let len = bench.array.geometry().stripe_bytes() as usize;
        assert_eq!(bench.write(0, NEW, len), Err(ArrayError::Failed));
        bench.world.run_for(Duration::from_secs(3));
        let changes: Vec<_> = bench.sims.iter().map(|sim| sim.changes()).collect();
        bench.array.resume_jobs();
        bench.world.run_for(Duration::from_secs(3));
        only_right_data_or_errors(&bench, 0..len / BLOCK);
        let now: Vec<_> = bench.sims.iter().map(|sim| sim.changes()).collect();
        assert_eq!(now, changes, "{shape:?}: members are written to");
        assert!(bench.array.job().is_none(), "{shape:?}: the job has ended");
    }
}

/// Nothing is written to the members that are left: not data, and no page of the bitmap either, for a request
/// that is refused.
#[test]
fn a_failed_array_announces_nothing_in_the_bitmap() {
    for shape in [RAID4, RAID5, RAID6] {
        let bench = filled(7, shape);
        // Regions of what was written before are cleared: what is asked for next would have to be announced
        // anew.
        bench.world.run_for(Duration::from_secs(60));
        bench.faults.iter().skip(1).for_each(|faults| faults.set_gone(true));
        let capacity = bench.array.geometry().capacity_bytes();
        assert_eq!(
            bench.write(0, NEW, bench.array.geometry().stripe_bytes() as usize),
            Err(ArrayError::Failed)
        );
        bench.world.run_for(Duration::from_secs(60));
        let changes = bench.sims[0].changes();
        let array = bench.array.clone();
        let zeroed = async move { array.write_zeroes(0, capacity, ZeroFlags::default()).await };
        assert_eq!(bench.world.run(zeroed), Err(ArrayError::Failed));
        assert_eq!(bench.write(capacity / 2, NEW, BLOCK), Err(ArrayError::Failed));
        assert_eq!(bench.sims[0].changes(), changes, "{shape:?}");
    }
}

/// A former fault: the members that took the array down counted as in sync, as nothing is recorded any more.
#[test]
fn a_failed_array_reports_which_members_it_has_lost() {
    let bench = filled(13, RAID5);
    bench.faults[0].set_gone(true);
    bench.faults[1].set_gone(true);
    bench.write(0, NEW, 12 * BLOCK).unwrap_err();
    let report = || {
        let array = bench.array.clone();
        bench.world.run(async move { array.report().await })
    };
    assert!(report().failed);
    assert_eq!(report().in_sync, [false, false, true, true]);
    // Another goes afterwards.
    bench.faults[2].set_gone(true);
    bench.read(0, 12 * BLOCK).unwrap_err();
    let states: Vec<_> = report().members.iter().map(|member| member.state).collect();
    assert_eq!(states[..2], [MemberState::Faulty; 2]);
    assert_eq!(states[3], MemberState::InSync);
}

#[test]
fn a_failed_array_takes_no_scrub_and_leaves_what_is_to_be_added_as_it_is() {
    let mut bench = filled(12, RAID5);
    bench.faults[0].set_gone(true);
    bench.faults[1].set_gone(true);
    bench.write(0, NEW, 12 * BLOCK).unwrap_err();
    assert_eq!(bench.array.start_scrub(false), Err(ArrayError::Failed));
    let device = bench.world.add_member("back", MEMBER_BYTES);
    device.poke(8192, &[0x77; 512 << 10]);
    let (array, given, before) = (bench.array.clone(), device.clone(), device.bytes().to_vec());
    assert_eq!(bench.world.run(async move { array.add(given).await }), Err(ArrayError::Failed));
    assert!(device.bytes()[..] == before[..], "it was refused, and written to all the same");
}
