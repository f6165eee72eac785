//! What listeners hear of an array.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Lab, Shape};
use stripewise_device::{Device, IoBuf, IoErrorKind, WriteFlags};
use stripewise_engine::{
    ArrayEvent, ArrayEvents, JobKind, JobOutcome,
    geometry::{Level, MemberIndex},
};

/// What was heard until the array is at rest.
fn heard(lab: &Lab, mut events: ArrayEvents) -> Vec<ArrayEvent> {
    lab.world.run(async move {
        let mut all = Vec::new();
        while let Some(event) = events.next().await {
            all.push(event);
        }
        all
    })
}

#[test]
fn a_failure_and_what_follows_it_is_told_in_order_and_the_end_ends_it() {
    let mut lab = Lab::new(5, Shape { level: Level::Raid5, members: 3, chunk_bytes: 16384 });
    let events = lab.array.events();
    let failed = lab.members[1].info().name.clone();
    let (array, name) = (lab.array.clone(), failed.clone());
    lab.world.run(async move { array.fail(&name).await }).unwrap();
    let spare = lab.world.add_member("spare", common::MEMBER_BYTES);
    let (array, device) = (lab.array.clone(), spare.clone());
    lab.world.run(async move { array.add(device).await }).unwrap();
    lab.wait_for_jobs();
    let array = lab.array.clone();
    lab.world.run(async move { array.remove(&failed).await }).unwrap();
    lab.stop();
    let failed = lab.members[1].info().name.clone();
    let kind = JobKind::Rebuild;
    assert_eq!(
        heard(&lab, events),
        [
            ArrayEvent::MemberFailed { member: failed.clone(), role: Some(MemberIndex(1)) },
            ArrayEvent::SpareAdded { member: "spare".to_owned() },
            ArrayEvent::JobStarted(kind),
            ArrayEvent::MemberActive { member: "spare".to_owned(), role: MemberIndex(1) },
            ArrayEvent::JobEnded { kind, outcome: JobOutcome::Done, mismatched_rows: 0 },
            ArrayEvent::MemberRemoved { member: failed },
        ]
    );
}

#[test]
fn an_array_that_loses_too_many_members_says_so_once() {
    let lab = Lab::new(6, Shape { level: Level::Raid5, members: 3, chunk_bytes: 16384 });
    let events = lab.array.events();
    lab.members[0].fail_once();
    lab.members[1].fail_once();
    let array = lab.array.clone();
    let whole = IoBuf::zeroed(2 * 16384).freeze();
    lab.world.run(async move { array.write(0, whole, WriteFlags::default()).await }).unwrap_err();
    let array = lab.array.clone();
    let _ = lab.world.run(async move { array.stop().await });
    let all = heard(&lab, events);
    let failures = all.iter().filter(|event| **event == ArrayEvent::ArrayFailed).count();
    assert_eq!(failures, 1, "{all:?}");
}

#[test]
fn extents_are_a_request_as_any_other() {
    let lab = Lab::new(7, Shape { level: Level::Raid5, members: 3, chunk_bytes: 16384 });
    let (device, size) = (lab.array.device(), lab.array.geometry().capacity_bytes());
    let kind = |lab: &Lab, at, len| lab.world.run(device.extents(at, len)).map_err(|error| error.kind);
    assert!(kind(&lab, 0, 4096).is_ok());
    for (at, len) in [(size, 4096), (size + 16384, 4096), (u64::MAX - 511, 4096), (0, 100)] {
        assert_eq!(kind(&lab, at, len), Err(IoErrorKind::Refused), "{at}+{len}");
    }
    lab.stop();
    assert_eq!(kind(&lab, 0, 4096), Err(IoErrorKind::Gone), "it is stopped");
}
