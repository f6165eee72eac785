//! A bad block where a resync is due.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{DATA_OFFSET, faulty::latent_error};
use stripewise_device::{Device, IoBuf, wrap::Fault};
use stripewise_engine::{
    Array, CreateOptions,
    geometry::{Level, StripeIndex},
};
use stripewise_sim::World;

/// "Of a chunk that waits to be rewritten the first counts" (docs/failure-model.md): it waits for the resync.
#[test]
fn a_bad_block_where_a_resync_is_due_counts_once() {
    let mut world = World::new(1);
    let (mut members, mut faults) = (Vec::<Arc<dyn Device>>::new(), Vec::new());
    for i in 0..4 {
        let (fault, handle) = Fault::new(world.add_member(format!("m{i}"), 33 << 20));
        members.push(Arc::new(fault));
        faults.push(handle);
    }
    let options = CreateOptions::new("sim:stale", Level::Raid5, members);
    let env = world.env();
    let array = world.run({
        let env = env.clone();
        async move {
            let array = Array::create(env.clone(), options).await.unwrap();
            while array.job().is_none() {
                env.sleep(Duration::from_micros(1)).await;
            }
            array.pause_jobs();
            array
        }
    });
    world.run_for(Duration::from_secs(3));
    let stripe = StripeIndex(array.geometry().stripes() - 1);
    assert!(!array.stripes(stripe.0..stripe.0 + 1)[0].synced, "the resync has not come there");
    let member = array.geometry().member_of(stripe, 0).0;
    let offset = DATA_OFFSET + array.geometry().chunk_start(stripe);
    faults[member].add(latent_error(offset..33 << 20));
    for _ in 0..30 {
        let (array, at) = (array.clone(), stripe.0 * array.geometry().stripe_bytes());
        world.run(async move { array.read(at, IoBuf::with_len(4096)).await }).unwrap();
        world.run_for(Duration::from_millis(1500));
    }
    assert!(faults[member].failed() >= 30, "it is there");
    let report = world.run({
        let array = array.clone();
        async move { array.report().await }
    });
    let errors: Vec<_> = report.members.iter().map(|member| member.read_errors).collect();
    assert_eq!((report.in_sync, errors.iter().sum::<u32>()), (vec![true; 4], 1));
}
