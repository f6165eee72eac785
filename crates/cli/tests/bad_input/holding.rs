//! Devices that hold something, also where it lies in odd places, and paths that do not lead where they did a
//! moment ago.

use std::{
    fs::{File, rename},
    io::IoSlice,
    os::{
        fd::AsFd,
        unix::{
            fs::{FileExt, OpenOptionsExt, PermissionsExt},
            net::UnixStream,
        },
    },
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::common::{Loop, MIB, Mounted, Need, Sandbox, can_run, eventually, run_bounded, tool};

const SIZE: u64 = 24 * MIB;

fn write_at(path: &str, offset: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

/// A creation that has looked at its devices, and whose daemon waits for its name until the lock is dropped.
fn create_until_opening(sandbox: &Sandbox, options: &[&str], members: &[String]) -> (Child, File) {
    std::fs::create_dir(sandbox.run_dir()).unwrap();
    std::fs::set_permissions(sandbox.run_dir(), PermissionsExt::from_mode(0o700)).unwrap();
    let lock = File::create(sandbox.run_dir().join("a.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut create = sandbox.command();
    create.args(["create", "a", "--level", "5", "--assume-clean"]).args(options).args(members);
    let create = create.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the daemon is there", || sandbox.opening_daemon().is_some());
    (create, lock)
}

#[test]
fn a_path_that_leads_elsewhere_when_it_is_opened_is_refused() {
    for options in [&[][..], &["--force"]] {
        let sandbox = Sandbox::new();
        let members = sandbox.members(3, SIZE);
        let precious = sandbox.member("precious", SIZE);
        write_at(&precious, 0x438, &[0x53, 0xef]);
        let before = std::fs::read(&precious).unwrap();
        let (create, lock) = create_until_opening(&sandbox, options, &members);
        rename(&precious, &members[1]).unwrap();
        drop(lock);
        let said = create.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(1), "{err}");
        assert!(err.contains(&members[1]) && err.contains("has taken its place"), "{err}");
        assert!(std::fs::read(&members[1]).unwrap() == before, "the file that took its place was written");
        let first = std::fs::read(&members[0]).unwrap();
        assert!(first.iter().all(|byte| *byte == 0), "another was written before all were looked at");
    }
}

#[test]
fn what_comes_onto_a_device_after_the_look_is_not_overwritten() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, SIZE);
    let (create, lock) = create_until_opening(&sandbox, &[], &members);
    write_at(&members[2], 0, b"XFSB");
    drop(lock);
    let said = create.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&said.stderr);
    assert!(
        said.status.code() == Some(1) && err.contains("an XFS file system") && err.contains("--force"),
        "{err}"
    );
    assert!(std::fs::read(&members[0]).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_and_the_loop_device_over_it_are_one_device() {
    if !can_run(&[Need::Tool("losetup"), Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new();
    let members = sandbox.members(2, SIZE);
    let (over, again) = (Loop::new(&members[0]), Loop::new(&members[0]));
    let blank = |member: &String| std::fs::read(member).unwrap().iter().all(|byte| *byte == 0);
    for second in [&members[0], &again.0] {
        let given = [&over.0, &members[1], second];
        for option in ["", "--force"] {
            let line = format!("create a --level 5 {option}");
            sandbox.fails(1, &line, &given, &[&over.0, second, "are the same device"]);
        }
    }
    assert!(members.iter().all(blank), "a refused creation wrote");
    sandbox.ok("create a --level 1", &[&over.0, &members[1]]);
    sandbox.fails(1, "add a --force", &members[..1], &[&members[0]]);
}

#[test]
fn what_lies_in_odd_places_takes_force_too() {
    let sandbox = Sandbox::new();
    // A superblock of md 1.0, a label of LVM in the third sector, and what is left of a GPT whose beginning
    // is lost.
    let crafted: [(&str, u64, &[u8], &str); 4] = [
        ("md10", SIZE - 8192, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0], "metadata 1.0"),
        ("lvm", 1024, b"LABELONE", "LVM physical volume"),
        ("gpt", SIZE - 512, b"EFI PART", "GPT partition table"),
        ("swap", 65_526, b"SWAPSPACE2", "swap space"),
    ];
    let members = sandbox.members(3, SIZE);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    for (name, offset, bytes, told) in crafted {
        let odd = sandbox.member(name, SIZE);
        write_at(&odd, offset, bytes);
        let before = std::fs::read(&odd).unwrap();
        let fresh = sandbox.member("fresh", SIZE);
        sandbox.fails(1, "create b --level 1", &[&fresh, &odd], &[&odd, told, "--force"]);
        sandbox.fails(1, "add a", &[&odd], &[&odd, told, "--force"]);
        sandbox.fails(1, "replace a", &[&members[0], "--with", &odd], &[&odd, told]);
        assert!(std::fs::read(&odd).unwrap() == before, "{name} was written");
    }
}

#[test]
fn what_real_tools_make_is_seen() {
    if !can_run(&[
        Need::Tool("mkfs.minix"),
        Need::Tool("mkswap"),
        Need::Tool("mkfs.xfs"),
        Need::Tool("wipefs"),
    ]) {
        return;
    }
    let sandbox = Sandbox::new();
    let fresh = sandbox.member("fresh", SIZE);
    // XFS wants 300 MiB.
    let make: [(&str, &[&str], u64, &str); 4] = [
        ("mkfs.minix", &[], SIZE, "a minix file system"),
        ("mkswap", &["-p", "65536"], SIZE, "swap space"),
        ("mkswap", &[], SIZE, "swap space"),
        ("mkfs.xfs", &["-q"], 320 * MIB, "an XFS file system"),
    ];
    for (index, (program, options, size, told)) in make.into_iter().enumerate() {
        let device = sandbox.member(&format!("d{index}"), size);
        tool(program, &[options, &[&device]].concat());
        sandbox.fails(1, "create a --level 1", &[&fresh, &device], &[&device, told, "--force"]);
    }
    // Known to libblkid alone.
    let device = sandbox.member("cramfs", SIZE);
    write_at(&device, 0, &[0x45, 0x3d, 0xcd, 0x28]);
    write_at(&device, 16, b"Compressed ROMFS");
    let said = sandbox.fails(1, "create a --level 1", &[&fresh, &device], &[&device, "--force"]);
    assert!(said.contains("cramfs (as libblkid names it)"), "{said}");
}

#[test]
fn without_wipefs_our_own_list_stands() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(2, SIZE);
    write_at(&members[1], 0, b"LUKS\xba\xbe");
    let mut create = sandbox.command();
    create.args(["create", "a", "--level", "1"]).args(&members).env("PATH", "/nonexistent");
    let said = run_bounded(&mut create, Duration::from_secs(60));
    assert!(said.code == Some(1) && said.err.contains("a LUKS volume"), "{said:?}");
    assert!(!Path::new(&sandbox.run_dir()).join("a.sock").exists());
}

/// It takes as long as `wipefs` is waited for, which is asked of all devices one after the other: so of one
/// only.
#[test]
fn a_wipefs_that_hangs_has_not_found_the_device_blank() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(1, SIZE);
    let programs = sandbox.folder().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let hangs = programs.join("wipefs");
    std::fs::write(&hangs, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&hangs, PermissionsExt::from_mode(0o755)).unwrap();
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let create = |force: &[&str]| {
        let mut create = sandbox.command();
        create.args(["create", "a", "--level", "1", "--assume-clean"]).args(force).args(&members);
        run_bounded(create.arg("missing").env("PATH", &path), Duration::from_secs(100))
    };
    let said = create(&[]);
    assert!(said.code == Some(1) && said.err.contains("`wipefs` does not answer"), "{said:?}");
    assert!(said.err.contains("--force"), "{said:?}");
    assert!(std::fs::read(&members[0]).unwrap().iter().all(|byte| *byte == 0), "it was written");
    let said = create(&["--force"]);
    assert!(said.code == Some(0), "{said:?}");
}

/// A loop device keeps nobody from the file under it, nor does a file from the loop device over it.
#[test]
fn what_is_in_use_through_a_loop_device_is_refused_with_its_holder() {
    if !can_run(&[Need::Tool("losetup"), Need::Tool("mkfs.ext4"), Need::Tool("mount"), Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (file, fresh) = (sandbox.member("file", SIZE), sandbox.members(2, SIZE));
    let lower = Loop::new(&file);
    let upper = Loop::new(&lower.0);
    tool("mkfs.ext4", &["-q", &upper.0]);
    let point = sandbox.folder().join("mnt");
    let mounted = Mounted::new(&[&upper.0], &point);
    let frees = format!("`umount {}` frees it", point.display());
    for device in [&file, &lower.0] {
        let words = [device, "in use", &upper.0, "mounted on", &frees];
        sandbox.fails(1, "create a --level 1 --force", &[&fresh[0], device], &words);
    }
    assert!(std::fs::read(&fresh[0]).unwrap().iter().all(|byte| *byte == 0));
    mounted.unmount();
    // The same bytes by three names.
    for pair in [[&file, &upper.0], [&lower.0, &upper.0], [&file, &lower.0]] {
        sandbox.fails(1, "create a --level 1 --force", &pair, &[pair[0], pair[1], "are the same device"]);
    }
    // An array that has the file, and one that has the loop device over it.
    for (first, second) in [(&file, &upper.0), (&lower.0, &file), (&upper.0, &file), (&upper.0, &lower.0)] {
        sandbox.ok("create a --level 1 --force --assume-clean", &[&fresh[0], first]);
        let words = [second, "in use", "the array 'a' has it", "`stripewise stop a`"];
        sandbox.fails(1, "create b --level 1 --force", &[&fresh[1], second], &words);
        sandbox.done("stop a");
    }
}

/// The kernel refuses to claim a whole disk while one of its partitions is in use.
#[test]
fn a_partition_is_free_while_another_of_its_disk_is_in_use() {
    let needs = [
        Need::Tool("losetup"),
        Need::Tool("addpart"),
        Need::Tool("mkfs.ext4"),
        Need::Tool("mount"),
        Need::Root,
    ];
    if !can_run(&needs) {
        return;
    }
    let sandbox = Sandbox::new();
    let (file, fresh) = (sandbox.member("file", 3 * SIZE), sandbox.members(2, SIZE));
    let (disk, [first, second]) = Loop::with_partitions(&file, SIZE);
    tool("mkfs.ext4", &["-q", &first]);
    let point = sandbox.folder().join("mnt");
    let mounted = Mounted::new(&[&first], &point);
    let over = Loop::new(&second);
    for member in [&second, &over.0] {
        sandbox.ok("create a --level 1 --force --assume-clean", &[&fresh[0], member]);
        sandbox.done("stop a");
        sandbox.ok("assemble a", &[&fresh[0], member]);
        sandbox.done("stop a");
    }
    // The disk, and the file under it, have the partition that is mounted.
    for device in [&disk.0, &file] {
        let words = [device, "in use", "mounted on"];
        sandbox.fails(1, "create b --level 1 --force", &[&fresh[1], device], &words);
    }
    mounted.unmount();
    // A partition beside one that is a member, of the same array or of another.
    sandbox.ok("create a --level 1 --force --assume-clean", &[&fresh[0], &first]);
    sandbox.ok("create b --level 1 --force --assume-clean", &[&fresh[1], &second]);
    sandbox.done("stop b");
    sandbox.done("stop a");
    sandbox.ok("create a --level 1 --force --assume-clean", &[&first, &second]);
    // A loop device over a member is refused still.
    let words = [&over.0, "in use", "the array 'a' has it"];
    sandbox.fails(1, "create b --level 1 --force", &[&fresh[1], &over.0], &words);
}

/// A disk that its last holder has not let go of, although no process has it open any more: as after SIGKILL,
/// while the kernel winds up the I/O.
#[test]
fn a_disk_that_a_killed_daemon_still_has_is_waited_for() {
    if !can_run(&[Need::Tool("losetup"), Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new();
    let files = sandbox.members(2, SIZE);
    let loops = [Loop::new(&files[0]), Loop::new(&files[1])];
    let devices = [&loops[0].0, &loops[1].0];
    sandbox.ok("create a --level 1 --assume-clean", &devices);
    sandbox.done("stop a");
    let held = on_the_way(&loops[1].0);
    let mut assemble = sandbox.command();
    let assemble =
        assemble.args(["assemble", "a"]).args(devices).stdout(Stdio::null()).stderr(Stdio::piped());
    let assemble = assemble.spawn().unwrap();
    eventually("it waits", || sandbox.log("a").contains("waiting for the kernel to let go of it"));
    drop(held);
    let said = assemble.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

/// Has a device open for itself in a message that nobody receives: no process has it among its descriptors.
fn on_the_way(device: &str) -> (UnixStream, UnixStream) {
    let mut exclusive = None;
    eventually("the last holder has let go", || {
        exclusive = File::options().read(true).custom_flags(libc::O_EXCL).open(device).ok();
        exclusive.is_some()
    });
    let exclusive = exclusive.unwrap();
    let (sender, receiver) = UnixStream::pair().unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [exclusive.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(&sender, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
    (sender, receiver)
}
