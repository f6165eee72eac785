//! Block devices and NBD servers of an array.

use std::{
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rustix::process::{Signal, kill_process};

use crate::common::{MIB, Mounted, Need, Sandbox, can_run, eventually, has_ended, noise, tool};

fn array() -> Sandbox {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 64 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox
}

/// Whether arrays can be attached here, and these tools are there.
fn can_attach(tools: &[&str]) -> bool {
    let here = [Need::Tool("losetup"), Need::Root, Need::Device("/dev/fuse")];
    can_run(&here.into_iter().chain(tools.iter().copied().map(Need::Tool)).collect::<Vec<_>>())
}

/// An array that is attached, with an empty file system on it.
struct Formatted {
    sandbox: Sandbox,
    /// Where the array is said to be.
    place: String,
    /// The block device itself.
    device: String,
    /// Where to mount it.
    point: PathBuf,
}

impl Formatted {
    /// None where that cannot be done.
    fn new(attach: &str) -> Option<Self> {
        if !can_attach(&["mkfs.ext4", "fsck.ext4", "mount"]) {
            return None;
        }
        let sandbox = array();
        let place = sandbox.done(attach).trim().to_owned();
        let device = std::fs::canonicalize(&place).unwrap().to_str().unwrap().to_owned();
        tool("mkfs.ext4", &["-q", &device]);
        let point = sandbox.folder().join("mnt");
        Some(Self { sandbox, place, device, point })
    }

    fn mount(&self) -> Mounted {
        Mounted::new(&[&self.device], &self.point)
    }
}

#[test]
fn a_file_system_lives_on_the_attached_array() {
    let Some(formatted) = Formatted::new("attach a") else { return };
    let Formatted { sandbox, place, device, point } = &formatted;
    assert_eq!(sandbox.status("a")["attached"], **place);
    sandbox.fails(1, "attach a", &[""; 0], &["attached already"]);
    let mounted = formatted.mount();
    let data = noise(9, 20 << 20);
    std::fs::write(point.join("data"), &data).unwrap();
    let said = sandbox.fails(1, "detach a", &[""; 0], &["in use", "mnt", "--force"]);
    assert!(!said.contains("lazily"), "there is no such option: {said}");
    sandbox.fails(1, "stop a", &[""; 0], &["in use", "--force"]);
    sandbox.fails(1, "add a --force", &[device], &["this array itself"]);
    assert!(std::fs::read(point.join("data")).unwrap() == data, "a refused stop did harm");
    mounted.unmount();
    tool("fsck.ext4", &["-fn", device]);
    let mounted = formatted.mount();
    assert!(std::fs::read(point.join("data")).unwrap() == data);
    mounted.unmount();
    sandbox.done("detach a");
    assert!(sandbox.status("a")["attached"].is_null());
    sandbox.fails(1, "detach a", &[""; 0], &["not attached"]);
    sandbox.assert_consistent("a");
}

#[test]
fn stopping_detaches_what_nobody_uses() {
    if !can_attach(&[]) {
        return;
    }
    let sandbox = array();
    let place = sandbox.done("attach a --method fuse");
    sandbox.done("stop a");
    assert!(!Path::new(place.trim()).is_symlink());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(sandbox.folder().to_str().unwrap()), "{mounts}");
}

#[test]
fn what_a_killed_daemon_leaves_is_named_until_it_is_cleared() {
    let Some(formatted) = Formatted::new("attach a --method fuse") else { return };
    let Formatted { sandbox, place, device, .. } = &formatted;
    let mounted = formatted.mount();
    sandbox.signal(sandbox.pid("a"), Signal::KILL);
    sandbox.fails(1, "stop a", &[""; 0], &["its daemon had died", "unmount", device, "mnt"]);
    let words = ["umount --lazy", device, "mnt"];
    let said = sandbox.fails(1, "stop a", &[""; 0], &words);
    assert!(!said.contains("no such array"), "there is something: {said}");
    let said = sandbox.run("assemble a", &["m0", "m1", "m2", "m3"]);
    assert!(said.code == Some(0) && words.iter().all(|word| said.err.contains(word)), "{said:?}");
    sandbox.done("stop a");
    mounted.unmount();
    let backing = format!("/sys/block/{}/loop", device.trim_start_matches("/dev/"));
    eventually("the loop device has gone", || !Path::new(&backing).exists());
    assert!(!Path::new(place).is_symlink());
    sandbox.done("stop a");
    sandbox.fails(1, "stop a", &[""; 0], &["no such array is running"]);
    let left: Vec<_> = std::fs::read_dir(sandbox.run_dir()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the log: {left:?}");
}

#[test]
fn a_mount_of_a_stopped_array_is_named_and_taken_away_by_force() {
    let Some(formatted) = Formatted::new("attach a --method fuse") else { return };
    let Formatted { sandbox, device, point, .. } = &formatted;
    let mounted = formatted.mount();
    let open = std::fs::File::create(point.join("open")).unwrap();
    let said = sandbox.run("stop a --force", &[""; 0]);
    assert!(
        said.code == Some(0) && said.err.contains("umount --lazy") && said.err.contains("mnt"),
        "{said:?}"
    );
    sandbox.fails(1, "stop a", &[""; 0], &[device, "mnt", "--force"]);
    sandbox.fails(1, "stop a --force", &[""; 0], &[device, "somebody has a file open on it"]);
    assert!(!std::fs::read_to_string("/proc/mounts").unwrap().contains(point.to_str().unwrap()));
    drop((open, mounted));
    eventually("nothing is left", || sandbox.run("stop a", &[""; 0]).err.contains("no such array"));
}

#[test]
fn a_sigterm_unmounts_and_waits_for_those_who_work_there() {
    let Some(formatted) = Formatted::new("attach a") else { return };
    let Formatted { sandbox, point, .. } = &formatted;
    let _mounted = formatted.mount();
    let open = std::fs::File::create(point.join("open")).unwrap();
    let pid = sandbox.pid("a");
    // Both at once are still the first time that it is asked.
    for signal in [Signal::STOP, Signal::TERM, Signal::INT, Signal::CONT] {
        kill_process(pid, signal).unwrap();
    }
    eventually("it has tried", || sandbox.log("a").contains("another signal stops it by force"));
    sandbox.done("detail a --test");
    drop(open);
    eventually("it has ended", || has_ended(pid));
    assert_eq!(sandbox.json(&format!("examine {}", sandbox.path("m0")))[0]["clean"], true);
}

/// Writes a file over and over, for good each time, until that is over or fails.
fn keep_writing(file: &Path, is_over: &AtomicBool) {
    let data = noise(5, 64 << 10);
    while !is_over.load(Ordering::Relaxed) {
        let written = std::fs::File::create(file).and_then(|mut file| {
            file.write_all(&data)?;
            file.sync_all()
        });
        if written.is_err() {
            return;
        }
    }
}

/// Says that it is over when it is dropped, in a test that fails, too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An array with a file system that is mounted, whose daemon finds this script in the place of `umount`, and
/// where it is attached.
fn mounted_with_umount(sandbox: &Sandbox, script: &str) -> (Mounted, PathBuf, String) {
    let members = sandbox.members(4, 64 * MIB);
    let tools = sandbox.folder().join("bin");
    std::fs::create_dir(&tools).unwrap();
    let umount = tools.join("umount");
    std::fs::write(&umount, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&umount, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut create = sandbox.command();
    create.args(["create", "a", "--level", "5", "--assume-clean"]).args(&members).env("PATH", path);
    let said = crate::common::run_bounded(&mut create, Duration::from_secs(60));
    assert_eq!(said.code, Some(0), "{said:?}");
    let place = sandbox.done("attach a").trim().to_owned();
    tool("mkfs.ext4", &["-q", &place]);
    let point = sandbox.folder().join("mnt");
    (Mounted::new(&[&place], &point), point, place)
}

#[test]
fn a_second_signal_does_not_wait_for_an_umount_that_hangs() {
    if !can_attach(&["mkfs.ext4", "mount"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (_mounted, point, _) = mounted_with_umount(&sandbox, "exec sleep 1000");
    let pid = sandbox.pid("a");
    // As long as the array is written to, an `umount` is waited for: for ten minutes, were it not for the
    // second signal.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_writing(&point.join("data"), &is_over));
        let _over = Over(&is_over);
        eventually("it is written to", || sandbox.status("a")["counters"]["writes"].as_u64() > Some(100));
        kill_process(pid, Signal::TERM).unwrap();
        eventually("it tries", || sandbox.log("a").contains("unmounting"));
        kill_process(pid, Signal::TERM).unwrap();
        eventually("it is told", || sandbox.log("a").contains("unmounting hangs"));
        assert!(sandbox.log("a").contains(&format!("mounted on {}", point.display())), "who is busy");
        eventually("it has ended", || has_ended(pid));
    });
    assert_eq!(sandbox.json(&format!("examine {}", sandbox.path("m0")))[0]["clean"], true);
}

#[test]
fn what_is_mounted_is_not_overwritten_by_a_load_and_written_out_before_it_is_taken_away() {
    let Some(formatted) = Formatted::new("attach a") else { return };
    let Formatted { sandbox, point, .. } = &formatted;
    let mounted = formatted.mount();
    sandbox.fails(1, "bench run a --rw randwrite --force", &[""; 0], &["in use", "mnt"]);
    let data = noise(6, 4 << 20);
    std::fs::write(point.join("data"), &data).unwrap();
    sandbox.done("detach a --force");
    drop(mounted);
    eventually("it can be attached again", || sandbox.run("attach a", &[""; 0]).code == Some(0));
    let device = sandbox.status("a")["attached"].as_str().unwrap().to_owned();
    let mounted = Mounted::new(&[&device], point);
    assert!(std::fs::read(point.join("data")).unwrap() == data);
    mounted.unmount();
}

#[test]
fn what_is_mounted_over_an_array_is_left_alone() {
    let Some(formatted) = Formatted::new("attach a") else { return };
    let Formatted { sandbox, point, .. } = &formatted;
    let _below = formatted.mount();
    let above = Mounted::new(&["-t", "tmpfs", "none"], point);
    std::fs::write(point.join("precious"), "").unwrap();
    let pid = sandbox.pid("a");
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it has tried", || sandbox.log("a").contains("below another mount"));
    assert!(point.join("precious").exists());
    above.unmount();
    eventually("it has ended", || has_ended(pid));
}

#[test]
fn mounts_in_another_namespace_are_named_and_left_alone() {
    if !can_attach(&["unshare"]) {
        return;
    }
    let Some(formatted) = Formatted::new("attach a") else { return };
    let Formatted { sandbox, device, point, .. } = &formatted;
    let ours = Mounted::new(&["-t", "tmpfs", "none"], point);
    let there = format!("mount {device} {} && exec sleep 1000", point.display());
    let mut other = Command::new("unshare").args(["--mount", "sh", "-c", &there]).spawn().unwrap();
    eventually("it is mounted there", || {
        std::fs::read_to_string(format!("/proc/{}/mounts", other.id())).unwrap_or_default().contains(device)
    });
    sandbox.fails(1, "detach a", &[""; 0], &["in use", "in another mount namespace"]);
    let pid = sandbox.pid("a");
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it has tried", || sandbox.log("a").contains("another signal stops it by force"));
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(mounts().contains(point.to_str().unwrap()), "somebody else's file system was unmounted");
    let said = sandbox.run("stop a --force", &[""; 0]);
    assert!(said.err.contains("namespace") && !said.err.contains("umount --lazy"), "{said:?}");
    assert!(mounts().contains(point.to_str().unwrap()));
    other.kill().unwrap();
    other.wait().unwrap();
    eventually("it has ended", || has_ended(pid));
    ours.unmount();
}

#[test]
fn programs_are_told_where_an_array_is() {
    let sandbox = array();
    let served = sandbox.json(&format!("serve a --unix {}", sandbox.path("s")));
    assert_eq!(served["uri"], sandbox.status("a")["exports"][0]);
    if !can_attach(&[]) {
        return;
    }
    assert_eq!(sandbox.json("attach a")["device"], sandbox.status("a")["attached"]);
}

#[test]
fn a_way_to_attach_that_is_none_is_refused() {
    let sandbox = array();
    sandbox.fails(2, "attach a --method floppy", &[""; 0], &["floppy", "nbd, fuse"]);
}

#[test]
fn served_on_a_unix_socket_and_on_tcp() {
    if !can_run(&[Need::Tool("nbdinfo"), Need::Tool("nbdcopy"), Need::Tool("qemu-io")]) {
        return;
    }
    let sandbox = array();
    let unix = sandbox.serve("a");
    let tcp = sandbox.done("serve a --bind 127.0.0.1:0").trim().to_owned();
    assert!(tcp.starts_with("nbd://127.0.0.1:") && !tcp.contains(":0/"), "{tcp}");
    assert_eq!(sandbox.status("a")["exports"], serde_json::json!([unix, tcp]));
    let mode = std::fs::metadata(sandbox.path("a.nbd")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let image = sandbox.path("image");
    std::fs::write(&image, noise(4, 16 << 20)).unwrap();
    for uri in [&unix, &tcp] {
        let info: serde_json::Value = serde_json::from_str(&tool("nbdinfo", &["--json", uri])).unwrap();
        assert_eq!(info["exports"][0]["export-size"], sandbox.status("a")["size_bytes"]);
        tool("nbdcopy", &[&image, uri]);
        let out = sandbox.path("out");
        tool("nbdcopy", &[uri, &out]);
        let (image, out) = (std::fs::read(&image).unwrap(), std::fs::read(&out).unwrap());
        assert!(image[..] == out[..image.len()], "{uri}");
        let words =
            ["-f", "raw", "-c", "write -P 0x5a 512 64k", "-c", "read -P 0x5a 512 64k", "-c", "flush", uri];
        let said = tool("qemu-io", &words);
        assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    }
    sandbox.done(&format!("serve a --stop --unix {}", sandbox.path("a.nbd")));
    assert_eq!(sandbox.status("a")["exports"], serde_json::json!([tcp]));
    sandbox.done("serve a --stop");
    assert_eq!(sandbox.status("a")["exports"], serde_json::json!([]));
    sandbox.assert_consistent("a");
}

#[test]
fn a_read_only_export_refuses_writes() {
    if !can_run(&[Need::Tool("qemu-io")]) {
        return;
    }
    let sandbox = array();
    let uri = sandbox.ok("serve a --read-only --unix", &[sandbox.path("ro")]).trim().to_owned();
    let mut qemu_io = Command::new("qemu-io");
    let said = crate::common::run_bounded(
        qemu_io.args(["-f", "raw", "-c", "write 0 4k", &uri]),
        Duration::from_secs(30),
    );
    assert_ne!(said.code, Some(0), "{said:?}");
    tool("qemu-io", &["-r", "-f", "raw", "-c", "read -P 0 0 4k", &uri]);
}

#[test]
fn an_address_in_use_is_refused_and_a_stale_socket_is_not() {
    let sandbox = array();
    sandbox.serve("a");
    sandbox.fails(1, "serve a --unix", &[sandbox.path("a.nbd")], &["a.nbd"]);
    sandbox.fails(1, "serve a --bind", &["nonsense"], &["HOST:PORT"]);
    sandbox.fails(1, "serve a --bind", &["127.0.0.1:99999"], &["99999", "not a port"]);
    std::fs::write(sandbox.path("file"), b"precious").unwrap();
    sandbox.fails(1, "serve a --unix", &[sandbox.path("file")], &["file"]);
    assert_eq!(std::fs::read(sandbox.path("file")).unwrap(), b"precious");
    sandbox.fails(1, "serve a --stop --unix", &[sandbox.path("other")], &["not served there"]);
    sandbox.done("serve a --stop");
    sandbox.fails(1, "serve a --stop", &[""; 0], &["not served"]);
}

/// What a block device's folder in sysfs has in its queue.
fn queue(device: &str, name: &str) -> String {
    let folder = format!("/sys/block/{}/queue/{name}", device.trim_start_matches("/dev/"));
    std::fs::read_to_string(folder).unwrap().trim().to_owned()
}

#[test]
fn a_block_device_has_the_sectors_that_are_asked_for_and_rotates_as_its_members_do() {
    let Some(formatted) = Formatted::new("attach a --sector-size 4096") else { return };
    let Formatted { sandbox, device, point, .. } = &formatted;
    assert_eq!(queue(device, "logical_block_size"), "4096");
    let any_rotates =
        sandbox.status("a")["members"].as_array().unwrap().iter().any(|member| member["class"] == "hdd");
    assert_eq!(queue(device, "rotational"), if any_rotates { "1" } else { "0" });
    let mounted = formatted.mount();
    let data = noise(21, 8 << 20);
    std::fs::write(point.join("data"), &data).unwrap();
    mounted.unmount();
    sandbox.done("detach a");
    sandbox.fails(2, "attach a --sector-size 1000", &[""; 0], &["1000", "512, 1K, 2K or 4K"]);
    let said = sandbox.run("attach a --sector-size 4K", &[""; 0]);
    let words = ["mkfs.ext4 -E stride=16,stripe_width=48", "mkfs.xfs -d su=64k,sw=3"];
    assert!(said.code == Some(0) && words.iter().all(|word| said.err.contains(word)), "{said:?}");
    let device = std::fs::canonicalize(said.out.trim()).unwrap().to_str().unwrap().to_owned();
    let mounted = Mounted::new(&[&device], point);
    assert!(std::fs::read(point.join("data")).unwrap() == data);
    mounted.unmount();
    sandbox.assert_consistent("a");
}

/// Once it waited for the unmount, ten seconds and more.
#[test]
fn a_status_does_not_wait_for_an_unmount() {
    if !can_attach(&["mkfs.ext4", "mount"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let go_on = sandbox.path("go-on");
    let script = format!("while ! [ -e {go_on} ]; do sleep 0.05; done; exec /bin/umount \"$@\"");
    let (_mounted, _, place) = mounted_with_umount(&sandbox, &script);
    let pid = sandbox.pid("a");
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it tries", || sandbox.log("a").contains("unmounting"));
    assert_eq!(sandbox.status("a")["attached"], *place);
    assert!(
        !Path::new(&go_on).exists() && !sandbox.log("a").contains("hangs"),
        "the unmount is still under way"
    );
    std::fs::write(&go_on, "").unwrap();
    eventually("it has ended", || has_ended(pid));
}

#[test]
fn an_operator_limits_what_clients_of_a_server_take() {
    let sandbox = array();
    let socket = sandbox.path("limited");
    let line =
        "serve a --connections 2 --in-flight 64M --connection-in-flight 40M --idle-timeout 200ms --unix";
    sandbox.ok(line, &[&socket]);
    let connect = || std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let greeted = |mut stream: &std::os::unix::net::UnixStream| {
        use std::io::Read;
        stream.read_exact(&mut [0; 18]).is_ok()
    };
    let (first, second, third) = (connect(), connect(), connect());
    assert!(greeted(&first) && greeted(&second) && !greeted(&third), "two at a time");
    // They ask nothing, and go.
    eventually("there is a place again", || greeted(&connect()));
    sandbox.fails(2, "serve a --connections 0 --unix", &[&socket], &["1 to 100000"]);
}
