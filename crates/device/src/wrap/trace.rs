//! Records the requests to a member, in order, for tests that inspect the engine's I/O.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    Completion, Device, DeviceInfo, Extent, IoError, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags,
    ZeroFlags, bufs_len,
};

/// One request, as the caller made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEvent {
    /// A read of `len_bytes` at `offset_bytes`.
    Read {
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
    },
    /// A write.
    Write {
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
        /// Whether it asked for durability at completion.
        fua: bool,
    },
    /// A flush.
    Flush,
    /// A zero-write.
    Zero {
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
    },
}

/// The recorded requests of one member.
#[derive(Debug, Default)]
pub struct TraceLog(Mutex<Vec<TraceEvent>>);

impl TraceLog {
    /// Takes all events recorded so far.
    pub fn take(&self) -> Vec<TraceEvent> {
        std::mem::take(&mut self.0.lock())
    }

    fn add(&self, event: TraceEvent) {
        self.0.lock().push(event);
    }
}

/// A layer that records.
pub struct Trace<D> {
    inner: D,
    log: Arc<TraceLog>,
}

impl<D> Trace<D> {
    /// Wraps a member; the log is read through the returned handle.
    pub fn new(inner: D) -> (Self, Arc<TraceLog>) {
        let log = Arc::<TraceLog>::default();
        (Self { inner, log: log.clone() }, log)
    }
}

impl<D: Device> Device for Trace<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.log.add(TraceEvent::Read { offset_bytes, len_bytes: bufs_len(&into) as u64 });
        self.inner.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.log.add(TraceEvent::Write { offset_bytes, len_bytes: bufs_len(&from) as u64, fua: flags.fua });
        self.inner.write(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        self.log.add(TraceEvent::Flush);
        self.inner.flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.log.add(TraceEvent::Zero { offset_bytes, len_bytes });
        self.inner.write_zeroes(offset_bytes, len_bytes, flags)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.inner.discard(offset_bytes, len_bytes)
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        self.inner.extents(offset_bytes, len_bytes)
    }
}
