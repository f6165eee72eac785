//! Level 0 has no redundancy: it takes no spares, and no member is added or replaced while it runs.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{MEMBER_BYTES, devices};
use stripewise_device::Device;
use stripewise_engine::{Array, ArrayError, CreateError, CreateOptions, geometry::Level};
use stripewise_sim::World;

#[test]
fn spares_are_refused_before_anything_is_written_and_members_stay() {
    let mut world = World::new(1);
    let members: Vec<_> = (0..3).map(|i| world.add_member(format!("m{i}"), MEMBER_BYTES)).collect();
    let mut options = CreateOptions::new("sim:striped", Level::Raid0, devices(&members[..2]));
    let spare = members[2].clone() as Arc<dyn Device>;
    let mut with_spare = options.clone();
    with_spare.spares = vec![spare.clone()];
    let env = world.env();
    let refused = world.run(async move { Array::create(env, with_spare).await.map(drop) });
    assert!(matches!(refused, Err(CreateError::SparesWithoutRedundancy)), "{refused:?}");
    assert!(members.iter().all(|member| member.snapshot().bytes().iter().all(|byte| *byte == 0)));
    options.measure = false;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    world.run(async move {
        let refused = [array.add(spare).await, array.replace("m0", "m1").await];
        assert!(
            refused.iter().all(|result| matches!(result, Err(ArrayError::Unsupported(_)))),
            "{refused:?}"
        );
    });
}
