//! Members on files that another process serves.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use smallvec::smallvec;
use stripewise_device::{
    Device, IoBuf, WriteFlags,
    file::{FileDevice, FileOptions},
    uring::{Runtime, RuntimeOptions},
};
use stripewise_testkit::{
    can_run,
    served::{NEEDS, ServedFile},
};

/// The kernel drops RWF_DSYNC of a direct write to FUSE through a ring.
#[test]
fn a_write_that_is_to_be_durable_is_flushed_where_another_process_serves_the_file() {
    if !can_run(&NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = ServedFile::new(folder.path(), "member", 1 << 20);
    let device = Arc::new(FileDevice::open(&file.member, FileOptions::default()).unwrap());
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let write = |flags| {
        let device = device.clone();
        let block = smallvec![IoBuf::copy_of(&[7; 4096]).freeze()];
        runtime.block_on(async move { device.write(4096, block, flags).await })
    };
    write(WriteFlags::default()).unwrap();
    let before = file.flushes();
    write(WriteFlags { fua: true }).unwrap();
    assert_eq!([before, file.flushes()], [0, 1]);
    let stored = std::fs::read(&file.stored).unwrap();
    assert!(stored[4096..8192].iter().all(|byte| *byte == 7));
}
