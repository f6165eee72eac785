//! Interleavings that went wrong once: found by reading, kept as tests.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{Lab, MEMBER_BYTES, Shape, faulty::benches};
use stripewise_device::{Device, IoBuf, WriteFlags};
use stripewise_engine::{AssembleOptions, geometry::Level};

const RAID5: Shape = Shape { level: Level::Raid5, members: 3, chunk_bytes: 4096 };
const RUN: AssembleOptions = AssembleOptions::new().run(true).force(false);

/// A spare that was removed came back beside the one that had got its device number: roles are looked up by
/// number, and its garbage was served as data.
#[test]
fn a_removed_spare_that_comes_back_is_not_taken_for_its_successor() {
    let orders = [true, false];
    for (spare_first, mut lab) in
        orders.into_iter().flat_map(|first| Lab::each(1, RAID5).map(move |lab| (first, lab)))
    {
        lab.run_clients(2, 10);
        let (old, new) =
            (lab.world.add_member("old", MEMBER_BYTES), lab.world.add_member("new", MEMBER_BYTES));
        old.poke(1 << 20, &vec![0xee; 1 << 20]);
        let (array, a, b) =
            (lab.array.clone(), old.clone() as Arc<dyn Device>, new.clone() as Arc<dyn Device>);
        lab.world.run(async move {
            array.add(a).await.unwrap();
            array.remove("old").await.unwrap();
            array.add(b).await.unwrap();
            array.fail("m1").await.unwrap();
        });
        lab.wait_for_jobs();
        lab.run_clients(2, 10);
        lab.stop();
        let (m0, m2) = (lab.members[0].clone(), lab.members[2].clone());
        lab.members = if spare_first { vec![m0, old, new, m2] } else { vec![m0, new, old, m2] };
        for _ in 0..2 {
            lab.assemble_all(RUN).unwrap();
            lab.wait_for_jobs();
            lab.check_all();
            lab.stop();
        }
        lab.members.retain(|member| member.info().name != "new");
        lab.assemble_all(RUN).unwrap();
        lab.check_all();
    }
}

/// The usual first contact with a dead disk after idleness is a superblock write, and nobody told the spare.
#[test]
fn a_member_that_dies_in_a_metadata_write_is_rebuilt_too() {
    for mut bench in benches(2, RAID5) {
        bench.fill(1);
        let (device, _sim, _faults) = bench.spare("spare");
        let array = bench.array.clone();
        bench.world.run(async move { array.add(device).await }).unwrap();
        bench.world.run_for(Duration::from_secs(10));
        bench.faults[1].set_gone(true);
        bench.write(0, 2, 4096).unwrap();
        bench.world.run_for(Duration::from_secs(60));
        assert!(bench.in_sync().iter().all(|in_sync| *in_sync));
    }
}

/// A request that had been started held a row that an earlier one wanted, and moved only when it was awaited.
#[test]
fn requests_can_be_awaited_in_any_order() {
    for bench in benches(3, RAID5) {
        bench.write(0, 1, 4096).unwrap();
        let array = bench.array.clone();
        bench.world.run(async move {
            let data = |len: usize| IoBuf::copy_of(&vec![1; len]).freeze();
            let long = array.write(0, data(8192 * 20 + 4096), WriteFlags::default());
            let short = array.write(8192 * 20 + 4096, data(4096), WriteFlags::default());
            long.await.unwrap();
            short.await.unwrap();
        });
    }
}

/// Adding a device that the array has already blanked its metadata before it was refused.
#[test]
fn adding_an_attached_device_changes_nothing_on_it() {
    for bench in benches(4, RAID5) {
        bench.fill(1);
        let before = bench.sims[0].snapshot();
        let (array, device) = (bench.array.clone(), bench.sims[0].clone() as Arc<dyn Device>);
        assert!(bench.world.run(async move { array.add(device).await }).is_err());
        assert!(bench.sims[0].snapshot() == before);
    }
}

/// A repair that gave way to a replacement dropped batches whose writes were under way; they landed on top of
/// acknowledged client writes.
#[test]
fn a_repair_that_gives_way_leaves_no_writes_behind() {
    for seed in 0..25 {
        let mut lab = Lab::with_member_bytes(
            seed,
            Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 },
            5 << 20,
        );
        // Everything differs, so that the repair writes everywhere.
        lab.members[1].poke(1 << 20, &vec![0x55; 4 << 20]);
        let spare = lab.world.add_member("spare", 5 << 20);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world.run(async move {
            array.add(device).await.unwrap();
            array.start_scrub(true).unwrap();
        });
        let (array, env) = (lab.array.clone(), lab.world.env());
        let delay = Duration::from_micros(lab.world.random(2000));
        lab.world.env().spawn(Box::pin(async move {
            env.sleep(delay).await;
            array.replace("m0", "spare").await.unwrap();
        }));
        let capacity = lab.array.geometry().capacity_bytes();
        let writer = lab.array.clone();
        let found = lab.world.run(async move {
            for at in (0..capacity - 65536).step_by(65536) {
                let data = IoBuf::copy_of(&[0xaa; 65536]).freeze();
                writer.write(at, data, WriteFlags::default()).await.unwrap();
            }
            writer.wait_for_jobs().await;
            writer.read(0, IoBuf::with_len((capacity - 65536) as usize / 65536 * 65536)).await.unwrap()
        });
        assert!(found.iter().all(|byte| *byte == 0xaa), "seed {seed}");
        lab.array.start_scrub(false).unwrap();
        lab.wait_for_jobs();
        assert_eq!(lab.array.last_scrub().unwrap().mismatched_rows, 0, "seed {seed}");
    }
}
