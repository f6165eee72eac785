//! A first stripe that is lost, a target that cannot be written or has grown, and a mount that cannot write all out.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    process::Command,
};

use stripewise_testkit::tool;

use super::{
    common::{KIB, Loop, MIB, Mounted, Need, Sandbox, noise},
    world::{World, can_mount},
};

const NONE: [&str; 0] = [];

/// Everything that looks at a file system whose first stripe is lost says what makes it good, and mkfs does not overwrite it.
fn is_told(sandbox: &Sandbox, target: &str, point: &str) {
    let advice = format!("stripewise fsck -y {target}");
    sandbox.fails(1, &format!("mount {target} {point}"), &NONE, &["first stripe", &advice]);
    sandbox.fails(1, &format!("df {target}"), &NONE, &["first stripe", &advice]);
    sandbox.fails(1, &format!("mkfs {target}"), &NONE, &["whose first stripe is lost", "--force"]);
}

#[test]
fn an_array_whose_first_stripe_is_lost_is_mended_from_the_last() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let members = sandbox.members(3, 48 * MIB);
    sandbox.ok("create a --level 5 --chunk 64K --assume-clean", &members);
    sandbox.done("mkfs a");
    sandbox.fails(1, "mkfs a --dry-run", &NONE, &["a RAFS file system", "--force"]);
    sandbox.done(&format!("mount a {point}"));
    fs::write(world.inside("file"), noise(1, 300_000)).unwrap();
    world.umount();
    let offset = sandbox.json(&format!("examine {}", members[0]))[0]["data_offset_bytes"].as_u64().unwrap();
    sandbox.done("stop a");
    for member in &members {
        let member = File::options().write(true).open(member).unwrap();
        member.write_all_at(&vec![0; 64 << 10], offset).unwrap();
        member.sync_all().unwrap();
    }
    sandbox.ok("assemble a", &members);
    is_told(sandbox, "a", &point);
    let said = sandbox.run("fsck -n a", &NONE);
    assert_eq!(said.code, Some(4), "{said:?}");
    let said = sandbox.run("fsck -y a", &NONE);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(sandbox.json("fsck a")["clean"], true);
    sandbox.done(&format!("mount a {point}"));
    assert!(fs::read(world.inside("file")).unwrap() == noise(1, 300_000));
    world.umount();
    sandbox.assert_consistent("a");
}

#[test]
fn a_file_whose_first_stripe_is_lost_is_told_of_and_may_have_grown() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let target = sandbox.path("disk");
    // The last stripe does not end where the file does.
    sandbox.done(&format!("mkfs {target} --size 50000K --geometry 3x32K"));
    sandbox.fails(1, &format!("mkfs {target} --dry-run"), &NONE, &["a RAFS file system", "--force"]);
    let file = File::options().write(true).open(&target).unwrap();
    file.write_all_at(&vec![0; 96 << 10], 0).unwrap();
    is_told(sandbox, &target, &point);
    assert_eq!(sandbox.run(&format!("fsck -y {target}"), &NONE).code, Some(1));
    file.set_len(80 * MIB).unwrap();
    sandbox.done(&format!("mount {target} {point}"));
    fs::write(world.inside("file"), noise(1, 300_000)).unwrap();
    let size = sandbox.json(&format!("df {point}"))[0]["size_bytes"].as_u64().unwrap();
    assert!(size < 50_000 * KIB, "it has not grown itself");
    world.umount();
    assert_eq!(sandbox.json(&format!("fsck {target}"))["clean"], true);
    sandbox.done(&format!("dump {target} superblock"));
    file.set_len(40 * MIB).unwrap();
    sandbox.fails(1, &format!("mount {target} {point}"), &NONE, &["stripes"]);
}

/// Makes an ext4 on a target. It leaves copies of an earlier superblock alone.
fn make_ext4(target: &str) {
    tool("mkfs.ext4", &["-q", "-F", "-E", "nodiscard", target]);
}

/// Copies of its superblock are left in the last stripe, or also in the second column.
#[test]
fn what_has_taken_the_place_of_a_file_system_is_not_mended() {
    if !can_mount(&[Need::Tool("mkfs.ext4"), Need::Tool("mkswap"), Need::Tool("wipefs")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let target = sandbox.path("disk");
    let swap: fn(&str) = |target| _ = tool("mkswap", &["-q", target]);
    for (geometry, make, name) in [
        ("4x64K", make_ext4 as fn(&str), "ext2/3/4"),
        ("2x2M", make_ext4, "ext2/3/4"),
        ("4x64K", swap, "swap"),
    ] {
        sandbox.done(&format!("mkfs {target} --size 96M --geometry {geometry}"));
        make(&target);
        let made = fs::read(&target).unwrap();
        let held = ["holds", name, "only copies of the superblock", "wipefs"];
        for (code, line) in [
            (1, format!("mount {target} {point}")),
            (1, format!("df {target}")),
            (8, format!("fsck {target}")),
            (8, format!("fsck -y {target}")),
        ] {
            sandbox.fails(code, &line, &NONE, &held);
        }
        assert!(fs::read(&target).unwrap() == made, "{name}");
        sandbox.fails(1, &format!("mkfs {target}"), &NONE, &[name, "--force"]);
        // It was a mistake.
        tool("wipefs", &["-q", "-a", &target]);
        sandbox.fails(1, &format!("mkfs {target}"), &NONE, &["a RAFS file system", "--force"]);
        assert_eq!(sandbox.run(&format!("fsck -y {target}"), &NONE).code, Some(1), "{geometry} {name}");
        fs::remove_file(&target).unwrap();
    }
}

#[test]
fn an_array_with_a_new_file_system_of_another_kind_is_not_mended() {
    if !can_mount(&[Need::Tool("mkfs.ext4"), Need::Device("/dev/loop-control")]) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --chunk 64K --assume-clean", &sandbox.members(3, 48 * MIB));
    sandbox.done("mkfs a");
    make_ext4(sandbox.done("attach a --method fuse").trim());
    sandbox.done("detach a");
    for (code, line) in [(1, "df a"), (8, "fsck -n a"), (8, "fsck -y a")] {
        sandbox.fails(code, line, &NONE, &["ext2/3/4", "only copies of the superblock"]);
    }
}

/// Of the superblocks of an earlier file system none is left where it would count, and a copy elsewhere does not.
#[test]
fn what_is_mended_is_the_newest_file_system() {
    let sandbox = Sandbox::new();
    let target = sandbox.path("disk");
    // Their second columns and last stripes begin at different places.
    for (first, second) in
        [((2, 2048), (4, 64)), ((2, 2048), (4, 1024)), ((4, 2048), (2, 2048)), ((4, 64), (2, 8192))]
    {
        let geometry = |(columns, chunk_kib): (u64, u64)| format!("--geometry {columns}x{chunk_kib}K");
        let uuid = || sandbox.json(&format!("dump {target} superblock"))["uuid"].clone();
        sandbox.done(&format!("mkfs {target} --size 257M -K {}", geometry(first)));
        let file = File::options().read(true).write(true).open(&target).unwrap();
        let mut earlier = [0; 4096];
        file.read_exact_at(&mut earlier, 0).unwrap();
        sandbox.done(&format!("mkfs {target} --force -K {}", geometry(second)));
        let newest = uuid();
        file.write_all_at(&earlier, 512 * KIB).unwrap();
        for column in 0..second.0 {
            file.write_all_at(&[0; 4096], column * second.1 * KIB).unwrap();
        }
        assert_eq!(sandbox.run(&format!("fsck -y {target}"), &NONE).code, Some(1), "{first:?} {second:?}");
        assert_eq!(uuid(), newest, "{first:?} {second:?}");
        fs::remove_file(&target).unwrap();
    }
}

/// A disk that cannot be written until this is dropped: the next user of its number would have it so, too.
struct ReadOnly<'a>(&'a str);

impl<'a> ReadOnly<'a> {
    fn new(disk: &'a str) -> Self {
        tool("blockdev", &["--setro", disk]);
        Self(disk)
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        let _ = Command::new("blockdev").args(["--setrw", self.0]).status();
    }
}

#[test]
fn what_cannot_be_written_can_be_read() {
    if !can_mount(&[Need::Tool("losetup"), Need::Tool("blockdev")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let disk = Loop::new(&sandbox.member("disk", 48 * MIB));
    let target = &disk.0;
    sandbox.done(&format!("mkfs {target}"));
    sandbox.done(&format!("mount {target} {point}"));
    fs::write(world.inside("file"), "content").unwrap();
    world.umount();
    let _read_only = ReadOnly::new(target);
    assert_eq!(sandbox.json(&format!("fsck -n {target}"))["clean"], true);
    sandbox.done(&format!("df {target}"));
    sandbox.done(&format!("dump {target} tree"));
    sandbox.done(&format!("mount {target} {point} -o ro"));
    assert_eq!(fs::read(world.inside("file")).unwrap(), b"content");
    world.umount();
    for line in [format!("mount {target} {point}"), format!("mkfs {target} --force")] {
        sandbox.fails(1, &line, &NONE, &[target, "read-only"]);
    }
    sandbox.fails(8, &format!("fsck -y {target}"), &NONE, &[target, "read-only"]);
}

#[test]
fn umount_fails_if_not_all_could_be_written_out() {
    if !can_mount(&[Need::Tool("mount")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let small = Mounted::new(&["-t", "tmpfs", "-o", "size=8m", "none"], &sandbox.folder().join("small"));
    let target = sandbox.path("small/disk");
    sandbox.done(&format!("mkfs {target} --size 64M"));
    let link = sandbox.path("link");
    std::os::unix::fs::symlink(&point, &link).unwrap();
    for attempt in 0..2 {
        sandbox.done(&format!("mount {target} {point} --tt 1h"));
        // It may hear of it before.
        let _ = fs::write(world.inside(&format!("large{attempt}")), noise(attempt, 16 << 20));
        sandbox.fails(1, &format!("umount {link}"), &NONE, &["unmounted, but", "lost"]);
    }
    // What an earlier server has left says nothing of this one.
    sandbox.done(&format!("mount {target} {point} -o ro"));
    sandbox.done(&format!("umount {point}"));
    assert!(Command::new("mountpoint").args(["-q", &point]).status().unwrap().code() != Some(0));
    small.unmount();
}
