//! Whose panic it is: one in the caller's own future is the caller's; one inside the engine ends the process.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    env,
    os::unix::process::ExitStatusExt,
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::Arc,
};

use common::Ground;
use stripewise::{
    Array, Completion, CreateOptions, Device, DeviceInfo, Host, HostOptions, IoBuf, IoFuture, ReadBufs,
    ReadDone, WriteBufs, WriteFlags, ZeroFlags, geometry::Level, memory::MemoryDevice,
};

#[test]
fn a_panic_of_the_callers_future_reaches_the_caller() {
    let ground = Ground::new();
    let array = ground.open();
    let asking = array.clone();
    let ask = || {
        ground.host.block_on(async move {
            asking.write(0, IoBuf::copy_of(&[1; 4096]).freeze(), WriteFlags::default()).await.unwrap();
            panic!("of my own");
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(ask)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"of my own"));
    // The host serves on.
    let read = ground.host.block_on(async move { array.read(0, IoBuf::with_len(4096)).await }).unwrap();
    assert!(read.iter().all(|byte| *byte == 1));
}

/// A member whose writes panic: as a bug of the engine would, in the middle of a step.
struct Broken(MemoryDevice);

impl Device for Broken {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.0.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        assert!(offset_bytes < 1 << 20, "a bug");
        self.0.write(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        self.0.flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.0.write_zeroes(offset_bytes, len_bytes, flags)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.0.discard(offset_bytes, len_bytes)
    }
}

/// What the child process below does: an array over memory whose second member fails by panic.
const CHILD: &str = "STRIPEWISE_PANICS_IN_ENGINE";

const SIGABRT: i32 = 6;

/// Runs one of the tests of this file again as a process of its own, and tells whether it aborted.
fn is_aborted(test: &str) -> bool {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    child.signal() == Some(SIGABRT)
}

fn broken_array(host: &Host) -> Array {
    let member = |number| MemoryDevice::new(format!("m{number}"), 8 << 20);
    let mut members: Vec<Arc<dyn Device>> = (0..2).map(|n| Arc::new(member(n)) as Arc<dyn Device>).collect();
    members.push(Arc::new(Broken(member(2))));
    let mut options = CreateOptions::named("host:broken", Level::Raid5);
    options.assume_clean = true;
    host.create(members, options).unwrap()
}

#[test]
fn a_panic_of_the_engine_inside_the_callers_future_ends_the_process() {
    if env::var_os(CHILD).is_none() {
        return assert!(is_aborted("a_panic_of_the_engine_inside_the_callers_future_ends_the_process"));
    }
    let host = Host::start(&HostOptions::default()).unwrap();
    let array = broken_array(&host);
    let ask = || {
        host.block_on(async move {
            let whole = IoBuf::zeroed(array.geometry().stripe_bytes() as usize).freeze();
            array.write(0, whole, WriteFlags::default()).await
        })
    };
    let _ = catch_unwind(AssertUnwindSafe(ask));
}

#[test]
fn a_panic_of_the_engine_on_a_foreign_thread_ends_the_process() {
    if env::var_os(CHILD).is_none() {
        return assert!(is_aborted("a_panic_of_the_engine_on_a_foreign_thread_ends_the_process"));
    }
    let host = Host::start(&HostOptions::default()).unwrap();
    let array = broken_array(&host);
    let whole = IoBuf::zeroed(array.geometry().stripe_bytes() as usize).freeze();
    let write = array.write(0, whole, WriteFlags::default());
    let _ = catch_unwind(AssertUnwindSafe(|| host.block_on(write)));
}
