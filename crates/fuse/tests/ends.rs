//! How mounts begin and end: by us, by others, and by the death of their server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod common;

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    os::{
        fd::AsFd,
        unix::{
            fs::{MetadataExt, PermissionsExt, chown},
            process::CommandExt,
        },
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
};

use rustix::{fs::syncfs, io::Errno};
use stripewise_fuse::{
    Mount, MountError, MountOptions, Session, Unmount, Wishes, clear_dead_mount,
    mount::{BlockMount, is_dead_mount},
};
use stripewise_testkit::{Lack, Need, go_on, tool, tool_said, which};

use common::{Mounted, code, end, memory::Memory, wait_until};

/// Tells the child, which is this program again, where to mount.
const POINT: &str = "STRIPEWISE_FUSE_TEST_POINT";

#[test]
#[ignore = "what the child does, until it is killed"]
fn serves_until_it_is_killed() {
    let Some(point) = std::env::var_os(POINT) else { return };
    let mount = Mount::new(Path::new(&point), &MountOptions::default()).unwrap();
    let _session = Session::start(mount, &Wishes::default(), Arc::new(Memory::default()), 2).unwrap();
    println!("\nmounted");
    loop {
        thread::park();
    }
}

/// Kills the child in any case.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_child(point: &Path) -> Killed {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "serves_until_it_is_killed", "--ignored", "--nocapture"]).env(POINT, point);
    let mut child = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let is_mounted = lines.map_while(Result::ok).any(|line| line == "mounted");
    assert!(is_mounted, "the child has not mounted");
    child
}

#[test]
fn the_mount_of_a_killed_server_is_told_from_others_and_cleared() {
    if !common::can_run(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().join("a point");
    fs::create_dir(&point).unwrap();
    let child = start_child(&point);
    fs::write(point.join("file"), b"x").unwrap();
    assert!(!is_dead_mount(&point).unwrap());
    assert!(matches!(clear_dead_mount(&point), Err(MountError::NotOurs { .. })), "it is alive");
    drop(child);
    assert_eq!(code(fs::read_dir(&point)), Some(Errno::NOTCONN));
    assert!(is_dead_mount(&point).unwrap());
    assert!(clear_dead_mount(&point).unwrap());
    assert_eq!(fs::read_dir(&point).unwrap().count(), 0);
    assert!(!clear_dead_mount(&point).unwrap());
}

#[test]
fn a_session_whose_mount_another_has_ended_leaves_the_next_one_on_the_folder_alone() {
    if !common::can_run(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mount = Mount::new(folder.path(), &MountOptions::default()).unwrap();
        Session::start(mount, &Wishes::default(), Arc::new(Memory::default()), 1).unwrap()
    };
    let first = start();
    stripewise_fuse::unmount(folder.path(), Unmount::Now).unwrap();
    wait_until("its threads have ended", || first.is_ended());
    let second = start();
    fs::write(folder.path().join("file"), b"x").unwrap();
    first.join().unwrap();
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"x");
    end(second);
}

#[test]
fn unmounting_ends_the_threads() {
    if !common::can_run(&[]) {
        return;
    }
    let mut mounted = Mounted::new();
    assert!(!mounted.session().is_ended());
    mounted.end();
}

#[test]
fn a_mount_in_use_is_refused_detached_or_aborted() {
    if !common::can_run(&[]) {
        return;
    }
    let mut mounted = Mounted::new();
    fs::write(mounted.path("file"), b"x").unwrap();
    let file = File::open(mounted.path("file")).unwrap();
    let path = mounted.path("file");
    assert!(matches!(mounted.session().unmount(Unmount::Now), Err(MountError::Busy { .. })));
    mounted.session().unmount(Unmount::Detach).unwrap();
    assert_eq!(code(fs::metadata(path)), Some(Errno::NOENT));
    let mut content = String::new();
    (&file).read_to_string(&mut content).unwrap();
    assert!(content == "x" && !mounted.session().is_ended(), "its last user is served");
    drop(file);
    wait_until("the threads end", || mounted.session.as_ref().unwrap().is_ended());
}

#[test]
fn an_abort_ends_the_threads_although_somebody_uses_the_mount() {
    if !common::can_run(&[]) {
        return;
    }
    let mut mounted = Mounted::new();
    let file = File::create(mounted.path("file")).unwrap();
    mounted.session().unmount(Unmount::Abort).unwrap();
    wait_until("the threads end", || mounted.session.as_ref().unwrap().is_ended());
    assert!(rustix::fs::fstatfs(file.as_fd()).is_err());
}

#[test]
fn another_program_may_unmount() {
    if !common::can_run(&[Need::Tool("umount")]) {
        return;
    }
    let mounted = Mounted::new();
    tool("umount", &[mounted.root().to_str().unwrap()]);
    mounted.end();
}

#[test]
fn a_mount_that_nobody_serves_leaves_nothing_behind() {
    if !common::can_run(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    drop(Mount::new(folder.path(), &MountOptions::default()).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let missing = Mount::new(&folder.path().join("none"), &MountOptions::default());
    assert!(matches!(missing, Err(MountError::System { .. })));
}

/// A loop device for the time of a test.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        tool_said("losetup", &["-d", &self.0]);
    }
}

/// The kernel sends SYNCFS to block mounts alone, and DESTROY as well.
#[test]
fn a_block_mount_hears_of_syncfs_and_of_its_end() {
    if !common::can_run(&[
        Need::Tool("losetup"),
        Need::Device("/dev/loop-control"),
        Need::FileSystem("fuseblk"),
    ]) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let device =
        Loop(tool("losetup", &["--find", "--show", file.path().to_str().unwrap()]).trim().to_owned());
    let block = Some(BlockMount { device: device.0.clone().into(), block_bytes: Some(4096) });
    let mounted = Mounted::with(&MountOptions { block, ..MountOptions::default() }, &Wishes::default());
    fs::write(mounted.path("file"), b"x").unwrap();
    syncfs(File::open(mounted.path("file")).unwrap()).unwrap();
    println!("fuseblk: {} syncfs", mounted.memory.count("syncfs"));
    let is_new = rustix::system::uname().release().to_str().is_ok_and(|release| at_least(release, (6, 18)));
    assert!(!is_new || mounted.memory.count("syncfs") == 1);
    let memory = mounted.memory.clone();
    mounted.end();
    assert_eq!(memory.count("destroy"), 1);
}

fn at_least(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|release| release >= wanted)
}

/// Other mounts write their dirty pages at syncfs(2), and hear nothing of it.
#[test]
fn a_plain_mount_does_not_hear_of_syncfs() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted =
        Mounted::with(&MountOptions::default(), &Wishes { writeback_cache: true, ..Wishes::default() });
    let file = File::create(mounted.path("file")).unwrap();
    rustix::io::write(&file, b"x").unwrap();
    syncfs(&file).unwrap();
    // Nor need the call wait for these writes.
    wait_until("the write", || mounted.memory.count("write") == 1);
    assert_eq!(mounted.memory.count("syncfs"), 0);
    drop(file);
    mounted.end();
}

#[test]
fn the_helper_mounts_and_unmounts() {
    if !common::can_run(&[Need::Tool("fusermount3")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options =
        MountOptions { source: "a, b".into(), read_bytes_max: Some(65536), ..MountOptions::default() };
    let mount = Mount::by_helper(folder.path(), &options).unwrap();
    let mut session = Session::start(mount, &Wishes::default(), Arc::new(Memory::default()), 1).unwrap();
    fs::write(folder.path().join("file"), b"x").unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(mounts.contains("- fuse.stripewise a,\\040b "), "{mounts}");
    let file = File::open(folder.path().join("file")).unwrap();
    let refused = session.unmount(Unmount::Now).unwrap_err();
    assert!(matches!(&refused, MountError::Helper { said, .. } if said.contains("busy")), "{refused}");
    drop(file);
    end(session);
}

#[test]
fn another_program_may_unmount_what_the_helper_has_mounted() {
    if !common::can_run(&[Need::Tool("fusermount3"), Need::Tool("umount")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = Mount::by_helper(folder.path(), &MountOptions::default()).unwrap();
    let mut session = Session::start(mount, &Wishes::default(), Arc::new(Memory::default()), 1).unwrap();
    tool("umount", &[folder.path().to_str().unwrap()]);
    session.unmount(Unmount::Detach).unwrap();
    session.join().unwrap();
}

#[test]
#[ignore = "what the child does, as a user without rights"]
fn mounts_and_unmounts_as_this_user() {
    let Some(point) = std::env::var_os(POINT) else { return };
    let (point, options) = (Path::new(&point), MountOptions::default());
    assert!(matches!(Mount::direct(point, &options), Err(MountError::System { .. })), "mount(2) is allowed");
    let mount = Mount::new(point, &options).unwrap();
    let session = Session::start(mount, &Wishes::default(), Arc::new(Memory::default()), 1).unwrap();
    // The root folder is root's, and the kernel checks permissions.
    assert_eq!(code(fs::write(point.join("file"), b"x")), Some(Errno::ACCESS));
    assert_eq!(fs::read_dir(point).unwrap().count(), 0);
    end(session);
    assert!(!is_dead_mount(point).unwrap());
}

#[test]
fn a_user_without_rights_mounts_by_the_helper() {
    const NOBODY: u32 = 65534;
    if !common::can_run(&[Need::Tool("fusermount3")]) {
        return;
    }
    let helper = which("fusermount3").unwrap();
    if fs::metadata(helper).unwrap().mode() & 0o4000 == 0 {
        go_on(None, &[Lack { what: "fusermount3 is not set-user-ID root".to_owned(), is_demanded: true }]);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let point = folder.path().join("point");
    fs::create_dir(&point).unwrap();
    chown(&point, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "mounts_and_unmounts_as_this_user", "--ignored"]).env(POINT, &point);
    command.uid(NOBODY).gid(NOBODY).current_dir("/");
    let Ok(output) = command.output() else {
        go_on(None, &[Lack::kernel("others may not run this program where it lies")]);
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
