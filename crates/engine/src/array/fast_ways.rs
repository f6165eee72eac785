//! Which writes need no plan. Were their ways never taken, nothing that they leave and count would tell
//! (`tests/closed_form.rs` holds the two to be alike).

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use stripewise_device::{Device, memory::MemoryDevice};
use stripewise_sim::World;

use super::Array;
use crate::{
    CreateOptions, TraceFilter,
    geometry::Level,
    plan::selection::{POLICIES, Policy},
};

const CHUNK: u64 = 16384;
const BLOCK: u64 = 4096;

fn array(level: Level, members: usize, policy: Option<&'static Policy>) -> (World, Array) {
    let world = World::new(1);
    let member = |i| Arc::new(MemoryDevice::new(format!("m{i}"), 3 << 20)) as Arc<dyn Device>;
    let mut options = CreateOptions::new("fast", level, (0..members).map(member).collect());
    options.chunk_bytes = CHUNK as u32;
    options.assume_clean = true;
    options.policy = policy;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    (world, array)
}

/// How a write is begun.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    WholeStripe,
    ClosedForm,
    Plan,
}

fn way(array: &Array, offset: u64, len: u64) -> Way {
    let shared = &array.shared;
    let request = shared.requests.enter();
    let topology = shared.topology.get(&request);
    let span = shared.geometry.split(offset..offset + len).next().unwrap();
    if shared.whole_stripe(&topology, &span).is_some() {
        return Way::WholeStripe;
    }
    let selection = &**shared.selection.get(&request).value();
    if shared.closed_form(&topology, selection, &span).is_some() { Way::ClosedForm } else { Way::Plan }
}

#[test]
fn whole_stripes_and_small_writes_of_one_column_need_no_plan() {
    for (level, members) in [(Level::Raid4, 5), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 6)] {
        for policy in POLICIES {
            let (world, array) = array(level, members, Some(policy));
            let what = format!("{level:?} of {members}, {}", policy.name);
            let stripe = array.geometry().stripe_bytes();
            assert_eq!(way(&array, 3 * stripe, stripe), Way::WholeStripe, "{what}");
            for (offset, blocks) in [(0, 1), (stripe + CHUNK, 3), (2 * stripe - BLOCK, 1)] {
                assert_eq!(way(&array, offset, blocks * BLOCK), Way::ClosedForm, "{what}");
            }
            for (offset, len) in [(512, 1024), (CHUNK - BLOCK, 2 * BLOCK), (BLOCK, stripe - BLOCK)] {
                assert_eq!(way(&array, offset, len), Way::Plan, "{what}");
            }
            let (failed, first) = (array.clone(), format!("m{}", members - 1));
            world.run(async move { failed.fail(&first).await }).unwrap();
            assert_eq!(way(&array, 3 * stripe, stripe), Way::Plan, "{what}, a member is missing");
        }
    }
}

#[test]
fn whoever_traces_decisions_sees_plans() {
    let (_world, array) = array(Level::Raid5, 4, None);
    let stripe = array.geometry().stripe_bytes();
    assert_ne!(way(&array, 0, BLOCK), Way::Plan);
    array.trace_decisions(TraceFilter::default(), 1);
    assert_eq!([way(&array, 0, BLOCK), way(&array, 0, stripe)], [Way::Plan, Way::Plan]);
}
