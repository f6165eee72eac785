//! One copy of a member's extension header is damaged when the array is opened. The damaged copy is written
//! first: the other one is the only valid one until then, and a write that does not end may destroy it.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Lab, Shape};
use stripewise_device::{
    Device, IoErrorKind,
    wrap::{Fault, FaultRule, Operation},
};
use stripewise_engine::{AssembleOptions, assemble, examine, geometry::Level};
use stripewise_format::{
    extension::{ExtensionLayout, HeaderCopy},
    media::{BLOCK_BYTES, BLOCK_LEN},
};
use stripewise_sim::SimMember;

const RAID5: Shape = Shape { level: Level::Raid5, members: 3, chunk_bytes: 16384 };

fn layout_of(lab: &Lab, member: &Arc<SimMember>) -> ExtensionLayout {
    let device = member.clone() as Arc<dyn Device>;
    let examination = lab.world.run(async move { examine(device).await }).unwrap();
    ExtensionLayout::for_superblock(&examination.superblock).unwrap()
}

#[test]
fn the_only_valid_copy_of_a_header_is_not_overwritten_first() {
    for damaged in [HeaderCopy::A, HeaderCopy::B] {
        let lab = Lab::new(7, RAID5);
        let member = lab.members[0].clone();
        let layout = layout_of(&lab, &member);
        lab.crash();
        member.poke(layout.header_offset_bytes(damaged), &[0xa5; BLOCK_LEN]);

        // The write of the valid copy fails, and leaves rubbish.
        let valid_bytes = layout.header_offset_bytes(damaged.other());
        let (device, faults) = Fault::new(member.clone());
        faults.add(FaultRule {
            operation: Operation::Write,
            range_bytes: valid_bytes..valid_bytes + BLOCK_BYTES,
            kind: IoErrorKind::Medium,
            times: u32::MAX,
            healed_by_write: false,
        });
        let mut devices = common::devices(&lab.members);
        devices[0] = Arc::new(device);
        let env = lab.world.env();
        let opened = lab.world.run(async move { assemble(env, devices, &AssembleOptions::default()).await });
        let array = opened.unwrap();
        lab.world.run(async move { array.stop().await }).unwrap();
        member.poke(valid_bytes, &[0xa5; BLOCK_LEN]);

        let device = member.clone() as Arc<dyn Device>;
        let found = lab.world.run(async move { examine(device).await }).unwrap();
        assert!(found.extension.is_ok(), "damaged {damaged:?}: {:?}", found.extension.err());
    }
}
