//! Scrubs that are cut short, and gone on with: each stripe is verified, and none twice.

#![allow(clippy::unwrap_used)]

mod common;

use std::{ops::Range, sync::Arc, time::Duration};

use common::{DATA_OFFSET, Lab, Shape};
use stripewise_device::{Device, Timestamp};
use stripewise_engine::{AssembleOptions, JobKind, JobOutcome, SpeedLimits, geometry::Level};
use stripewise_sim::EventKind;

const CHUNK: u64 = 16384;
const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: CHUNK as u32 };

/// So slow that one batch is under way at a time, and a few a second.
const SLOW: SpeedLimits = SpeedLimits { min_bytes_per_s: 400 << 10, max_bytes_per_s: 400 << 10 };

/// An idle array, whose members' requests are noted.
fn idle(seed: u64) -> Lab {
    let lab = Lab::new(seed, RAID5);
    lab.world.keep_events();
    lab.run_clients(1, 10);
    lab.flush();
    lab.pass(5);
    lab.array.set_speed_limits(SLOW);
    // Found and counted once, by whichever part of the scrub goes over it.
    for stripe in [1, 30, 62] {
        lab.members[1].poke(DATA_OFFSET + stripe * CHUNK, &[0xee; 512]);
    }
    lab
}

/// The stripes that a member was read, in the order of the reads.
fn stripes_read(lab: &Lab, member: usize, since: Timestamp) -> Vec<Range<u64>> {
    let events = lab.world.events();
    let reads = events.iter().filter(|event| {
        event.member == member
            && event.kind == EventKind::Read
            && event.at >= since
            && event.offset_bytes >= DATA_OFFSET
    });
    reads
        .map(|read| {
            let start = (read.offset_bytes - DATA_OFFSET) / CHUNK;
            start..start + read.len_bytes / CHUNK
        })
        .collect()
}

/// Each member was read from its first stripe to its last, each stripe once.
fn check_coverage(lab: &Lab, members: &[usize], begun: Timestamp) {
    for member in members {
        let read = stripes_read(lab, *member, begun);
        let stripes: Vec<u64> = read.iter().cloned().flatten().collect();
        let all: Vec<u64> = (0..lab.array.geometry().stripes()).collect();
        assert_eq!(stripes, all, "m{member} was read in {read:?}");
    }
}

fn check_end(lab: &Lab, kind: JobKind) {
    let scrub = lab.array.last_scrub().unwrap();
    assert_eq!((scrub.kind, scrub.outcome), (kind, Some(JobOutcome::Done)));
    assert_eq!(scrub.mismatched_rows, 3, "each wrong row was found once");
}

#[test]
fn a_scrub_goes_on_after_a_stop_with_the_next_stripe() {
    for (mend, millis) in
        [false, true].into_iter().flat_map(|mend| [50, 400, 700, 1000, 2000].map(|t| (mend, t)))
    {
        let mut lab = idle(millis);
        let begun = lab.world.now();
        lab.array.start_scrub(mend).unwrap();
        lab.world.run_for(Duration::from_millis(millis));
        let job = lab.array.job().expect("it is not over");
        lab.stop();
        let before: u64 = stripes_read(&lab, 0, begun).iter().map(|run| run.end - run.start).sum();
        assert!(before >= job.done_stripes && before < 64, "{before} of 64 before the stop");
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.wait_for_jobs();
        check_end(&lab, if mend { JobKind::Repair } else { JobKind::Check });
        check_coverage(&lab, &[0, 1, 2, 3], begun);
    }
}

/// The replacement reads the member that it replaces, and no other.
#[test]
fn a_scrub_goes_on_after_a_replacement_with_the_next_stripe() {
    for millis in [50, 400, 700, 1000, 2000] {
        let mut lab = idle(millis);
        let spare: Arc<dyn Device> = lab.world.add_member("spare", common::MEMBER_BYTES);
        let array = lab.array.clone();
        lab.world.run(async move { array.add(spare).await }).unwrap();
        let begun = lab.world.now();
        lab.array.start_scrub(false).unwrap();
        lab.world.run_for(Duration::from_millis(millis));
        assert!(lab.array.job().is_some());
        let array = lab.array.clone();
        lab.world.run(async move { array.replace("m2", "spare").await }).unwrap();
        lab.wait_for_jobs();
        check_end(&lab, JobKind::Check);
        check_coverage(&lab, &[0, 1, 3], begun);
    }
}

/// Where it stands is in every member's header: any of them tells it.
#[test]
fn a_scrub_goes_on_although_the_first_header_is_damaged() {
    let mut lab = idle(3);
    let begun = lab.world.now();
    lab.array.start_scrub(false).unwrap();
    lab.world.run_for(Duration::from_millis(700));
    assert!(lab.array.job().is_some(), "it is not over");
    lab.stop();
    for copy in [256 << 10, DATA_OFFSET - 4096] {
        lab.members[0].poke(copy, &[0xff; 4096]);
    }
    lab.assemble_all(AssembleOptions::default()).unwrap();
    lab.wait_for_jobs();
    check_end(&lab, JobKind::Check);
    check_coverage(&lab, &[1, 2], begun);
}
