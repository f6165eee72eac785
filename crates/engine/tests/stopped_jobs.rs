//! Jobs that an operator stops stay stopped, whatever waits behind them or has changed while they ran; a
//! spare that comes while a less urgent job runs need not wait for its end; and a resync that could not read
//! all is tried again.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{DATA_OFFSET, Lab, Shape, faulty::bench};
use stripewise_device::{
    Device, IoErrorKind,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::{
    AssembleOptions, JobKind, JobOutcome, SpeedLimits, assemble,
    geometry::{Level, StripeIndex},
};

const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
const RAID6: Shape = Shape { level: Level::Raid6, members: 5, chunk_bytes: 16384 };
/// Members with 4 MiB of data: some ten seconds of a slow job.
const MEMBER_BYTES: u64 = 5 << 20;
const SLOW: SpeedLimits = SpeedLimits { min_bytes_per_s: 400 << 10, max_bytes_per_s: 400 << 10 };

/// An array at rest whose jobs are slow.
fn slow_lab(seed: u64, shape: Shape) -> Lab {
    let lab = Lab::with_member_bytes(seed, shape, MEMBER_BYTES);
    lab.flush();
    lab.wait_for_jobs();
    lab.pass(3);
    lab.array.set_speed_limits(SLOW);
    lab
}

fn add(lab: &mut Lab, name: &str) {
    let device: Arc<dyn Device> = lab.world.add_member(name, MEMBER_BYTES);
    let array = lab.array.clone();
    lab.world.run(async move { array.add(device).await }).unwrap();
}

fn fail(lab: &Lab, name: &'static str) {
    let array = lab.array.clone();
    lab.world.run(async move { array.fail(name).await }).unwrap();
}

fn job(lab: &Lab) -> Option<JobKind> {
    lab.array.job().map(|job| job.kind)
}

#[test]
fn a_spare_that_comes_during_a_check_is_filled_at_once() {
    let mut lab = slow_lab(1, RAID6);
    fail(&lab, "m2");
    lab.array.start_scrub(false).unwrap();
    lab.pass(2);
    assert_eq!(job(&lab), Some(JobKind::Check));
    add(&mut lab, "spare");
    lab.pass(2);
    assert_eq!(job(&lab), Some(JobKind::Rebuild));
    lab.array.set_speed_limits(SpeedLimits::default());
    lab.wait_for_jobs();
    assert_eq!(lab.array.last_scrub().unwrap().outcome, Some(JobOutcome::Done), "the check went on");
}

#[test]
fn a_replacement_gives_way_to_the_rebuild_of_a_vacant_role() {
    let mut lab = slow_lab(2, RAID6);
    add(&mut lab, "new");
    let array = lab.array.clone();
    lab.world.run(async move { array.replace("m1", "new").await }).unwrap();
    lab.pass(2);
    assert_eq!(job(&lab), Some(JobKind::Replace));
    fail(&lab, "m2");
    lab.pass(2);
    assert_eq!(job(&lab), Some(JobKind::Replace), "no spare is there");
    add(&mut lab, "spare");
    lab.pass(2);
    assert_eq!(job(&lab), Some(JobKind::Rebuild));
    lab.array.set_speed_limits(SpeedLimits::default());
    lab.wait_for_jobs();
    let array = lab.array.clone();
    let report = lab.world.run(async move { array.report().await });
    let in_sync = |name| report.members.iter().any(|m| m.name == name && m.state.name() == "in sync");
    assert!(in_sync("new") && in_sync("spare"), "{:?}", report.members);
}

#[test]
fn a_rebuild_is_stopped_although_a_spare_came_meanwhile() {
    let mut lab = slow_lab(3, RAID5);
    fail(&lab, "m2");
    add(&mut lab, "spare");
    lab.pass(2);
    add(&mut lab, "another");
    lab.pass(2);
    assert_eq!(job(&lab), Some(JobKind::Rebuild));
    lab.array.stop_job();
    lab.pass(3);
    assert_eq!(lab.array.last_job().unwrap().outcome, Some(JobOutcome::Stopped));
    assert_eq!(job(&lab), None);
    add(&mut lab, "third");
    lab.pass(2);
    assert_eq!(job(&lab), Some(JobKind::Rebuild), "a change after that lets it go on");
}

/// An array of which a crash has left regions to be resynced, and that is open again.
fn dirty_lab(seed: u64, shape: Shape, has_scrub: bool, members: &[usize]) -> Lab {
    let mut lab = slow_lab(seed, shape);
    if has_scrub {
        lab.array.start_scrub(false).unwrap();
        lab.pass(2);
        lab.stop();
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.array.set_speed_limits(SLOW);
    }
    lab.run_clients(2, 100);
    lab.crash();
    let options = AssembleOptions::default().run(true).force(true);
    lab.assemble(members, options).unwrap();
    lab.array.set_speed_limits(SLOW);
    lab
}

/// An array without one member, and with a spare, whose resync is stopped.
fn lab_with_a_stopped_resync(seed: u64) -> Lab {
    let mut lab = dirty_lab(seed, RAID6, false, &[0, 1, 2, 3]);
    add(&mut lab, "spare");
    lab.world.run_for(Duration::from_millis(300));
    assert_eq!(job(&lab), Some(JobKind::Resync));
    lab.array.stop_job();
    lab
}

#[test]
fn a_resync_is_stopped_although_a_scrub_waits_behind_it() {
    for has_scrub in [false, true] {
        let mut lab = dirty_lab(5, RAID5, has_scrub, &[0, 1, 2, 3]);
        lab.world.run_for(Duration::from_millis(300));
        assert_eq!(job(&lab), Some(JobKind::Resync));
        lab.array.stop_job();
        lab.pass(3);
        assert_eq!(job(&lab), None, "a scrub waited: {has_scrub}");
        // A check begins with the resync that is due.
        lab.array.start_scrub(false).unwrap();
        lab.world.run_for(Duration::from_millis(300));
        assert_eq!(job(&lab), Some(JobKind::Resync));
        lab.array.stop_job();
        lab.pass(3);
        lab.stop();
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.wait_for_jobs();
        assert!(lab.array.last_scrub().is_none(), "it was stopped");
        assert_eq!(lab.array.last_job().map(|job| job.kind), Some(JobKind::Resync));
    }
}

#[test]
fn a_stopped_resync_keeps_no_rebuild_waiting() {
    let lab = lab_with_a_stopped_resync(6);
    lab.pass(2);
    assert_eq!(job(&lab), Some(JobKind::Rebuild));
}

#[test]
fn a_resync_that_could_not_read_all_is_tried_again_some_time_later() {
    let mut bench = bench(8, RAID5);
    bench.fill(0x11);
    bench.world.crash();
    for faults in &bench.faults[1..3] {
        faults.add(FaultRule {
            operation: Operation::Read,
            range_bytes: DATA_OFFSET..DATA_OFFSET + 4 * u64::from(RAID5.chunk_bytes),
            kind: IoErrorKind::Medium,
            times: u32::MAX,
            healed_by_write: false,
        });
    }
    let (env, devices) = (bench.world.env(), bench.members.clone());
    bench.array =
        bench.world.run(async move { assemble(env, devices, &AssembleOptions::default()).await }).unwrap();
    bench.world.run_for(Duration::from_secs(5));
    let job = bench.array.last_job().unwrap();
    assert!(job.kind == JobKind::Resync && matches!(job.outcome, Some(JobOutcome::Failed(_))), "{job:?}");
    bench.faults.iter().for_each(|faults| faults.clear());
    bench.world.run_for(Duration::from_secs(700));
    let array = bench.array.clone();
    let report = bench.world.run(async move { array.report().await });
    assert_eq!((report.bitmap.unwrap().marked, report.dirty), (0, false));
}

/// Moments, in steps of the scheduler, from the change of members that a repair gives way to.
const MOMENTS: u64 = 120;

#[test]
fn a_repair_that_is_stopped_while_it_gives_way_does_not_come_back() {
    let mut stopped = 0;
    for moment in 0..MOMENTS {
        let mut lab = slow_lab(3, RAID5);
        add(&mut lab, "spare");
        lab.array.start_scrub(true).unwrap();
        lab.world.run_for(Duration::from_millis(700));
        let array = lab.array.clone();
        lab.world.env().spawn(Box::pin(async move { _ = array.replace("m2", "spare").await }));
        lab.world.run_steps(moment);
        if job(&lab) != Some(JobKind::Repair) {
            continue;
        }
        lab.array.stop_job();
        lab.world.run_for(Duration::from_millis(300));
        if lab.array.last_scrub().is_none_or(|scrub| scrub.outcome != Some(JobOutcome::Stopped)) {
            continue;
        }
        stopped += 1;
        lab.crash();
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.wait_for_jobs();
        assert!(lab.array.last_scrub().is_none(), "moment {moment}");
    }
    assert!(stopped > 0);
}

/// A resync was stopped and a spare was filled meanwhile, until as many members were lost as may be. Then
/// nothing can be compared, and what the spare holds must not count as equal to the rest: it is filled again.
#[test]
fn what_was_filled_before_the_resync_is_filled_again_when_nothing_can_be_compared() {
    let mut lab = lab_with_a_stopped_resync(7);
    lab.pass(3);
    let filling = lab.array.job().unwrap();
    assert_eq!(filling.kind, JobKind::Rebuild);
    // A stripe that is filled and not resynced, with Q on a member that stays. A crash left Q behind there.
    let geometry = lab.array.geometry();
    let q_of = |stripe: u64| geometry.member_of(StripeIndex(stripe), geometry.members() - 1).0;
    let stripes = lab.array.stripes(0..filling.done_stripes);
    let is_stale = |stripe: &u64| !stripes[*stripe as usize].synced && ![1, 4].contains(&q_of(*stripe));
    let stripe = (0..filling.done_stripes).find(is_stale).expect("some stripe is filled and not resynced");
    let at = DATA_OFFSET + stripe * u64::from(RAID6.chunk_bytes);
    let q = &lab.members[q_of(stripe)];
    let before = q.bytes()[at as usize];
    q.poke(at, &[before ^ 1]);
    fail(&lab, "m1");
    lab.array.stop_job();
    lab.array.set_speed_limits(SpeedLimits::default());
    lab.wait_for_jobs();
    add(&mut lab, "another");
    lab.wait_for_jobs();
    let array = lab.array.clone();
    let report = lab.world.run(async move { array.report().await });
    assert_eq!(report.degraded(), 0);
    lab.array.start_scrub(false).unwrap();
    lab.wait_for_jobs();
    assert_eq!(lab.array.last_job().unwrap().mismatched_rows, 0);
}
