//! The layers, over a member in memory.

#![allow(clippy::unwrap_used)]

use futures_executor::block_on;
use smallvec::smallvec;
use std::sync::atomic::Ordering::Relaxed;
use stripewise_device::{
    Completion, Device, DeviceInfo, Extent, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone,
    WriteBufs, WriteFlags, ZeroFlags,
    memory::MemoryDevice,
    wrap::{Count, Fault, FaultRule, Operation, Trace, TraceEvent},
};

fn write(device: &impl Device, offset_bytes: u64) -> Result<(), IoError> {
    let block = IoBuf::copy_of(&[1; 4096]).freeze();
    block_on(device.write(offset_bytes, smallvec![block], WriteFlags::default()))
}

fn read(device: &impl Device, offset_bytes: u64) -> Result<IoBuf, IoError> {
    block_on(device.read(offset_bytes, smallvec![IoBuf::with_len(4096)])).into_one()
}

#[test]
fn layers_stack() {
    let (fault, faults) = Fault::new(MemoryDevice::new("m", 1 << 20));
    let (trace, log) = Trace::new(fault);
    let (device, counters) = Count::new(trace);
    write(&device, 8192).unwrap();
    faults.set_gone(true);
    assert_eq!(read(&device, 8192).unwrap_err().kind, IoErrorKind::Gone);
    assert_eq!(counters.writes.load(Relaxed), 1);
    assert_eq!(counters.read_bytes.load(Relaxed), 4096);
    assert_eq!(log.take()[0], TraceEvent::Write { offset_bytes: 8192, len_bytes: 4096, fua: false });
}

/// A device all of which is a hole.
struct Hollow(MemoryDevice);

impl Device for Hollow {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.0.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.0.write(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        self.0.flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.0.write_zeroes(offset_bytes, len_bytes, flags)
    }

    fn extents(&self, _: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        IoFuture::ready(Ok(vec![Extent { len_bytes, is_hole: true }]))
    }
}

/// Layers that kept holes to themselves hid a bug from every story.
#[test]
fn layers_pass_on_what_is_a_hole() {
    let (fault, faults) = Fault::new(Hollow(MemoryDevice::new("m", 1 << 20)));
    let (trace, _) = Trace::new(fault);
    let (device, _) = Count::new(trace);
    assert_eq!(block_on(device.extents(0, 4096)).unwrap(), [Extent { len_bytes: 4096, is_hole: true }]);
    block_on(device.discard(0, 4096)).unwrap();
    faults.set_gone(true);
    assert!(block_on(device.extents(0, 4096)).is_err() && block_on(device.discard(0, 4096)).is_err());
}

#[test]
fn a_latent_sector_error_is_healed_by_writing() {
    let (device, faults) = Fault::new(MemoryDevice::new("m", 1 << 20));
    faults.add(FaultRule {
        operation: Operation::Read,
        range_bytes: 4096..4608,
        kind: IoErrorKind::Medium,
        times: u32::MAX,
        healed_by_write: true,
    });
    assert_eq!(read(&device, 4096).unwrap_err().kind, IoErrorKind::Medium);
    assert!(read(&device, 8192).is_ok());
    write(&device, 4096).unwrap();
    assert!(read(&device, 4096).is_ok());
}

#[test]
fn memory_checks_its_end_and_alignment() {
    let device = MemoryDevice::new("m", 1 << 20);
    assert_eq!(read(&device, 1 << 20).unwrap_err().kind, IoErrorKind::Truncated);
    assert_eq!(read(&device, 100).unwrap_err().kind, IoErrorKind::Refused);
    assert_eq!(read(&device, u64::MAX - 4095).unwrap_err().kind, IoErrorKind::Refused);
}
