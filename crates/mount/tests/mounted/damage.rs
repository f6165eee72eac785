//! Volumes on which something is damaged.

use std::fs;

use stripewise_rafs::check::Problem;

use super::common::{Disk, MIB, can_run, pattern};

const EIO: i32 = 5;

#[test]
fn a_damaged_block_of_a_file_is_an_error_and_never_wrong_bytes() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(32 * MIB);
    let content = pattern(9, 50_000);
    let mounted = disk.mount();
    fs::write(mounted.path("damaged"), &content).unwrap();
    fs::write(mounted.path("whole"), pattern(10, 50_000)).unwrap();
    mounted.end();
    let mut volume = fs::read(disk.file()).unwrap();
    let block = &content[8192..12_288];
    let places: Vec<_> = volume.chunks(4096).enumerate().filter(|(_, found)| *found == block).collect();
    let places: Vec<_> = places.into_iter().map(|(number, _)| number * 4096).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|place| volume[place + 17] ^= 1);
    fs::write(disk.file(), volume).unwrap();
    let mounted = disk.mount();
    let error = fs::read(mounted.path("damaged")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(EIO), "{error}");
    assert!(fs::read(mounted.path("whole")).unwrap() == pattern(10, 50_000));
    mounted.end();
}

#[test]
fn a_file_system_is_found_without_its_first_superblock() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(32 * MIB);
    let mut volume = fs::read(disk.file()).unwrap();
    volume[..4096].fill(0xff);
    fs::write(disk.file(), volume).unwrap();
    let mounted = disk.mount();
    fs::write(mounted.path("file"), "x").unwrap();
    mounted.end();
    let problems = disk.problems();
    assert!(matches!(problems[..], [Problem::Superblock { place: 0, bad: 1 }]), "{problems:#?}");
}
