//! Arrays with a bitmap of md's own: each member has one, which the kernel takes for stale while the array
//! runs, and believes after a clean stop. A story of the simulator added a member to such an array, and power
//! failed: the member never got a bitmap.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Lab, MEMBER_BYTES, Shape};
use stripewise_engine::{AssembleOptions, geometry::Level};
use stripewise_format::md::{
    Features, Superblock,
    bitmap::{BITMAP_SUPERBLOCK_LEN, BitmapSuperblock},
};
use stripewise_sim::SimMember;

const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
/// Where mdadm puts it.
const BITMAP_AT: usize = 8192;

fn superblock(member: &SimMember) -> Superblock {
    Superblock::decode(&member.snapshot().bytes()[4096..8192], 8).unwrap()
}

fn bitmap(member: &SimMember) -> Option<BitmapSuperblock> {
    BitmapSuperblock::decode(&member.snapshot().bytes()[BITMAP_AT..]).ok()
}

/// Gives a member of a stopped array a bitmap as mdadm does.
fn give_bitmap(member: &SimMember) {
    let mut superblock = superblock(member);
    superblock.features = superblock.features.with(Features::BITMAP_OFFSET);
    superblock.bitmap_offset_sectors = 8;
    let mut bytes = [0; BITMAP_SUPERBLOCK_LEN];
    bytes[..4].copy_from_slice(b"bitm");
    bytes[4] = 4;
    bytes[8..24].copy_from_slice(superblock.array_uuid.as_bytes());
    bytes[24..32].copy_from_slice(&superblock.events.to_le_bytes());
    bytes[32..40].copy_from_slice(&superblock.events.to_le_bytes());
    bytes[40..48].copy_from_slice(&superblock.member_size_sectors.to_le_bytes());
    bytes[52..56].copy_from_slice(&65536_u32.to_le_bytes());
    bytes[56] = 5;
    member.poke(4096, &superblock.encode()[..]);
    member.poke(BITMAP_AT as u64, &bytes);
}

/// An array with bitmaps in which a fifth device has taken the place of the last member.
fn with_added_member() -> Lab {
    let mut lab = Lab::new(1, RAID5);
    lab.stop();
    lab.members.iter().for_each(|member| give_bitmap(member));
    lab.assemble_all(AssembleOptions::default()).unwrap();
    // Dirty: a clean array's are settled at each change.
    lab.run_clients(2, 40);
    let spare = lab.world.add_member("m4", MEMBER_BYTES);
    lab.members.push(spare.clone());
    let array = lab.array.clone();
    lab.world.run(async move {
        array.fail("m3").await.unwrap();
        array.add(spare).await.unwrap();
    });
    lab.wait_for_jobs();
    lab
}

#[test]
fn a_member_that_is_added_has_a_bitmap_that_the_kernel_takes_for_stale() {
    let lab = with_added_member();
    let added = &lab.members[4];
    assert!(bitmap(added).expect("it has one").events < superblock(added).events);
}

#[test]
fn a_clean_stop_settles_bitmaps_of_members_that_were_added_before_a_crash() {
    let mut lab = with_added_member();
    lab.crash();
    lab.assemble(&[0, 1, 2, 4], AssembleOptions::default().run(true)).unwrap();
    lab.wait_for_jobs();
    lab.stop();
    for member in [0, 1, 2, 4].map(|index| &lab.members[index]) {
        let (bitmap, events) = (bitmap(member).expect("each has one"), superblock(member).events);
        assert_eq!((bitmap.events, bitmap.events_cleared), (events, events));
    }
}

#[test]
fn a_bitmap_that_was_lost_is_there_again_at_the_next_opening() {
    let mut lab = Lab::new(2, RAID5);
    lab.stop();
    lab.members.iter().for_each(|member| give_bitmap(member));
    lab.members[1].poke(BITMAP_AT as u64, &[0; BITMAP_SUPERBLOCK_LEN]);
    lab.assemble_all(AssembleOptions::default()).unwrap();
    assert!(bitmap(&lab.members[1]).expect("it has one").events <= superblock(&lab.members[1]).events);
}
