//! File systems in an array's own daemon: made, mounted, used, stopped, killed, degraded and rebuilt.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
};

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{
    common::{MIB, Need, Sandbox, eventually, has_ended, noise},
    world::{World, can_mount},
};

const NONE: [&str; 0] = [];

/// An array `a` of files, without a resync.
fn created(sandbox: &Sandbox, more: &str) -> Vec<String> {
    let members = sandbox.members(4, 96 * MIB);
    sandbox.ok(&format!("create a --level 5 --chunk 64K --assume-clean {more}"), &members);
    members
}

/// Writes folders and files below `root`, the same for a number.
fn grow_tree(root: &Path, number: u64) {
    for folder in 0..4 {
        let folder = root.join(format!("folder{folder}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..12_usize {
            fs::write(folder.join(format!("file{file}")), noise(number + file as u64, file * 9000)).unwrap();
        }
        std::os::unix::fs::symlink("file1", folder.join("link")).unwrap();
    }
    fs::write(root.join("large"), noise(number, 5 << 20)).unwrap();
}

/// Panics unless two trees hold the same.
fn assert_same(one: &Path, other: &Path) {
    let said =
        Command::new("diff").args(["--recursive", "--no-dereference"]).args([one, other]).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}

fn run_in(folder: &Path, program: &str, words: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env("HOME", folder).env("GIT_CONFIG_NOSYSTEM", "1");
    let said = command.output().unwrap();
    assert!(said.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn a_tree_git_and_a_database_live_through_a_stop_of_the_array() {
    if !can_mount(&[Need::Tool("diff"), Need::Tool("git"), Need::Tool("sqlite3")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let members = created(sandbox, "");
    let planned = sandbox.json("mkfs a --dry-run");
    assert_eq!((&planned["data_columns"], &planned["chunk_bytes"]), (&3.into(), &65_536.into()));
    let made = sandbox.json("mkfs a --label home");
    assert_eq!((&made["label"], &made["shape_from"]), (&"home".into(), &"the array".into()));
    assert!(sandbox.done("df a").contains("not mounted"));
    let mounted = sandbox.json(&format!("mount a {point}"));
    assert_eq!((&mounted["target"], &mounted["pid"]), (&"a".into(), &sandbox.status("a")["pid"]));
    let status = sandbox.status("a");
    assert_eq!((&status["mounted"]["point"], &status["mounted"]["label"]), (&json!(point), &json!("home")));
    assert!(sandbox.done("status").contains(&format!("RAFS \"home\" mounted on {point}")));
    assert!(sandbox.done("detail a").contains("mounted on"));

    let (copy, root) = (sandbox.folder().join("copy"), world.inside("tree"));
    grow_tree(&copy, 7);
    grow_tree(&root, 7);
    let repository = world.inside("repository");
    run_in(
        world.point().as_ref(),
        "git",
        &["clone", "--quiet", "--bare", "--shared", &own_repository(sandbox), "repository"],
    );
    run_in(&repository, "git", &["fsck", "--full"]);
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
                INSERT INTO t SELECT i, hex(zeroblob(100)) FROM n;";
    run_in(
        point.as_ref(),
        "sqlite3",
        &["db", &format!("PRAGMA journal_mode=WAL; CREATE TABLE t(i, x); {rows}")],
    );
    let listed = sandbox.json("df a");
    assert_eq!((&listed[0]["point"], &listed[0]["array"]), (&json!(point), &json!("a")));

    assert!(sandbox.done("umount a").contains("unmounted"));
    let looked = sandbox.json("fsck a");
    assert_eq!((&looked["clean"], &looked["records"]), (&true.into(), &0.into()), "{looked}");
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    sandbox.done(&format!("mount a {point} -o ro"));
    assert_same(&copy, &root);
    run_in(&repository, "git", &["fsck", "--full"]);
    let counted = run_in(
        point.as_ref(),
        "sqlite3",
        &["file:db?immutable=1", "SELECT count(*), sum(i) FROM t; PRAGMA integrity_check;"],
    );
    assert_eq!(counted, "2000|2001000\nok\n");
    assert!(fs::write(world.inside("new"), "x").is_err());
    world.umount();
    sandbox.assert_consistent("a");
}

/// A repository with some commits.
fn own_repository(sandbox: &Sandbox) -> String {
    let folder = sandbox.folder().join("origin");
    fs::create_dir(&folder).unwrap();
    run_in(&folder, "git", &["init", "--quiet"]);
    for commit in 0..3 {
        grow_tree(&folder.join(format!("part{commit}")), commit);
        run_in(&folder, "git", &["add", "."]);
        let words = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "a"];
        run_in(&folder, "git", &words);
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn an_array_is_mounted_attached_or_served_and_what_is_in_the_way_is_named() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let socket = sandbox.path("nbd");
    sandbox.fails(1, &format!("mount a {point}"), &NONE, &["no array of that name", "stripewise assemble a"]);
    sandbox.fails(1, "mkfs a", &NONE, &["stripewise assemble a"]);
    created(sandbox, "");
    sandbox.fails(1, &format!("mount a {point}"), &NONE, &["no RAFS file system", "stripewise mkfs"]);
    sandbox.fails(8, "fsck a", &NONE, &["no RAFS file system"]);
    sandbox.fails(1, "mkfs a --geometry 3x64K", &NONE, &["leave out --geometry"]);
    sandbox.fails(1, "umount a", &NONE, &["no file system mounted"]);
    sandbox.done("mkfs a");
    sandbox.fails(1, "mkfs a", &NONE, &["a RAFS file system", "--force"]);
    sandbox.done("mkfs a --force");
    sandbox.fails(1, &format!("mount a {point} --buffer 16K"), &NONE, &["buffer"]);
    let linked = sandbox.run_dir().join("dev/a");
    sandbox.fails(
        1,
        &format!("mount {} {point}", linked.display()),
        &NONE,
        &["not attached", "give its name"],
    );

    sandbox.done(&format!("mount a {point}"));
    let advice = format!("stripewise umount {point}");
    for line in ["attach a", "mkfs a --force", &format!("serve a --unix {socket}"), "stop a"] {
        sandbox.fails(1, line, &NONE, &["is mounted on", &advice]);
    }
    sandbox.fails(1, &format!("serve a --read-only --unix {socket}"), &NONE, &[&advice]);
    sandbox.fails(1, "bench run a --rw randwrite --size 1M --force", &NONE, &[&advice]);
    sandbox.fails(8, "fsck -y a", &NONE, &["is mounted on", "stripewise umount"]);
    let looked = sandbox.json("fsck a");
    assert_eq!((&looked["clean"], &looked["mounted"]), (&json!(true), &json!(point)));
    let other = sandbox.path("other");
    fs::create_dir(&other).unwrap();
    sandbox.fails(1, &format!("mount a {other}"), &NONE, &["is mounted on", &advice]);
    // It is in use; detached, it is as long as that lasts.
    let held = File::create(world.inside("held")).unwrap();
    sandbox.fails(1, &format!("umount {point}"), &NONE, &["--lazy"]);
    sandbox.done(&format!("umount {point} --lazy"));
    sandbox.fails(1, "attach a", &NONE, &["was detached from", "close what is open"]);
    drop(held);
    eventually("it is let go of", || sandbox.status("a")["mounted"].is_null());

    sandbox.done(&format!("serve a --unix {socket}"));
    for line in [&format!("mount a {point}"), "mkfs a --force"] {
        sandbox.fails(1, line, &NONE, &["is served at", "stripewise serve a --stop"]);
    }
    sandbox.done("serve a --stop");
    sandbox.done(&format!("mount a {point} -o defaults,noauto,nofail,_netdev,x-systemd.automount"));
    // A file beside the array's name.
    sandbox.member("a", MIB);
    sandbox.fails(1, "df a", &NONE, &["an array and a file", "./a"]);
    world.umount();
}

#[test]
fn an_attached_array_is_not_mounted_and_its_block_device_has_the_same_file_system() {
    if !can_mount(&[Need::Device("/dev/loop-control")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    created(sandbox, "");
    sandbox.done("mkfs a");
    sandbox.done(&format!("mount a {point}"));
    fs::write(world.inside("file"), "by the daemon").unwrap();
    sandbox.done("umount a");
    let device = sandbox.done("attach a --method fuse").trim().to_owned();
    sandbox.fails(1, &format!("mount a {point}"), &NONE, &["is attached at", "stripewise detach a"]);
    sandbox.fails(8, "fsck a", &NONE, &["stripewise detach a"]);
    assert_eq!(sandbox.json(&format!("fsck {device}"))["clean"], true);
    sandbox.done(&format!("mount {device} {point}"));
    assert_eq!(fs::read(world.inside("file")).unwrap(), b"by the daemon");
    fs::write(world.inside("file"), "by another process").unwrap();
    world.umount();
    sandbox.done("detach a");
    sandbox.done(&format!("mount a {point}"));
    assert_eq!(fs::read(world.inside("file")).unwrap(), b"by another process");
    sandbox.done("umount a");

    // Stripe 1, of 3 chunks of 64 KiB, has an anchor. The array's daemon mends it.
    let device = sandbox.done("attach a --method fuse").trim().to_owned();
    let disk = File::options().write(true).open(device).unwrap();
    disk.write_all_at(&[0x5a; 192 << 10], 192 << 10).unwrap();
    disk.sync_all().unwrap();
    drop(disk);
    sandbox.done("detach a");
    sandbox.fails(1, "fsck -y a", &NONE, &[]);
    assert_eq!(sandbox.json("fsck a")["notes"], json!([]));
    assert!(sandbox.done("fsck a").contains("clean"));
    sandbox.done(&format!("mount a {point}"));
    assert_eq!(fs::read(world.inside("file")).unwrap(), b"by another process");
    sandbox.done("umount a");
}

#[test]
fn sigterm_unmounts_and_stops_and_a_second_one_takes_the_mount_from_its_users() {
    if !can_mount(&[Need::Tool("umount")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let members = created(sandbox, "");
    sandbox.done("mkfs a");
    sandbox.done(&format!("mount a {point} --tt 10m"));
    let content = noise(3, 4 << 20);
    fs::write(world.inside("file"), &content).unwrap();
    sandbox.signal(sandbox.pid("a"), Signal::TERM);
    sandbox.ok("assemble a", &members);
    let looked = sandbox.json("fsck a");
    assert_eq!((&looked["clean"], &looked["records"]), (&true.into(), &0.into()), "{looked}");
    sandbox.done(&format!("mount a {point} --tt 10m"));
    assert!(fs::read(world.inside("file")).unwrap() == content, "what was not synced was written out");

    // In use: the first signal waits, the second does not, and what is buffered is written out all the same.
    fs::write(world.inside("later"), &content).unwrap();
    let mut held = File::create(world.inside("held")).unwrap();
    let pid = sandbox.pid("a");
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it tells that the mount is in use", || sandbox.log("a").contains("is in use"));
    assert!(!has_ended(pid) && held.write_all(b"still served").is_ok());
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it has ended", || has_ended(pid));
    assert!(held.write_all(b"x").is_err());
    drop(held);
    sandbox.ok("assemble a", &members);
    let looked = sandbox.json("fsck a");
    assert_eq!((&looked["clean"], &looked["records"]), (&true.into(), &0.into()), "{looked}");
    sandbox.done(&format!("mount a {point}"));
    assert!(fs::read(world.inside("later")).unwrap() == content);
    assert_eq!(fs::read(world.inside("held")).unwrap(), b"still served");

    // By a command: as mdadm, it refuses what is in use, unless it is forced.
    fs::write(world.inside("last"), &content).unwrap();
    let held = File::create(world.inside("held")).unwrap();
    sandbox.fails(1, "stop a", &NONE, &["is mounted on", "--force"]);
    sandbox.done("stop a --force");
    drop(held);
    sandbox.ok("assemble a", &members);
    sandbox.done(&format!("mount a {point}"));
    assert!(fs::read(world.inside("last")).unwrap() == content);
    // umount(8): the daemon notices, and the array is free.
    eventually("umount(8) is let", || Command::new("umount").arg(&point).status().unwrap().success());
    eventually("the daemon knows", || sandbox.status("a")["mounted"].is_null());
    sandbox.done("stop a");
}

/// The mount is detached and in use, and another one is in its place: a signal leaves that one alone.
#[test]
fn what_else_is_mounted_on_the_folder_stays() {
    if !can_mount(&[Need::Tool("umount"), Need::Tool("mount")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    created(sandbox, "");
    sandbox.done("mkfs a");
    sandbox.done(&format!("mount a {point}"));
    let held = File::create(world.inside("held")).unwrap();
    run_in("/".as_ref(), "umount", &["--lazy", &point]);
    run_in("/".as_ref(), "mount", &["-t", "tmpfs", "tmpfs", &point]);
    fs::write(world.inside("mark"), "a stranger's").unwrap();
    let pid = sandbox.pid("a");
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it tells that the mount is in use", || sandbox.log("a").contains("was detached from"));
    assert_eq!(fs::read(world.inside("mark")).unwrap(), b"a stranger's");
    drop(held);
    eventually("it has ended", || has_ended(pid));
    assert_eq!(fs::read(world.inside("mark")).unwrap(), b"a stranger's");
    run_in("/".as_ref(), "umount", &[&point]);
}

#[test]
fn a_member_fails_and_is_replaced_while_it_is_mounted() {
    if !can_mount(&[Need::Tool("diff")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let members = created(sandbox, "");
    sandbox.done("mkfs a");
    sandbox.done(&format!("mount a {point}"));
    let (copy, root) = (sandbox.folder().join("copy"), world.inside("tree"));
    grow_tree(&copy.join("before"), 1);
    grow_tree(&root.join("before"), 1);
    sandbox.done(&format!("fail a {}", members[1]));
    grow_tree(&copy.join("degraded"), 2);
    grow_tree(&root.join("degraded"), 2);
    // Overwritten in place, where there is no place for that.
    fs::write(copy.join("before/large"), noise(9, 1 << 20)).unwrap();
    fs::write(root.join("before/large"), noise(9, 1 << 20)).unwrap();
    let spare = sandbox.member("spare", 96 * MIB);
    sandbox.done(&format!("add a {spare}"));
    grow_tree(&copy.join("rebuilt"), 3);
    grow_tree(&root.join("rebuilt"), 3);
    sandbox.done("wait a");
    assert_same(&copy, &root);
    sandbox.done("umount a");
    assert_eq!(sandbox.json("fsck a")["clean"], true);
    sandbox.assert_consistent("a");
    sandbox.done("stop a");
    let current: Vec<_> = [&members[0], &members[2], &members[3], &spare].map(String::clone).into();
    sandbox.ok("assemble a", &current);
    sandbox.done(&format!("fail a {}", members[0]));
    sandbox.done(&format!("mount a {point} -o ro"));
    assert_same(&copy, &root);
    sandbox.done("umount a");
}
