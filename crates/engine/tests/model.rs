//! Arrays against a model, without crashes: healthy, degraded, rebuilt.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Lab, SHAPES, Shape, labs};
use stripewise_device::Device;
use stripewise_engine::{AssembleOptions, JobOutcome, geometry::Level, locking::PRESETS};
use stripewise_sim::SimMember;

fn redundancy(shape: Shape) -> usize {
    match shape.level {
        Level::Raid0 => 0,
        Level::Raid1 => shape.members - 1,
        Level::Raid4 | Level::Raid5 => 1,
        Level::Raid6 => 2,
    }
}

fn fail(lab: &Lab, member: usize) {
    let (array, name) = (lab.array.clone(), lab.members[member].info().name.clone());
    lab.world.run(async move { array.fail(&name).await }).unwrap();
}

#[test]
fn a_healthy_array_keeps_what_is_written_and_its_parity() {
    for lab in labs(0) {
        lab.run_clients(4, 60);
        lab.check_all();
        lab.check_parity(&lab.members);
    }
}

#[test]
fn striping_without_redundancy_keeps_what_is_written() {
    for lab in Lab::each(1, Shape { level: Level::Raid0, members: 3, chunk_bytes: 8192 }) {
        lab.run_clients(3, 60);
        lab.check_all();
    }
}

#[test]
fn every_tolerated_loss_is_survived_under_load() {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        for round in 0..6 {
            let lab = Lab::new(100 + seed as u64 * 10 + round, shape);
            lab.start_clients(3, 200);
            let mut alive: Vec<usize> = (0..shape.members).collect();
            for _ in 0..redundancy(shape) {
                lab.world.run_steps(lab.world.random(3000));
                let victim = alive.swap_remove(lab.world.random(alive.len() as u64) as usize);
                fail(&lab, victim);
            }
            lab.run_clients(1, 0);
            lab.pass(5);
            lab.check_all();
        }
    }
}

#[test]
fn a_rebuilt_member_is_as_good_as_the_lost_one() {
    for mut lab in labs(300) {
        lab.run_clients(3, 30);
        let victim = lab.world.random(lab.members.len() as u64) as usize;
        fail(&lab, victim);
        lab.run_clients(3, 30);
        let spare = lab.world.add_member("spare", common::MEMBER_BYTES);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world.run(async move { array.add(device).await }).unwrap();
        lab.run_clients(3, 30);
        lab.wait_for_jobs();
        assert_eq!(lab.array.last_job().unwrap().outcome, Some(JobOutcome::Done));
        lab.check_all();
        let mut members: Vec<Arc<SimMember>> = lab.members.clone();
        members[victim] = spare;
        lab.check_parity(&members);
        lab.stop();
        lab.members = members;
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.check_all();
    }
}

#[test]
fn a_living_member_is_replaced_under_load() {
    for mut lab in labs(400) {
        lab.run_clients(3, 20);
        let spare = lab.world.add_member("spare", common::MEMBER_BYTES);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world
            .run(async move {
                array.add(device).await?;
                array.replace("m1", "spare").await
            })
            .unwrap();
        lab.run_clients(3, 60);
        lab.wait_for_jobs();
        lab.check_all();
        let mut members = lab.members.clone();
        members[1] = spare;
        lab.check_parity(&members);
    }
}

#[test]
fn a_clean_stop_assembles_in_any_order_and_says_so_on_disk() {
    for mut lab in labs(500) {
        lab.run_clients(2, 40);
        lab.stop();
        let order: Vec<usize> = (0..lab.members.len()).rev().collect();
        lab.assemble(&order, AssembleOptions::default()).unwrap();
        assert!(lab.array.job().is_none(), "nothing to resync");
        lab.check_all();
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for preset in PRESETS {
        let run = |seed| {
            let lab = Lab::with_preset(seed, SHAPES[4], preset);
            lab.run_clients(4, 50);
            (lab.world.trace_hash(), lab.world.now())
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }
}
