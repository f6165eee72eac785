//! Another md wrote an array last and did not stop it, and one member, which it has left an event behind,
//! cannot be written. Power fails while we open the array: whatever that leaves, all of it is resynced at the
//! next opening.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use common::{Lab, Shape};
use stripewise_device::{
    Device, IoErrorKind,
    wrap::{Fault, FaultRule, Operation},
};
use stripewise_engine::{AssembleOptions, JobKind, assemble, geometry::Level};
use stripewise_format::md::Superblock;

const RAID6: Shape = Shape { level: Level::Raid6, members: 5, chunk_bytes: 16384 };
/// Where a superblock lies.
const SUPERBLOCK: std::ops::Range<u64> = 4096..8192;
/// The member that is an event behind.
const BEHIND: usize = 4;
/// Steps of the scheduler that an opening takes, at least and at most.
const STEPS_LEAST: u64 = 60;
const STEPS: u64 = 1000;

/// What another md leaves that has not stopped the array.
fn leave_as_another(lab: &Lab) {
    for (index, member) in lab.members.iter().enumerate() {
        let mut superblock = Superblock::decode(&member.snapshot().bytes()[4096..8192], 8).unwrap();
        superblock.resync_offset_sectors = 0;
        superblock.events += 4 - u64::from(index == BEHIND);
        member.poke(SUPERBLOCK.start, &superblock.encode()[..]);
    }
}

/// The members, of which one cannot take its superblock.
fn with_a_broken_one(lab: &Lab) -> Vec<Arc<dyn Device>> {
    let device = |(index, member): (usize, &Arc<_>)| {
        let (device, faults) = Fault::new(Arc::clone(member));
        if index == BEHIND {
            faults.add(FaultRule {
                operation: Operation::Write,
                range_bytes: SUPERBLOCK,
                kind: IoErrorKind::Medium,
                times: u32::MAX,
                healed_by_write: false,
            });
        }
        Arc::new(device) as Arc<dyn Device>
    };
    lab.members.iter().enumerate().map(device).collect()
}

#[test]
fn all_is_resynced_although_power_fails_while_a_member_is_dropped() {
    let options = AssembleOptions::default().run(true).force(true);
    for steps in (0..STEPS).step_by(2) {
        let mut lab = Lab::new(9, RAID6);
        lab.run_clients(1, 10);
        lab.stop();
        leave_as_another(&lab);
        let (env, members) = (lab.world.env(), with_a_broken_one(&lab));
        let is_open = Arc::new(AtomicBool::new(false));
        let set = is_open.clone();
        lab.world.env().spawn(Box::pin(async move {
            let array = assemble(env, members, &options).await;
            set.store(array.is_ok(), Ordering::Relaxed);
        }));
        lab.world.run_steps(steps);
        if is_open.load(Ordering::Relaxed) {
            assert!(steps > STEPS_LEAST);
            break;
        }
        lab.crash();
        lab.assemble_all(options).unwrap();
        lab.wait_for_jobs();
        let job = lab.array.last_job().map(|job| (job.kind, job.total_stripes));
        assert_eq!(job, Some((JobKind::Resync, lab.array.geometry().stripes())), "after {steps} steps");
    }
}
