//! Made, mounted, used, unmounted, looked at, killed, mounted again.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use stripewise_wire::MountChoice;

use super::{
    common::{KIB, Loop, MIB, Need, eventually, has_ended, noise},
    world::{World, can_mount},
};

fn pid_of(world: &World) -> Pid {
    let told = world.sandbox.json(&format!("df {}", world.point()));
    Pid::from_raw(told[0]["pid"].as_i64().unwrap() as i32).unwrap()
}

fn live_on(world: &World, target: &str) {
    let (sandbox, point) = (&world.sandbox, world.point());
    let mounted = sandbox.json(&format!("mount {target} {point}"));
    assert_eq!(mounted["target"], target);
    let content = noise(1, 3 << 20);
    fs::write(world.inside("file"), &content).unwrap();
    fs::create_dir(world.inside("folder")).unwrap();
    // What is told counts what was made durable.
    fs::File::open(world.inside("folder")).unwrap().sync_all().unwrap();
    // Other tests may leave a dead mount for a moment, of which it tells, too.
    let listed = sandbox.run("df", &[""; 0]).out;
    assert!(listed.contains(&point), "{listed}");
    let full = sandbox.json(&format!("df {target}"));
    assert_eq!((&full[0]["inodes"], full[0]["point"].as_str()), (&3.into(), Some(&*point)));
    sandbox.fails(8, &format!("fsck -p {target}"), &[""; 0], &["is mounted on", "stripewise umount"]);
    let looked = sandbox.json(&format!("fsck {target}"));
    assert_eq!((&looked["clean"], &looked["mounted"]), (&true.into(), &mounted["point"]));
    assert!(sandbox.done(&format!("fsck -n {target}")).contains("last checkpoint"));
    let other = sandbox.path("other");
    fs::create_dir_all(&other).unwrap();
    sandbox.fails(1, &format!("mount {target} {other}"), &[""; 0], &["in use"]);
    sandbox.fails(1, &format!("mkfs {target} --force"), &[""; 0], &["in use"]);
    assert!(sandbox.done(&format!("umount {point}")).contains("unmounted"));
    let looked = sandbox.json(&format!("fsck {target}"));
    assert_eq!(
        (&looked["clean"], &looked["inodes"], &looked["records"]),
        (&true.into(), &3.into(), &0.into())
    );
    assert!(sandbox.done(&format!("df {target}")).contains("not mounted"));
    sandbox.done(&format!("mount {target} {point} -o ro"));
    assert!(fs::read(world.inside("file")).unwrap() == content);
    assert!(fs::write(world.inside("new"), "x").is_err());
    world.umount();
}

#[test]
fn a_file_system_in_a_file() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let target = world.sandbox.path("disk");
    let planned = world.sandbox.json(&format!("mkfs {target} --size 64M --dry-run --geometry 3x32K"));
    assert_eq!(
        (&planned["stripes"], &planned["chunk_bytes"]),
        (&(64 * MIB / (96 * KIB)).into(), &(32 * KIB).into())
    );
    assert!(!fs::exists(&target).unwrap());
    let made = world.sandbox.json(&format!("mkfs {target} --size 64M --label home"));
    assert_eq!((&made["label"], &made["data_columns"]), (&"home".into(), &4.into()));
    live_on(&world, &target);
}

#[test]
fn a_file_system_on_a_loop_device() {
    if !can_mount(&[Need::Tool("losetup"), Need::Device("/dev/loop-control")]) {
        return;
    }
    let world = World::new();
    let device = Loop::new(&world.sandbox.member("disk", 64 * MIB));
    world.sandbox.done(&format!("mkfs {} --geometry 4x64K --order columns", device.0));
    live_on(&world, &device.0);
}

#[test]
fn a_server_that_is_killed_or_asked_to_end() {
    if !can_mount(&[Need::Tool("sync")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point, target) = (&world.sandbox, world.point(), world.sandbox.path("disk"));
    sandbox.done(&format!("mkfs {target} --size 64M"));
    let mounted = sandbox.json(&format!("mount {target} {point}"));
    fs::write(world.inside("synced"), "synced").unwrap();
    assert!(Command::new("sync").arg("-f").arg(&point).status().unwrap().success());
    let is_block = mounted["is_block"] == true;
    if !is_block {
        // Without a loop device, that takes the time of --tt.
        thread::sleep(Duration::from_secs(8));
    }
    let pid = pid_of(&world);
    sandbox.signal(pid, Signal::KILL);
    sandbox.fails(1, &format!("df {point}"), &[""; 0], &["has died"]);
    // The next mount clears what is left.
    sandbox.done(&format!("mount {target} {point} --no-loop --tt 1s"));
    assert_eq!(fs::read(world.inside("synced")).unwrap(), b"synced");
    fs::write(world.inside("later"), "later").unwrap();
    let pid = pid_of(&world);
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it has unmounted and ended", || has_ended(pid));
    assert_eq!(sandbox.json(&format!("fsck {target}"))["inodes"], 3);
    sandbox.done(&format!("mount {target} {point}"));
    assert_eq!(fs::read(world.inside("later")).unwrap(), b"later");
    sandbox.signal(pid_of(&world), Signal::KILL);
    assert!(sandbox.done(&format!("umount {point}")).contains("cleared"));
    assert_eq!(sandbox.json(&format!("fsck {target}"))["clean"], true);
}

/// Three files are made durable by a record each, the server is killed, and the second record rots.
#[test]
fn a_rotten_record_leaves_what_was_before_it_to_a_mount_for_reading() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point, target) = (&world.sandbox, world.point(), world.sandbox.path("disk"));
    sandbox.done(&format!("mkfs {target} --size 64M"));
    sandbox.done(&format!("mount {target} {point} --no-loop --tt 1h"));
    for name in ["one", "two", "three"] {
        let file = fs::File::create(world.inside(name)).unwrap();
        file.sync_all().unwrap();
    }
    sandbox.signal(pid_of(&world), Signal::KILL);
    sandbox.done(&format!("umount {point}"));
    let mut bytes = fs::read(&target).unwrap();
    let records: Vec<usize> =
        (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(b"RAFSjrnl")).collect();
    assert_eq!(records.len(), 3, "{records:?}");
    bytes[records[1] + 100] ^= 1;
    fs::write(&target, &bytes).unwrap();

    let mount = |options: &str| sandbox.run(&format!("mount {target} {point} {options}"), &[""; 0]);
    let seen = || ["one", "two", "three"].map(|name| world.inside(name).exists());
    let refused = mount("");
    assert!(refused.code == Some(1) && refused.err.contains("read-only"), "{refused:?}");
    let said = mount("-o ro");
    assert!(said.code == Some(0) && said.err.contains("is not seen"), "{said:?}");
    assert_eq!(seen(), [true, false, false]);
    // A mount for reading is looked at as the last checkpoint left it.
    let looked = sandbox.json(&format!("fsck {target}"));
    assert_eq!((&looked["clean"], &looked["inodes"]), (&true.into(), &1.into()), "{looked}");
    world.umount();
    let said = mount("-o ro,norecovery");
    assert!(said.code == Some(0) && !said.err.contains("is not seen"), "{said:?}");
    assert_eq!(seen(), [false; 3]);
    world.umount();
    assert!(fs::read(&target).unwrap() == bytes);
    assert_eq!(sandbox.run(&format!("fsck -y {target}"), &[""; 0]).code, Some(1));
    assert_eq!(mount("").code, Some(0));
    assert_eq!(seen(), [true, false, false]);
    world.umount();
}

#[test]
fn a_server_in_the_foreground_ends_with_its_mount() {
    if !can_mount(&[Need::Tool("umount")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point, target) = (&world.sandbox, world.point(), world.sandbox.path("disk"));
    sandbox.done(&format!("mkfs {target} --size 64M"));
    let mut server =
        sandbox.command().args(["mount", &target, &point, "--foreground", "--buffer", "8M"]).spawn().unwrap();
    eventually("it is mounted", || sandbox.run("df", &[&point]).out.contains(&target));
    fs::write(world.inside("file"), "x").unwrap();
    eventually("umount(8) is let", || Command::new("umount").arg(&point).status().unwrap().success());
    assert!(server.wait().unwrap().success());
    assert_eq!(sandbox.json(&format!("fsck {target}"))["inodes"], 2);
}

/// As with ^C, before the server has mounted it.
#[test]
fn a_mount_is_taken_back_if_the_command_that_asked_for_it_has_gone() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let target = sandbox.path("disk");
    sandbox.done(&format!("mkfs {target} --size 64M"));
    let choice = MountChoice {
        point: point.clone().into(),
        buffer_bytes: 8 << 20,
        age_ms: 5000,
        ..MountChoice::default()
    };
    let spec = json!({ "target": target, "choice": choice, "threads": 1 });
    let mut server = sandbox.command();
    server.arg("mount-daemon").arg(&point).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = server.spawn().unwrap();
    drop(server.stdout.take());
    server.stdin.take().unwrap().write_all(spec.to_string().as_bytes()).unwrap();
    eventually("the server ends", || server.try_wait().unwrap().is_some());
    assert_ne!(Command::new("mountpoint").args(["-q", &point]).status().unwrap().code(), Some(0));
    let log = fs::read_dir(sandbox.run_dir()).unwrap().map(|entry| entry.unwrap().path());
    let said: String =
        log.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap()).collect();
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(sandbox.json(&format!("fsck {target}"))["clean"], true);
}
