//! Discards: what mkfs and fstrim do to members that unmap, and to members that cannot.

use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use crate::common::{MIB, Mounted, Need, Sandbox, can_run, eventually, tool};

const NEEDS: [Need<'_>; 6] = [
    Need::Tool("mkfs.ext4"),
    Need::Tool("fstrim"),
    Need::Tool("losetup"),
    Need::Tool("nbdkit"),
    Need::Root,
    Need::Device("/dev/fuse"),
];

/// Bytes that files have on their disk.
fn stored_bytes(files: &[PathBuf]) -> u64 {
    files.iter().map(|file| std::fs::metadata(file).unwrap().blocks() * 512).sum()
}

/// A sparse file behind an NBD server that knows neither zeroes nor discards, as a hard disk on SATA.
struct PlainDisk {
    server: Child,
    file: PathBuf,
    uri: String,
}

impl PlainDisk {
    fn new(folder: &Path, name: &str, bytes: u64) -> Self {
        let (file, socket) = (folder.join(name), folder.join(format!("{name}.sock")));
        File::create(&file).unwrap().set_len(bytes).unwrap();
        let server = Command::new("nbdkit")
            .args(["--foreground", "--filter=nozero", "--unix"])
            .arg(&socket)
            .arg("file")
            .arg(&file)
            .spawn()
            .unwrap();
        eventually("nbdkit listens", || socket.exists());
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        Self { server, file, uri }
    }
}

impl Drop for PlainDisk {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Once each discarded stripe was zeroed, and zeroes written to members that do not unmap: mkfs overwrote every member in full.
#[test]
fn a_file_system_on_members_that_cannot_unmap_writes_next_to_nothing() {
    if !can_run(&NEEDS) {
        return;
    }
    const DISK_BYTES: u64 = 4 << 30;
    let sandbox = Sandbox::new();
    let disks: Vec<_> =
        (0..4).map(|i| PlainDisk::new(sandbox.folder(), &format!("plain{i}"), DISK_BYTES)).collect();
    let uris: Vec<_> = disks.iter().map(|disk| disk.uri.clone()).collect();
    let files: Vec<_> = disks.iter().map(|disk| disk.file.clone()).collect();
    sandbox.ok("create a --level 5 --assume-clean --no-measure", &uris);
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
    tool("mkfs.ext4", &["-q", &device]);
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
    assert!(trimmed < empty + 16 * MIB, "{empty}, {full}, then {trimmed}");
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
