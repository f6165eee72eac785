//! What `docs/on-disk-format.md` says of running an array in turns with the kernel's md, tried with it: the
//! states we leave an array in, and what the kernel makes of them.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::*;
use stripewise_format::md::bitmap::BitmapSuperblock;
use stripewise_format::md::{IN_SYNC, Role, SUPERBLOCK_SECTOR, Superblock};
use stripewise_format::media::SECTOR_BYTES;

const MEMBER_BYTES: u64 = 32 << 20;
const DEVICES: &str = "/dev/ubda /dev/ubdb /dev/ubdc";

/// Three members of a level 5 array with an internal bitmap, made by mdadm, filled, and stopped.
fn mdadm_made(scratch: &Scratch) -> Vec<PathBuf> {
    let members: Vec<_> = ["a", "b", "c"].iter().map(|name| scratch.member(name, MEMBER_BYTES)).collect();
    let script = format!(
        "mdadm --create /dev/md0 --run --level=5 --raid-devices=3 --chunk=64 --bitmap=internal {DEVICES}\n\
         mdadm --wait /dev/md0 || true\n\
         dd if=/dev/urandom of=/dev/md0 bs=64k count=256 2> /dev/null; sync\n\
         mdadm --stop /dev/md0"
    );
    println!("{}", guest(scratch, &members, &script));
    members
}

/// Changes a member's superblock, one event on.
fn change(member: &Path, change: impl FnOnce(&mut Superblock)) {
    let mut changed = superblock(member);
    changed.events += 1;
    change(&mut changed);
    write_at(member, SUPERBLOCK_SECTOR * SECTOR_BYTES, &changed.encode());
}

/// Leaves md's bitmap as a clean stop of ours has to.
fn settle_bitmap(member: &Path) {
    let superblock = superblock(member);
    let at = superblock.bitmap_sector().unwrap() * SECTOR_BYTES;
    let bitmap = BitmapSuperblock::decode(&read_at(member, at, 4096)).unwrap().settle(superblock.events);
    write_at(member, at, &[&bitmap.encode()[..], &vec![0; bitmap.bit_bytes() as usize]].concat());
}

/// Flips a chunk of the first stripe's parity, which the last member holds.
fn spoil_parity(members: &[PathBuf]) {
    let at = superblock(&members[2]).data_offset_sectors * SECTOR_BYTES;
    let spoilt: Vec<u8> = read_at(&members[2], at, 4096).iter().map(|byte| !byte).collect();
    write_at(&members[2], at, &spoilt);
}

fn parity_agrees(members: &[PathBuf]) -> bool {
    let at = superblock(&members[0]).data_offset_sectors * SECTOR_BYTES;
    let chunks: Vec<_> = members.iter().map(|member| read_at(member, at, 65536)).collect();
    (0..65536).all(|index| chunks.iter().fold(0, |sum, chunk| sum ^ chunk[index]) == 0)
}

#[test]
fn a_clean_stop_of_ours_is_clean_to_the_kernel() {
    if !guest_is_here() {
        return;
    }
    let scratch = Scratch::new("clean-stop");
    let members = mdadm_made(&scratch);
    for member in &members {
        change(member, |superblock| superblock.resync_offset_sectors = 0);
        change(member, |superblock| superblock.resync_offset_sectors = IN_SYNC);
        settle_bitmap(member);
    }
    let script = format!(
        "mdadm --assemble /dev/md0 {DEVICES}\n\
         test $(cat /sys/block/md0/md/sync_action) = idle\n\
         test $(cat /sys/block/md0/md/resync_start) = none\n\
         cat /proc/mdstat | grep -q 'bitmap: 0/'\n\
         ! dmesg | grep 'out of date'\n\
         mdadm --stop /dev/md0"
    );
    println!("{}", guest(&scratch, &members, &script));
    assert!(parity_agrees(&members));
}

#[test]
fn a_crash_of_ours_is_resynced_by_the_kernel() {
    if !guest_is_here() {
        return;
    }
    let scratch = Scratch::new("crash");
    let members = mdadm_made(&scratch);
    members.iter().for_each(|member| change(member, |superblock| superblock.resync_offset_sectors = 0));
    spoil_parity(&members);
    assert!(!parity_agrees(&members));
    let script = format!(
        "mdadm --assemble /dev/md0 {DEVICES}\n\
         mdadm --wait /dev/md0 || true\n\
         dmesg | grep 'out of date'\n\
         dmesg | grep 'resync done'\n\
         mdadm --stop /dev/md0"
    );
    println!("{}", guest(&scratch, &members, &script));
    assert!(parity_agrees(&members));
    assert!(members.iter().all(|member| superblock(member).is_in_sync()));
}

/// Without the events behind, the kernel would believe its clear bits: the reason to leave its bitmap alone
/// while dirty.
#[test]
fn a_bitmap_of_equal_events_is_believed() {
    if !guest_is_here() {
        return;
    }
    let scratch = Scratch::new("believed");
    let members = mdadm_made(&scratch);
    for member in &members {
        change(member, |superblock| superblock.resync_offset_sectors = 0);
        settle_bitmap(member);
    }
    spoil_parity(&members);
    let script = format!(
        "mdadm --assemble /dev/md0 {DEVICES}\n\
         mdadm --wait /dev/md0 || true\n\
         mdadm --stop /dev/md0"
    );
    println!("{}", guest(&scratch, &members, &script));
    assert!(
        !parity_agrees(&members),
        "the kernel now resyncs in spite of a clean bitmap: the document is too strict"
    );
}

#[test]
fn a_member_we_failed_stays_out() {
    if !guest_is_here() {
        return;
    }
    let scratch = Scratch::new("failed");
    let members = mdadm_made(&scratch);
    let failed = superblock(&members[1]).dev_number;
    for member in [&members[0], &members[2]] {
        change(member, |superblock| superblock.roles.set(failed, Role::Faulty).unwrap());
    }
    let script = format!(
        "mdadm --assemble --run /dev/md0 {DEVICES}\n\
         grep -q '\\[U_U\\]' /proc/mdstat\n\
         mdadm --stop /dev/md0"
    );
    println!("{}", guest(&scratch, &members, &script));
    assert!(superblock(&members[1]).events < superblock(&members[0]).events);
}

#[test]
fn a_crash_of_the_kernel_is_seen() {
    if !guest_is_here() {
        return;
    }
    let scratch = Scratch::new("kernel-crash");
    let members = mdadm_made(&scratch);
    let before = superblock(&members[0]).events;
    let script = format!(
        "mdadm --assemble /dev/md0 {DEVICES}\n\
         echo 0 > /sys/block/md0/md/safe_mode_delay\n\
         dd if=/dev/urandom of=/dev/md0 bs=64k count=16 2> /dev/null; sync\n\
         crash"
    );
    println!("{}", guest(&scratch, &members, &script));
    for member in &members {
        let found = superblock(member);
        assert_eq!(found.resync_offset_sectors, 0);
        assert!(found.events > before);
        let bytes = read_at(member, found.bitmap_sector().unwrap() * SECTOR_BYTES, 4096);
        assert!(!BitmapSuperblock::decode(&bytes).unwrap().is_clean(&bytes[256..]), "its intent is on disk");
    }
}
