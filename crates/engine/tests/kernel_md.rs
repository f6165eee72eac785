//! The same members under the kernel's md and under this engine, in turns: arrays of ours assembled by mdadm in a
//! User Mode Linux guest, and arrays of mdadm's opened here. Levels 4, 5, 6, healthy and degraded.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // tests make real files

#[path = "../../format/tests/common/mod.rs"]
mod guest;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use guest::{Scratch, guest, guest_is_here, pattern};
use stripewise_device::{
    Device, IoBuf, WriteFlags,
    file::{FileDevice, FileOptions},
    uring::{Runtime, RuntimeOptions},
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
