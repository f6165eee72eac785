//! Arrays with a cache against a model: healthy, degraded, rebuilding, crashed, stopped.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Lab, SHAPES, Shape};
use stripewise_device::Device;
use stripewise_engine::{AssembleOptions, CacheKind, CacheSettings, geometry::Level};

/// Shapes of which the level keeps parity.
fn shapes() -> impl Iterator<Item = Shape> {
    let two = Shape { level: Level::Raid5, members: 2, chunk_bytes: 8192 };
    SHAPES.into_iter().filter(|shape| shape.level.has_parity()).chain([two])
}

/// A cache of a few stripes, as the seed says.
fn cache(seed: u64, lab: &Lab) -> CacheSettings {
    let kind = [CacheKind::Stripe, CacheKind::Pbg][seed as usize % 2];
    let stripes = [2, 3, 8, 1000][(seed / 2) as usize % 4];
    let stripe_bytes = lab.array.geometry().stripe_bytes();
    CacheSettings::new(kind, (stripes * stripe_bytes * 5 / 4 + 16384).min(64 << 20))
}

fn options(seed: u64, lab: &Lab) -> AssembleOptions {
    AssembleOptions::default().cache(cache(seed, lab))
}

/// An array with a cache.
fn cached(seed: u64, shape: Shape) -> Lab {
    let mut lab = Lab::new(seed, shape);
    lab.stop();
    let options = options(seed, &lab);
    println!("{:?}", options.cache);
    lab.assemble_all(options).unwrap();
    lab
}

fn all() -> impl Iterator<Item = (u64, Lab)> {
    shapes().enumerate().flat_map(|(number, shape)| {
        (0..8).map(move |seed| (seed, cached(1000 * number as u64 + seed, shape)))
    })
}

fn fail(lab: &Lab, member: usize) {
    let (array, name) = (lab.array.clone(), lab.members[member].info().name.clone());
    lab.world.run(async move { array.fail(&name).await }).unwrap();
}

#[test]
fn a_healthy_array_keeps_what_is_written_and_its_parity() {
    for (seed, mut lab) in all() {
        lab.run_clients(4, 60);
        lab.check_all();
        lab.flush();
        lab.check_all();
        lab.check_parity(&lab.members);
        lab.run_clients(2, 30);
        lab.stop();
        lab.check_parity(&lab.members);
        lab.assemble_all(options(seed + 1, &lab)).unwrap();
        lab.check_all();
    }
}

#[test]
fn what_was_flushed_survives_a_power_failure() {
    for (seed, mut lab) in all() {
        for _ in 0..4 {
            lab.start_clients(3, 100);
            lab.world.run_steps(lab.world.random(4000));
            lab.crash();
            lab.assemble_all(options(seed + 1, &lab)).unwrap();
            lab.adopt();
        }
        lab.wait_for_jobs();
        lab.check_parity(&lab.members);
    }
}

#[test]
fn every_tolerated_loss_is_survived_under_load() {
    for (_, lab) in all() {
        lab.start_clients(3, 200);
        let mut alive: Vec<usize> = (0..lab.shape.members).collect();
        for _ in 0..lab.array.geometry().parity_columns() {
            lab.world.run_steps(lab.world.random(3000));
            let victim = alive.swap_remove(lab.world.random(alive.len() as u64) as usize);
            fail(&lab, victim);
        }
        lab.run_clients(1, 0);
        lab.pass(5);
        lab.check_all();
        lab.flush();
        lab.check_all();
    }
}

#[test]
fn a_member_is_rebuilt_under_load() {
    for (seed, mut lab) in all() {
        lab.run_clients(3, 30);
        let victim = lab.world.random(lab.members.len() as u64) as usize;
        fail(&lab, victim);
        lab.run_clients(3, 30);
        let spare = lab.world.add_member("spare", common::MEMBER_BYTES);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world.run(async move { array.add(device).await }).unwrap();
        lab.run_clients(3, 60);
        lab.wait_for_jobs();
        lab.check_all();
        lab.members[victim] = spare;
        lab.stop();
        lab.check_parity(&lab.members);
        lab.assemble_all(options(seed + 1, &lab)).unwrap();
        lab.check_all();
    }
}

/// Without a flush, what is dirty reaches the members by itself: after half a minute, or when clients are idle.
#[test]
fn what_is_dirty_is_written_in_time() {
    for (seed, mut lab) in all() {
        lab.run_clients(3, 30);
        lab.pass(40);
        lab.check_parity(&lab.members);
        lab.crash();
        lab.assemble_all(options(seed + 1, &lab)).unwrap();
        lab.adopt();
    }
}
