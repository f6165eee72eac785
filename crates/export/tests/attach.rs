//! Block devices over a FUSE file and a loop device, used as people use them: file systems, fio, discards,
//! crashes.
//!
//! Needs root, /dev/fuse and /dev/loop-control; without them each test is skipped on record.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod attach_common;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use attach_common::{Attached, MIB, Mounted, assert_io_path_threads, can_run, checksums, noise, runtime};
use stripewise_device::{Device, WriteFlags, memory::MemoryDevice, wrap::Delay};
use stripewise_export::attach::{
    AttachError, AttachMethod, AttachOptions, BlockUser, DetachMode, attach, best_method, clean_stale,
    users_of,
};
use stripewise_testkit::{Need, tool, tool_said};

const CHILD_FOLDER: &str = "STRIPEWISE_ATTACH_CHILD_FOLDER";

/// Makes a file system, fills it, checks it, and finds everything again after a new mount.
fn live_in(block_bytes: u32, file_system: &str, mkfs: &[&str], check: &[&str]) {
    let mkfs_name = format!("mkfs.{file_system}");
    if !can_run(&[Need::Tool(&mkfs_name), Need::Tool(check[0]), Need::FileSystem(file_system)]) {
        return;
    }
    let attached = Attached::new(block_bytes);
    let node = attached.node();
    tool(&mkfs_name, &[mkfs, &[node.as_str()]].concat());

    let mounted = Mounted::new(&node, attached.mount_point());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    tool("cp", &["-r", source.to_str().unwrap(), mounted.0.to_str().unwrap()]);
    fs::write(mounted.0.join("large"), noise(1, 40 << 20)).unwrap();
    let before = checksums(&mounted.0);
    assert!(before.len() > 20);
    tool("fstrim", &["-v", mounted.0.to_str().unwrap()]);
    mounted.unmount();

    tool(check[0], &[&check[1..], &[node.as_str()]].concat());
    let mounted = Mounted::new(&node, attached.mount_point());
    assert!(before == checksums(&mounted.0), "files differ after a new mount");
    mounted.unmount();
    attached.detach();
}

#[test]
fn ext4_on_512_byte_blocks() {
    live_in(512, "ext4", &["-q", "-F"], &["e2fsck", "-f", "-n"]);
}

#[test]
fn ext4_on_4096_byte_blocks() {
    live_in(4096, "ext4", &["-q", "-F"], &["e2fsck", "-f", "-n"]);
}

#[test]
fn xfs_on_4096_byte_blocks() {
    live_in(4096, "xfs", &["-q", "-f"], &["xfs_repair", "-n"]);
}

#[test]
fn xfs_on_512_byte_blocks() {
    live_in(512, "xfs", &["-q", "-f"], &["xfs_repair", "-n"]);
}

#[test]
fn btrfs_on_4096_byte_blocks() {
    live_in(4096, "btrfs", &["-q", "-f"], &["btrfs", "check", "--readonly"]);
}

#[test]
fn the_block_device_has_the_properties_asked_for() {
    if !can_run(&[]) {
        return;
    }
    let attached = Attached::new(4096);
    assert_eq!(attached.attachment.method(), AttachMethod::FuseLoop);
    assert_eq!(attached.sysfs("size"), (512 * MIB / 512).to_string());
    assert_eq!(attached.sysfs("queue/logical_block_size"), "4096");
    assert_eq!(attached.sysfs("loop/dio"), "1", "the FUSE file is not used with direct I/O");
    assert_ne!(attached.sysfs("queue/discard_max_bytes"), "0");
    attached.detach();

    let attached = Attached::with(512, |options| {
        options.block_bytes = Some(4096);
        options.read_only = true;
    });
    assert_eq!(attached.sysfs("queue/logical_block_size"), "4096");
    assert_eq!(attached.sysfs("ro"), "1");
    attached.detach();

    // The settings of one attachment do not outlive it.
    let attached = Attached::new(512);
    assert_eq!(attached.sysfs("queue/logical_block_size"), "512");
    assert_ne!(attached.sysfs("queue/discard_max_bytes"), "0");
    let node = attached.attachment.block_path().file_name().unwrap().to_owned();
    attached.detach();
    let read_ahead =
        fs::read_to_string(Path::new("/sys/block").join(node).join("queue/read_ahead_kb")).unwrap();
    assert_ne!(read_ahead.trim(), "1024");
}

#[test]
fn only_root_sees_the_file() {
    use std::os::unix::fs::PermissionsExt;
    if !can_run(&[Need::Tool("setpriv")]) {
        return;
    }
    let attached = Attached::new(512);
    fs::set_permissions(attached.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = attached.folder.path().join("run/attach-test/disk");
    let meta = fs::metadata(&file).unwrap();
    assert_eq!((meta.permissions().mode() & 0o777, meta.len()), (0o600, 512 * MIB));
    let other = tool_said(
        "setpriv",
        &["--reuid=65534", "--regid=65534", "--clear-groups", "stat", file.to_str().unwrap()],
    );
    assert_ne!(other.code, Some(0), "{other:?}");
    attached.detach();
}

#[test]
fn discards_and_zeroes_reach_the_device() {
    if !can_run(&[Need::Tool("blkdiscard")]) {
        return;
    }
    let attached = Attached::new(4096);
    let node = attached.node();
    let disk = fs::OpenOptions::new().write(true).open(&node).unwrap();
    disk.write_all_at(&noise(2, 16 << 20), 0).unwrap();
    disk.sync_all().unwrap();
    drop(disk);
    let before = attached.read(0, 16 << 20);
    assert_eq!(before, noise(2, 16 << 20));
    tool("blkdiscard", &["--offset", "1048576", "--length", "1048576", &node]);
    tool("blkdiscard", &["--zeroout", "--offset", "4194304", "--length", "8192", &node]);
    let after = attached.read(0, 16 << 20);
    for (at, byte) in after.iter().enumerate() {
        let zeroed = (1 << 20..2 << 20).contains(&at) || (4 << 20..(4 << 20) + 8192).contains(&at);
        assert_eq!(*byte, if zeroed { 0 } else { before[at] }, "at {at}");
    }
    tool("blkdiscard", &["--force", &node]);
    assert!(attached.read(0, 16 << 20).iter().all(|byte| *byte == 0));
    attached.detach();
}

#[test]
fn refused_discards_cost_nothing_and_zeroing_still_works() {
    if !can_run(&[Need::Tool("blkdiscard"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let attached = Attached::with(4096, |options| options.discard = false);
    let node = attached.node();
    let disk = fs::OpenOptions::new().write(true).open(&node).unwrap();
    disk.write_all_at(&noise(5, 1 << 20), 0).unwrap();
    disk.sync_all().unwrap();
    drop(disk);
    // The kernel forgives a first discard that is not supported; no further one arrives.
    tool_said("blkdiscard", &["--force", &node]);
    assert_eq!(attached.sysfs("queue/discard_max_bytes"), "0");
    assert_eq!(attached.read(0, 1 << 20), noise(5, 1 << 20));
    tool("blkdiscard", &["--zeroout", "--length", "1048576", &node]);
    assert!(attached.read(0, 1 << 20).iter().all(|byte| *byte == 0));
    tool("mkfs.ext4", &["-q", "-F", &node]);
    attached.detach();

    // The node's next user has discards again.
    let attached = Attached::new(4096);
    tool("blkdiscard", &["--force", &attached.node()]);
    attached.detach();
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !can_run(&[Need::Tool("fio")]) {
        return;
    }
    for (block_bytes, engine) in [(4096, "io_uring"), (512, "libaio")] {
        let attached = Attached::new(block_bytes);
        let file = format!("--filename={}", attached.node());
        let engine = format!("--ioengine={engine}");
        let sizes = format!("--bssplit={block_bytes}/30:4k/30:64k/30:1m/10");
        // Overlapping writes are kept apart, else fio itself cannot know which one came last.
        let fixed = "--name=verify --direct=1 --rw=randwrite --iodepth=32 --size=128m --serialize_overlap=1 \
                     --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=7 --fsync=50";
        let fixed: Vec<_> = fixed.split_whitespace().collect();
        tool("fio", &[&fixed[..], &[&sizes, &file, &engine]].concat());
        attached.detach();
    }
}

/// The file itself takes any range for reading and whole blocks for writing.
#[test]
fn the_file_under_the_loop_device() {
    if !can_run(&[]) {
        return;
    }
    let attached = Attached::new(4096);
    let path = attached.folder.path().join("run/attach-test/disk");
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let data = noise(3, 12288);
    file.write_all_at(&data, 8192).unwrap();
    let mut back = vec![0; 5000];
    file.read_exact_at(&mut back, 9001).unwrap();
    assert_eq!(back, data[809..5809]);
    let refused = file.write_at(&data[..100], 5).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    assert!(file.write_at(&data, 512 * MIB).is_err());
    assert!(file.set_len(10).is_err());
    file.sync_all().unwrap();
    drop(file);
    let names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["disk"]);
    attached.detach();
}

#[test]
fn detaching_a_mounted_device_is_refused_and_works_afterwards() {
    if !can_run(&[Need::Tool("mkfs.ext4"), Need::FileSystem("ext4")]) {
        return;
    }
    let mut attached = Attached::new(4096);
    let node = attached.node();
    tool("mkfs.ext4", &["-q", "-F", &node]);
    let mounted = Mounted::new(&node, attached.mount_point());
    let error = attached.attachment.detach(DetachMode::Refuse).unwrap_err();
    let AttachError::InUse { users, .. } = &error else { panic!("{error}") };
    assert_eq!(users[..], [BlockUser::Mount { point: mounted.0.clone(), own: true, topmost: true }]);
    assert!(error.to_string().contains(mounted.0.to_str().unwrap()), "{error}");
    fs::write(mounted.0.join("still"), "alive").unwrap();
    let mut sleeper = Command::new("sleep").arg("60").current_dir(&mounted.0).spawn().unwrap();
    let error = attached.attachment.detach(DetachMode::Refuse).unwrap_err().to_string();
    let said = format!("process {} (sleep) works in {}", sleeper.id(), mounted.0.display());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(error.contains(&said), "{error}");
    mounted.unmount();
    attached.detach();
}

#[test]
fn an_open_file_descriptor_is_named() {
    if !can_run(&[]) {
        return;
    }
    let mut attached = Attached::new(4096);
    let open = fs::File::open(attached.attachment.block_path()).unwrap();
    let error = attached.attachment.detach(DetachMode::Refuse).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    drop(open);
    attached.detach();
}

#[test]
fn a_lazy_detach_serves_the_last_user_to_the_end() {
    if !can_run(&[Need::Tool("mkfs.ext4"), Need::FileSystem("ext4")]) {
        return;
    }
    let mut attached = Attached::new(4096);
    let node = attached.node();
    tool("mkfs.ext4", &["-q", "-F", &node]);
    let mounted = Mounted::new(&node, attached.mount_point());
    attached.attachment.detach(DetachMode::Lazy).unwrap();
    assert!(attached.attachment.is_detached());
    let data = noise(4, 8 << 20);
    let mut file = fs::File::create(mounted.0.join("late")).unwrap();
    file.write_all(&data).unwrap();
    file.sync_all().unwrap();
    drop(file);
    mounted.unmount();
    wait_until("the loop device is unbound", || !bound_under(&node, attached.folder.path()));
    let all = attached.read(0, (512 * MIB) as usize);
    assert!(all.windows(64).any(|window| window == &data[..64]), "late data is not on the device");
}

#[test]
fn a_forced_detach_ends_at_once() {
    if !can_run(&[Need::Tool("mkfs.ext4"), Need::FileSystem("ext4")]) {
        return;
    }
    let mut attached = Attached::new(4096);
    let node = attached.node();
    tool("mkfs.ext4", &["-q", "-F", &node]);
    let mounted = Mounted::new(&node, attached.mount_point());
    fs::write(mounted.0.join("lost"), "perhaps").unwrap();
    let started = Instant::now();
    attached.attachment.detach(DetachMode::Force).unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
    drop(mounted);
    wait_until("the loop device is unbound", || !bound_under(&node, attached.folder.path()));
}

#[test]
fn dropping_an_attachment_detaches_it() {
    if !can_run(&[]) {
        return;
    }
    let attached = Attached::new(512);
    let (node, point) = (attached.node(), attached.folder.path().join("run/attach-test"));
    assert!(bound_under(&node, attached.folder.path()));
    let Attached { .. } = &attached;
    drop(attached);
    assert!(!point.exists());
}

#[test]
fn a_device_that_hangs_is_given_up_and_leaves_nothing() {
    if !can_run(&[]) {
        return;
    }
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let memory = MemoryDevice::with_block_bytes("memory", MIB, 512);
    let hangs = Arc::new(Delay::new(memory, runtime.env(), Duration::from_secs(10_000)));
    let mut options = AttachOptions::new(folder.path().join("run"), "test");
    options.method = Some(AttachMethod::FuseLoop);
    options.answer_wait = Duration::from_secs(1);
    let started = Instant::now();
    let error = attach(hangs, &runtime, &options).unwrap_err();
    assert!(matches!(error, AttachError::Unanswered { waited_s: 1 }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(!options.mount_point().exists(), "the mount point stayed");
    let answers = Arc::new(MemoryDevice::with_block_bytes("memory", MIB, 512));
    attach(answers, &runtime, &options).unwrap().detach(DetachMode::Refuse).unwrap();
}

#[test]
fn two_attachments_of_one_name_do_not_mix() {
    if !can_run(&[]) {
        return;
    }
    let attached = Attached::new(512);
    let mut options = AttachOptions::new(attached.folder.path().join("run"), "test");
    options.method = Some(AttachMethod::FuseLoop);
    let error = attach(attached.device.clone(), &attached.runtime, &options).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
    options.method = Some(AttachMethod::Ublk);
    let error = attach(attached.device.clone(), &attached.runtime, &options).unwrap_err();
    assert!(matches!(error, AttachError::NotBuilt(AttachMethod::Ublk)), "{error}");
    attached.detach();
}

#[test]
fn some_method_works_where_fuse_does() {
    if can_run(&[]) {
        assert!(best_method().unwrap() > AttachMethod::Ublk);
    }
}

/// Not a test: the process that `clean_stale_clears_after_a_killed_daemon` kills.
#[test]
#[ignore = "run by another test in a process of its own"]
fn child_that_holds_an_attachment() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let device = Arc::new(MemoryDevice::with_block_bytes("memory", 64 * MIB, 4096));
    let mut options = AttachOptions::new(folder, "child");
    options.method = Some(AttachMethod::FuseLoop);
    let attachment = attach(device, &runtime(), &options).unwrap();
    println!("\nATTACHED {}", attachment.block_path().display());
    thread::sleep(Duration::from_secs(60));
}

/// Kills the child in any case.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child_with_attachment(folder: &Path) -> (Killed, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_that_holds_an_attachment", "--ignored", "--nocapture"]);
    let mut child = Killed(command.env(CHILD_FOLDER, folder).stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let node = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("ATTACHED ").map(str::to_owned));
    (child, node.expect("the child attached"))
}

#[test]
fn clean_stale_clears_after_a_killed_daemon() {
    if !can_run(&[Need::Tool("mkfs.ext4"), Need::FileSystem("ext4")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (child, node) = child_with_attachment(folder.path());
    tool("mkfs.ext4", &["-q", "-F", &node]);
    assert_eq!(clean_stale(folder.path()).unwrap(), Default::default(), "a live attachment is left alone");
    assert!(bound_under(&node, folder.path()));
    drop(child);

    let point = fs::canonicalize(folder.path()).unwrap().join("attach-child");
    let cleaned = clean_stale(folder.path()).unwrap();
    assert_eq!((&cleaned.mounts[..], cleaned.loop_devices.len()), (&[point.clone()][..], 1));
    assert!(!bound_under(&node, folder.path()) && !point.exists());
    assert_eq!(clean_stale(folder.path()).unwrap(), Default::default());
}

#[test]
fn clean_stale_names_file_systems_that_are_still_mounted() {
    if !can_run(&[Need::Tool("mkfs.ext4"), Need::FileSystem("ext4")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (child, node) = child_with_attachment(folder.path());
    tool("mkfs.ext4", &["-q", "-F", &node]);
    let point = folder.path().join("mnt");
    fs::create_dir(&point).unwrap();
    let mounted = Mounted::new(&node, point.clone());
    drop(child);

    let cleaned = clean_stale(folder.path()).unwrap();
    assert_eq!(cleaned.mounts.len(), 1);
    let (dead, users) = &cleaned.in_use[0];
    assert_eq!(dead, Path::new(&node));
    assert_eq!(users[..], [BlockUser::Mount { point, own: true, topmost: true }]);
    mounted.unmount();
    wait_until("the loop device goes with its last user", || {
        users_of(dead).is_nobody() && !exists_bound(&node)
    });
    // The name is free again.
    let (child, node) = child_with_attachment(folder.path());
    assert!(bound_under(&node, folder.path()));
    drop(child);
    assert_eq!(clean_stale(folder.path()).unwrap().loop_devices.len(), 1);
}

fn exists_bound(node: &str) -> bool {
    backing(node).is_some_and(|path| path.contains("attach-child"))
}

fn backing(node: &str) -> Option<String> {
    let name = Path::new(node).file_name().unwrap();
    fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file")).ok()
}

fn bound_under(node: &str, folder: &Path) -> bool {
    backing(node).is_some_and(|path| Path::new(&path).starts_with(folder))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Memory reclaim must not wait for the device that the thread serves.
#[test]
fn every_serving_thread_is_part_of_the_io_path() {
    if !can_run(&[]) {
        return;
    }
    let attached = Attached::new(512);
    assert_io_path_threads(&["fuser-", "stripewise-io"]);
    attached.detach();
}

/// Not a test: what the way through loop device and FUSE costs. Run it alone, in release, with --nocapture.
#[test]
#[ignore = "a measurement"]
fn figures() {
    if !can_run(&[Need::Tool("fio")]) {
        return;
    }
    let attached = Attached::new(4096);
    tool("dd", &["if=/dev/zero", &format!("of={}", attached.node()), "bs=1M", "count=512", "oflag=direct"]);
    let file = format!("--filename={}", attached.node());
    for (pattern, size, depth) in [
        ("write", "1m", "8"),
        ("read", "1m", "8"),
        ("randwrite", "4k", "32"),
        ("randread", "4k", "32"),
        ("randwrite", "4k", "1"),
        ("randread", "4k", "1"),
    ] {
        let job = [&file, &format!("--rw={pattern}"), &format!("--bs={size}"), &format!("--iodepth={depth}")];
        let fixed =
            ["--name=f", "--direct=1", "--ioengine=io_uring", "--time_based", "--runtime=4", "--minimal"];
        let said = tool("fio", &[&fixed[..], &job.map(String::as_str)].concat());
        let fields: Vec<f64> = said.split(';').map(|field| field.parse().unwrap_or(0.0)).collect();
        // Terse format 3: bandwidth in KiB/s and IOPS of reads at 6, 7, of writes at 47, 48.
        let at = if pattern.ends_with("write") { 47 } else { 6 };
        println!(
            "loop+FUSE {pattern:>9} {size:>2} depth {depth:>2}: {:7.0} MiB/s {:8.0} IOPS",
            fields[at] / 1024.0,
            fields[at + 1]
        );
    }
    for len in [1 << 20, 4096] {
        for write in [true, false] {
            let ops = own_ops_per_s(&attached, len, write);
            println!(
                "own API   {:>9} {len:>7} B      : {:7.0} MiB/s {ops:8.0} IOPS",
                ["read", "write"][usize::from(write)],
                ops * len as f64 / MIB as f64
            );
        }
    }
    attached.detach();
}

fn own_ops_per_s(attached: &Attached, len: usize, write: bool) -> f64 {
    let device = attached.device.clone();
    attached.runtime.block_on(async move {
        let mut random = fastrand::Rng::with_seed(1);
        let data = stripewise_device::IoBuf::zeroed(len).freeze();
        let (started, mut ops) = (Instant::now(), 0u64);
        while started.elapsed() < Duration::from_secs(2) {
            let offset = random.u64(0..512 * MIB / len as u64) * len as u64;
            if write {
                device
                    .write(offset, [data.clone()].into_iter().collect(), WriteFlags::default())
                    .await
                    .unwrap();
            } else {
                let bufs = [stripewise_device::IoBuf::with_len(len)].into_iter().collect();
                device.read(offset, bufs).await.into_one().unwrap();
            }
            ops += 1;
        }
        ops as f64 / started.elapsed().as_secs_f64()
    })
}
