//! The same members under the kernel's md and under this engine, in turns: arrays of ours assembled by mdadm
//! in a User Mode Linux guest, and arrays of mdadm's opened here. Levels 4, 5, 6, healthy and degraded.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // tests make real files

#[path = "../../format/tests/common/mod.rs"]
mod guest;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use guest::{Scratch, guest, guest_is_here, pattern};
use stripewise_device::{
    Device, IoBuf, IoErrorKind, WriteFlags,
    file::{FileDevice, FileOptions},
    uring::{Runtime, RuntimeOptions},
    wrap::{Fault, FaultRule, Operation},
};
use stripewise_engine::{
    Array, AssembleOptions, CreateOptions, JobKind, assemble, geometry::Level, locking::Preset,
};

const MEMBER_BYTES: u64 = 40 << 20;
/// Data compared: enough to cover every rotation of the layouts many times.
const DATA_BYTES: usize = 16 << 20;

fn open(members: &[PathBuf]) -> Vec<Arc<dyn Device>> {
    let device = |path: &PathBuf| FileDevice::open(path, FileOptions::default()).unwrap();
    members.iter().map(|path| Arc::new(device(path)) as Arc<dyn Device>).collect()
}

fn devices(count: usize) -> String {
    (0..count).map(|i| format!("/dev/ubd{} ", (b'a' + i as u8) as char)).collect()
}

fn assemble_here(runtime: &Runtime, members: &[PathBuf], options: AssembleOptions) -> Array {
    let (env, devices) = (runtime.env(), open(members));
    runtime.block_on(async move { assemble(env, devices, &options).await }).unwrap()
}

fn write_here(runtime: &Runtime, array: &Array, offset: u64, data: &[u8]) {
    let (array, data) = (array.clone(), IoBuf::copy_of(data).freeze());
    runtime.block_on(async move { array.write(offset, data, WriteFlags::default()).await }).unwrap();
}

fn read_here(runtime: &Runtime, array: &Array, len: usize) -> Vec<u8> {
    let array = array.clone();
    runtime.block_on(async move { array.read(0, IoBuf::with_len(len)).await }).unwrap().to_vec()
}

fn stop_here(runtime: &Runtime, array: &Array) {
    let array = array.clone();
    runtime.block_on(async move { array.stop().await }).unwrap();
}

fn sha256(path: &Path) -> String {
    let output = std::process::Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap().to_owned()
}

const CHECK: &str = "echo check > /sys/block/md0/md/sync_action\n\
    while [ \"$(cat /sys/block/md0/md/sync_action)\" != idle ]; do sleep 0.1; done\n\
    test \"$(cat /sys/block/md0/md/mismatch_cnt)\" = 0\n";

/// Ours, to the kernel and back.
fn to_the_kernel_and_back(level: Level, count: usize, lost: usize, preset: &str) {
    let scratch = Scratch::new(&format!("ours-{}-{lost}", level.number()));
    let members: Vec<PathBuf> = (0..count).map(|i| scratch.member(&format!("m{i}"), MEMBER_BYTES)).collect();
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let mut options = CreateOptions::new("host:interop", level, open(&members));
    options.assume_clean = true;
    options.preset = Preset::named(preset).unwrap();
    let env = runtime.env();
    let array = runtime.block_on(async move { Array::create(env, options).await }).unwrap();
    let data = pattern(DATA_BYTES);
    // Unaligned pieces, so that every cycle is taken.
    write_here(&runtime, &array, 0, &data);
    write_here(&runtime, &array, 12_800, &data[12_800..700_416]);
    for name in members.iter().take(lost) {
        let (array, name) = (array.clone(), name.display().to_string());
        runtime.block_on(async move { array.fail(&name).await }).unwrap();
    }
    write_here(&runtime, &array, 1 << 20, &data[1 << 20..3 << 20]);
    stop_here(&runtime, &array);
    drop(array);
    let expected = sha256(&scratch.file("expected", &data));
    let check = if lost == 0 { CHECK } else { "" };
    let run = if lost == 0 { "" } else { "--run" };
    let script = format!(
        "mdadm --assemble {run} /dev/md0 {}\n\
         cat /proc/mdstat\n\
         test \"$(cat /sys/block/md0/md/sync_action)\" = idle\n\
         test \"$(cat /sys/block/md0/md/degraded)\" = {lost}\n\
         {check}\
         test \"$(dd if=/dev/md0 bs=1M count=16 2>/dev/null | sha256sum | cut -d' ' -f1)\" = {expected}\n\
         dd if=/dev/zero of=/dev/md0 bs=4k seek=100 count=333 conv=fsync 2>/dev/null\n\
         mdadm --stop /dev/md0\n",
        devices(count)
    );
    println!("{}", guest(&scratch, &members, &script));
    let array = assemble_here(&runtime, &members, AssembleOptions::default());
    assert!(array.job().is_none_or(|job| job.kind != JobKind::Resync), "the kernel stopped it cleanly");
    let mut now = data;
    now[100 * 4096..433 * 4096].fill(0);
    assert!(read_here(&runtime, &array, DATA_BYTES) == now, "what the kernel wrote is here");
    if lost == 0 {
        array.start_scrub(false).unwrap();
        let waiting = array.clone();
        runtime.block_on(async move { waiting.wait_for_jobs().await });
        assert_eq!(array.last_scrub().unwrap().mismatched_rows, 0);
    }
    stop_here(&runtime, &array);
}

/// The kernel's, here and back; `lost` of its members fail under the kernel.
fn from_the_kernel_and_back(level: Level, count: usize, bitmap: bool, lost: usize) {
    let scratch = Scratch::new(&format!("kernels-{}-{bitmap}-{lost}", level.number()));
    let members: Vec<PathBuf> = (0..count).map(|i| scratch.member(&format!("m{i}"), MEMBER_BYTES)).collect();
    let data = pattern(DATA_BYTES);
    let source = scratch.file("source", &data);
    let mut with_source = members.clone();
    with_source.push(source);
    let bitmap = if bitmap { "--bitmap=internal" } else { "" };
    let chunk = if level == Level::Raid1 { "" } else { "--chunk=64" };
    let fail: String = devices(lost)
        .split(' ')
        .filter(|d| !d.is_empty())
        .map(|d| format!("mdadm /dev/md0 --fail {d}\n"))
        .collect();
    let script = format!(
        "mdadm --create /dev/md0 --run --level={} --raid-devices={count} {chunk} {bitmap} {}\n\
         mdadm --wait /dev/md0 || true\n\
         {fail}\
         dd if=/dev/ubd{} of=/dev/md0 bs=1M count=16 conv=fsync 2>/dev/null\n\
         mdadm --stop /dev/md0\n",
        level.number(),
        devices(count),
        (b'a' + count as u8) as char,
    );
    println!("{}", guest(&scratch, &with_source, &script));
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let array = assemble_here(&runtime, &members, AssembleOptions::default());
    let asked = array.clone();
    assert_eq!(runtime.block_on(async move { asked.report().await }).degraded(), lost);
    assert!(read_here(&runtime, &array, DATA_BYTES) == data, "what the kernel wrote is here");
    let mut now = data;
    now[5 << 20..][..1 << 20].fill(0xaa);
    write_here(&runtime, &array, 5 << 20, &vec![0xaa; 1 << 20]);
    stop_here(&runtime, &array);
    drop(array);
    let expected = sha256(&scratch.file("expected", &now));
    let (run, check) = if lost == 0 { ("", CHECK) } else { ("--run", "") };
    let script = format!(
        "mdadm --assemble {run} /dev/md0 {}\n\
         test \"$(cat /sys/block/md0/md/sync_action)\" = idle\n\
         ! dmesg | grep 'out of date'\n\
         {check}\
         test \"$(dd if=/dev/md0 bs=1M count=16 2>/dev/null | sha256sum | cut -d' ' -f1)\" = {expected}\n\
         mdadm --stop /dev/md0\n",
        devices(count)
    );
    println!("{}", guest(&scratch, &members, &script));
}

/// Stripes whose blocks are listed: data and parity of every rotation.
const LISTED_STRIPES: std::ops::Range<u64> = 3..9;

/// Bytes of a member that the kernel's log lists, one block a stripe.
fn listed_bytes() -> Vec<u64> {
    LISTED_STRIPES.map(|stripe| (1 << 20) + stripe * 65536 + 8192).collect()
}

fn overwrite(member: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(member).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// Blocks that the kernel has in a member's log hold garbage. We reconstruct them and write them back, and
/// the kernel finds them good.
fn bad_blocks_of_the_kernel(level: Level, count: usize) {
    let scratch = Scratch::new(&format!("bad-{}", level.number()));
    let members: Vec<PathBuf> = (0..count).map(|i| scratch.member(&format!("m{i}"), MEMBER_BYTES)).collect();
    let data = pattern(DATA_BYTES);
    let mut with_source = members.clone();
    with_source.push(scratch.file("source", &data));
    let chunk = if level == Level::Raid1 { "" } else { "--chunk=64" };
    let list: String = listed_bytes()
        .iter()
        .map(|at| format!("echo '{} 8' > /sys/block/md0/md/dev-ubda/bad_blocks\n", at / 512))
        .collect();
    let script = format!(
        "mdadm --create /dev/md0 --run --assume-clean --level={} --raid-devices={count} {chunk} --data-offset=1M {}\n\
         dd if=/dev/ubd{} of=/dev/md0 bs=1M count=16 conv=fsync 2>/dev/null\n\
         {list}\
         cat /sys/block/md0/md/dev-ubda/bad_blocks\n\
         mdadm --stop /dev/md0\n\
         mdadm --examine-badblocks /dev/ubda\n",
        level.number(),
        devices(count),
        (b'a' + count as u8) as char,
    );
    println!("{}", guest(&scratch, &with_source, &script));
    listed_bytes().iter().for_each(|at| overwrite(&members[0], *at, &[0xdb; 4096]));
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let read_only = AssembleOptions::default().read_only(true);
    let array = assemble_here(&runtime, &members, read_only);
    assert!(read_here(&runtime, &array, DATA_BYTES) == data, "what is listed is reconstructed");
    stop_here(&runtime, &array);
    drop(array);
    let array = assemble_here(&runtime, &members, AssembleOptions::default());
    assert!(read_here(&runtime, &array, DATA_BYTES) == data, "and while it is written back");
    written_back(&runtime, &array);
    stop_here(&runtime, &array);
    drop(array);
    no_bad_blocks_in_the_kernel(&scratch, &members, &data);
}

/// Waits until all listed blocks are written back.
fn written_back(runtime: &Runtime, array: &Array) {
    for _ in 0..600 {
        let asked = array.clone();
        let report = runtime.block_on(async move { asked.report().await });
        if report.members.iter().all(|member| member.bad_block_bytes == 0) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("listed blocks are not written back");
}

/// The kernel finds no bad blocks, parity that agrees, and the data.
fn no_bad_blocks_in_the_kernel(scratch: &Scratch, members: &[PathBuf], data: &[u8]) {
    let script = format!(
        "mdadm --assemble /dev/md0 {}\n\
         test -z \"$(cat /sys/block/md0/md/dev-*/bad_blocks)\"\n\
         {CHECK}\
         test \"$(dd if=/dev/md0 bs=1M count=16 2>/dev/null | sha256sum | cut -d' ' -f1)\" = {}\n\
         mdadm --stop /dev/md0\n",
        devices(members.len()),
        sha256(&scratch.file("expected", data)),
    );
    println!("{}", guest(scratch, members, &script));
}

/// A rebuild of ours that loses a block lists it, and the kernel reads the list: that block is an error there
/// too, until it is written.
fn bad_blocks_of_ours(level: Level, count: usize, lost: usize) {
    let scratch = Scratch::new(&format!("lost-{}", level.number()));
    let members: Vec<PathBuf> = (0..=count).map(|i| scratch.member(&format!("m{i}"), MEMBER_BYTES)).collect();
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (faulty, faults): (Vec<_>, Vec<_>) = open(&members).into_iter().map(Fault::new).unzip();
    let mut devices_here: Vec<Arc<dyn Device>> = faulty.into_iter().map(|f| Arc::new(f) as _).collect();
    let spare = devices_here.pop().unwrap();
    let mut options = CreateOptions::new("host:lost", level, devices_here);
    options.assume_clean = true;
    let env = runtime.env();
    let array = runtime.block_on(async move { Array::create(env, options).await }).unwrap();
    let data = pattern(DATA_BYTES);
    write_here(&runtime, &array, 0, &data);
    let block = (1 << 20) + 4 * 65536 + 8192;
    for faults in &faults[..lost] {
        faults.add(FaultRule {
            operation: Operation::Read,
            range_bytes: block..block + 4096,
            kind: IoErrorKind::Medium,
            times: u32::MAX,
            healed_by_write: true,
        });
    }
    let (asked, last) = (array.clone(), members[count - 1].display().to_string());
    runtime
        .block_on(async move {
            asked.fail(&last).await?;
            asked.add(spare).await?;
            asked.wait_for_jobs().await;
            asked.remove(&last).await
        })
        .unwrap();
    let asked = array.clone();
    let report = runtime.block_on(async move { asked.report().await });
    assert_eq!(report.degraded(), 0);
    assert_eq!(report.members.iter().map(|member| member.bad_block_bytes).sum::<u64>(), 4096);
    stop_here(&runtime, &array);
    drop(array);
    let filled: Vec<PathBuf> = members[..count - 1].iter().chain(&members[count..]).cloned().collect();
    let place = format!("{} 8", block / 512);
    // The guest's devices have no bad sectors, so that there the others tell what the listed block held.
    let script = format!(
        "mdadm --examine-badblocks /dev/ubd{last}\n\
         mdadm --assemble /dev/md0 {devices}\n\
         test \"$(cat /sys/block/md0/md/dev-ubd{last}/bad_blocks)\" = '{place}'\n\
         test \"$(dd if=/dev/md0 bs=1M count=16 2>/dev/null | sha256sum | cut -d' ' -f1)\" = {expected}\n\
         mdadm --stop /dev/md0\n",
        last = (b'a' + count as u8 - 1) as char,
        devices = devices(count),
        expected = sha256(&scratch.file("expected", &data)),
    );
    println!("{}", guest(&scratch, &filled, &script));
    let array = assemble_here(&runtime, &filled, AssembleOptions::default());
    written_back(&runtime, &array);
    stop_here(&runtime, &array);
    drop(array);
    no_bad_blocks_in_the_kernel(&scratch, &filled, &data);
}

#[test]
fn bad_blocks_that_the_kernel_lists_are_reconstructed_here_and_good_there_again() {
    if guest_is_here() {
        bad_blocks_of_the_kernel(Level::Raid1, 2);
        bad_blocks_of_the_kernel(Level::Raid4, 4);
        bad_blocks_of_the_kernel(Level::Raid5, 4);
        bad_blocks_of_the_kernel(Level::Raid6, 5);
    }
}

#[test]
fn bad_blocks_that_a_rebuild_lists_here_are_bad_to_the_kernel() {
    if guest_is_here() {
        bad_blocks_of_ours(Level::Raid1, 2, 1);
        bad_blocks_of_ours(Level::Raid5, 4, 1);
        bad_blocks_of_ours(Level::Raid6, 5, 2);
    }
}

#[test]
fn arrays_of_ours_run_under_the_kernel_and_come_back() {
    if guest_is_here() {
        to_the_kernel_and_back(Level::Raid4, 4, 0, "default");
        to_the_kernel_and_back(Level::Raid5, 5, 0, "scala");
        to_the_kernel_and_back(Level::Raid6, 6, 0, "hemi");
    }
}

#[test]
fn degraded_arrays_of_ours_run_under_the_kernel_and_come_back() {
    if guest_is_here() {
        to_the_kernel_and_back(Level::Raid4, 4, 1, "scala");
        to_the_kernel_and_back(Level::Raid5, 5, 1, "orig");
        to_the_kernel_and_back(Level::Raid6, 6, 2, "default");
    }
}

#[test]
fn arrays_of_the_kernels_run_here_and_go_back() {
    if guest_is_here() {
        from_the_kernel_and_back(Level::Raid4, 4, false, 0);
        from_the_kernel_and_back(Level::Raid5, 5, true, 0);
        from_the_kernel_and_back(Level::Raid6, 6, false, 0);
        from_the_kernel_and_back(Level::Raid1, 2, true, 0);
    }
}

#[test]
fn degraded_arrays_of_the_kernels_run_here_and_go_back() {
    if guest_is_here() {
        from_the_kernel_and_back(Level::Raid4, 4, false, 1);
        from_the_kernel_and_back(Level::Raid5, 5, false, 1);
        from_the_kernel_and_back(Level::Raid6, 6, true, 2);
    }
}
