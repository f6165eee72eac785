//! Discards: what mkfs and fstrim do to members that unmap, and to members that cannot.

use std::{os::unix::fs::MetadataExt, path::PathBuf, process::Command};

use stripewise_testkit::served::ServedFile;

use crate::common::{MIB, Mounted, Need, Sandbox, can_run, tool};

const NEEDS: [Need<'_>; 7] = [
    Need::Tool("mkfs.ext4"),
    Need::Tool("fstrim"),
    Need::Tool("losetup"),
    Need::Tool("nbdkit"),
    Need::Tool("nbdfuse"),
    Need::Root,
    Need::Device("/dev/fuse"),
];

/// Bytes that files have on their disk.
fn stored_bytes(files: &[PathBuf]) -> u64 {
    files.iter().map(|file| std::fs::metadata(file).unwrap().blocks() * 512).sum()
}

/// Once each discarded stripe was zeroed, and zeroes written to members that do not unmap: mkfs overwrote
/// every member in full.
#[test]
fn a_file_system_on_members_that_cannot_unmap_writes_next_to_nothing() {
    if !can_run(&NEEDS) {
        return;
    }
    const DISK_BYTES: u64 = 4 << 30;
    let sandbox = Sandbox::new();
    let disks: Vec<_> =
        (0..4).map(|i| ServedFile::new(sandbox.folder(), &format!("plain{i}"), DISK_BYTES)).collect();
    let members: Vec<_> = disks.iter().map(|disk| disk.member.display().to_string()).collect();
    let files: Vec<_> = disks.iter().map(|disk| disk.stored.clone()).collect();
    sandbox.ok("create a --level 5 --assume-clean --no-measure", &members);
    let device = sandbox.done("attach a").trim().to_owned();
    let before = stored_bytes(&files);
    tool("mkfs.ext4", &["-q", &device]);
    let mounted = Mounted::new(&[&device], &sandbox.folder().join("mnt"));
    // The loop driver takes discards of a file that knows none, and drops them.
    let _ = Command::new("fstrim").arg(sandbox.folder().join("mnt")).output().unwrap();
    mounted.unmount();
    let written = stored_bytes(&files) - before;
    println!("{written} bytes of {} written", 4 * DISK_BYTES);
    assert!(written < 4 * DISK_BYTES / 100, "{written} bytes were written by mkfs and fstrim");
    sandbox.done("detach a");
    sandbox.done("stop a");
}

#[test]
fn what_is_discarded_on_members_that_unmap_is_freed() {
    if !can_run(&NEEDS) {
        return;
    }
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 128 * MIB);
    let files: Vec<_> = members.iter().map(|member| sandbox.folder().join(member)).collect();
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let device = sandbox.done("attach a").trim().to_owned();
    // With nothing left to the kernel, which would write it later.
    tool("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &device]);
    let point = sandbox.folder().join("mnt");
    let mounted = Mounted::new(&[&device], &point);
    let empty = stored_bytes(&files);
    std::fs::write(point.join("data"), crate::common::noise(3, 90 << 20)).unwrap();
    tool("sync", &["-f", point.to_str().unwrap()]);
    let full = stored_bytes(&files);
    assert!(full > empty + 90 * MIB, "{empty}, then {full}");
    std::fs::remove_file(point.join("data")).unwrap();
    tool("sync", &["-f", point.to_str().unwrap()]);
    tool("fstrim", &[point.to_str().unwrap()]);
    let trimmed = stored_bytes(&files);
    // What the journal of 16 MiB holds stays, with its parity.
    assert!(trimmed < empty + 32 * MIB, "{empty}, {full}, then {trimmed}");
    mounted.unmount();
    sandbox.assert_consistent("a");
    sandbox.done("detach a");
    // Where none are taken, nothing is freed.
    let device = sandbox.done("attach a --discard off").trim().to_owned();
    let before = stored_bytes(&files);
    let _ = Command::new("blkdiscard").args(["--force", &device]).output().unwrap();
    assert!(stored_bytes(&files) + MIB > before);
    sandbox.done("detach a");
}
