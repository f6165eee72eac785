//! Members whose data begins at different places.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{DATA_OFFSET, Lab, MEMBER_BYTES, Shape};
use stripewise_device::Device;
use stripewise_engine::{ArrayError, AssembleOptions, examine, geometry::Level};

const SHAPES: [Shape; 4] = [
    Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 },
    Shape { level: Level::Raid4, members: 4, chunk_bytes: 16384 },
    Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 },
    Shape { level: Level::Raid6, members: 5, chunk_bytes: 8192 },
];

const LEAST_OFFSET: u64 = 512 << 10;

/// Once a device was refused that had no room for today's default offset, although its data would fit: an
/// equal disk of an array that an older mdadm made.
#[test]
fn a_device_is_taken_if_its_data_fits_behind_the_least_offset() {
    for (seed, shape) in (1..).zip(SHAPES) {
        for room in [LEAST_OFFSET, LEAST_OFFSET + 12288, DATA_OFFSET - 4096] {
            let mut lab = Lab::new(seed, shape);
            lab.run_clients(2, 40);
            let small = lab.world.add_member("small", MEMBER_BYTES - DATA_OFFSET + room);
            let (array, device) = (lab.array.clone(), small.clone() as Arc<dyn Device>);
            lab.world
                .run(async move {
                    array.fail("m0").await?;
                    array.add(device).await?;
                    array.wait_for_jobs().await;
                    Ok::<_, ArrayError>(())
                })
                .unwrap();
            lab.run_clients(2, 40);
            lab.check_all();
            lab.stop();
            let device: Arc<dyn Device> = small.clone();
            let examined = lab.world.run(async move { examine(device).await }).unwrap();
            assert_eq!(examined.superblock.data_offset_sectors * 512, room);
            assert!(examined.extension.is_ok(), "it has room for what we keep");
            // Another one lost: what the small one holds is needed.
            lab.members[0] = small;
            let without_last: Vec<_> = (0..shape.members - 1).collect();
            lab.assemble(&without_last, AssembleOptions::default().run(true)).unwrap();
            lab.check_all();
        }
    }
}

#[test]
fn a_device_without_room_for_any_offset_is_too_small() {
    let mut lab = Lab::new(9, SHAPES[2]);
    let small: Arc<dyn Device> =
        lab.world.add_member("small", MEMBER_BYTES - DATA_OFFSET + LEAST_OFFSET - 4096);
    let array = lab.array.clone();
    let error = lab.world.run(async move { array.add(small).await }).unwrap_err();
    assert!(matches!(error, ArrayError::TooSmall { .. }), "{error}");
}
