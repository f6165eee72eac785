//! Lines of fstab: mount(8) calls this program by the names of a helper. And options that are changed while it is mounted.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Stdio},
};

use rustix::fs::StatVfsMountFlags;
use stripewise_testkit::{Lack, Said, go_on, run_bounded};

use super::{
    common::{MIB, Need, eventually},
    world::{World, can_mount},
};

const NAMES: [&str; 3] = ["mount.stripewise", "mount.fuse.stripewise", "mount.fuseblk.stripewise"];
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// The helper where mount(8) looks for it, under all its names. Removed at the end.
struct Installed(Vec<PathBuf>);

impl Installed {
    /// None if something is there already.
    fn new() -> Option<Self> {
        let mut installed = Self(Vec::new());
        for name in NAMES {
            let path = PathBuf::from("/sbin").join(name);
            symlink(env!("CARGO_BIN_EXE_stripewise"), &path).ok()?;
            installed.0.push(path);
        }
        Some(installed)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| _ = fs::remove_file(path));
    }
}

/// mount(8) with these words, in the sandbox's environment.
fn mount8(world: &World, words: &[&str]) -> Said {
    let mut command = Command::new("mount");
    command.args(words).env("STRIPEWISE_RUN_DIR", world.sandbox.run_dir()).stdin(Stdio::null());
    run_bounded(&mut command, LIMIT)
}

fn pace(world: &World) -> (u64, u64) {
    let told = world.sandbox.json(&format!("df {}", world.point()));
    (told[0]["free_percent"].as_u64().unwrap(), told[0]["age_ms"].as_u64().unwrap())
}

#[test]
fn mount_8_mounts_remounts_and_unmounts_by_a_line_of_fstab() {
    if !can_mount(&[Need::Tool("mount"), Need::Tool("umount")]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let Some(_installed) = Installed::new() else {
        go_on(None, &[Lack::kernel("a helper is installed in /sbin already")]);
        return;
    };
    let fstab = sandbox.path("fstab");
    let options = "defaults,noauto,nofail,_netdev,x-systemd.automount,user,tf=30,tt=2s,buffer=16M";
    fs::write(&fstab, format!("a {point} stripewise {options} 0 0\n")).unwrap();
    let from_fstab = |words: &[&str]| mount8(&world, &[&["--fstab", &fstab], words].concat());
    let said = from_fstab(&[&point]);
    assert!(said.code == Some(32) && said.err.contains("stripewise assemble a"), "{said:?}");
    let members = sandbox.members(3, 64 * MIB);
    sandbox.ok("create a --level 5 --chunk 64K --assume-clean", &members);
    sandbox.done("mkfs a");
    let said = from_fstab(&[&point]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(pace(&world), (30, 2000));
    fs::write(world.inside("file"), "x").unwrap();

    // What can be changed while it is mounted.
    let said = mount8(&world, &["-o", "remount,tf=12,tt=700ms", &point]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(pace(&world), (12, 700));
    sandbox.done(&format!("mount a {point} -o remount --tt 3s"));
    assert_eq!(pace(&world), (12, 3000));
    let is_set = |flag| rustix::fs::statvfs(&point).unwrap().f_flag.contains(flag);
    for (word, is_wanted) in [("noexec", true), ("exec", false)] {
        let said = mount8(&world, &["-o", &format!("remount,{word}"), &point]);
        assert!(said.code == Some(0) && is_set(StatVfsMountFlags::NOEXEC) == is_wanted, "{said:?}");
    }
    sandbox.done(&format!("mount a {point} -o remount,nosuid,nodev,relatime"));
    assert!(is_set(StatVfsMountFlags::NOSUID) && is_set(StatVfsMountFlags::NODEV));
    assert!(!is_set(StatVfsMountFlags::NOATIME) && !is_set(StatVfsMountFlags::NOEXEC));
    assert_eq!(pace(&world), (12, 3000));
    sandbox.fails(1, &format!("mount a {point} -o remount,ro"), &[""; 0], &["cannot be changed"]);
    sandbox.fails(1, &format!("mount a {point} -o remount,tf=95"), &[""; 0], &["tf=95"]);

    eventually("umount(8) is let", || Command::new("umount").arg(&point).status().unwrap().success());
    eventually("the daemon knows", || sandbox.status("a")["mounted"].is_null());
    // At boot, and again.
    fs::write(&fstab, format!("a {point} stripewise defaults 0 0\n")).unwrap();
    for _ in 0..2 {
        let said = from_fstab(&["--all"]);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    sandbox.done("umount a");
    for kind in ["stripewise", "fuse.stripewise"] {
        let said = mount8(&world, &["-t", kind, "a", &point, "-o", "ro,norecovery"]);
        assert_eq!(said.code, Some(0), "{kind}: {said:?}");
        assert_eq!(fs::read(world.inside("file")).unwrap(), b"x");
        assert!(fs::write(world.inside("file"), "y").is_err());
        sandbox.done("umount a");
    }
    let said = mount8(&world, &["-t", "stripewise", "a", &point, "-o", "norecovery"]);
    assert!(said.code == Some(32) && said.err.contains("give ro, too"), "{said:?}");
    let said = mount8(&world, &["-f", "-t", "stripewise", "a", &point]);
    assert!(said.code == Some(0) && sandbox.status("a")["mounted"].is_null(), "only pretended: {said:?}");
}

#[test]
fn the_pace_of_a_mounted_file_is_changed_and_takes_effect() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point, target) = (&world.sandbox, world.point(), world.sandbox.path("disk"));
    sandbox.done(&format!("mkfs {target} --size 64M"));
    sandbox.done(&format!("mount {target} {point} --tt 1h"));
    fs::write(world.inside("file"), vec![7; 1 << 20]).unwrap();
    let buffered = || sandbox.json(&format!("df {point}"))[0]["buffered_bytes"].as_u64().unwrap();
    assert!(buffered() >= 1 << 20);
    sandbox.done(&format!("mount {target} {point} -o remount,tt=100ms"));
    eventually("it is written out", || buffered() == 0);
    assert_eq!(pace(&world), (20, 100));
    world.umount();
}
