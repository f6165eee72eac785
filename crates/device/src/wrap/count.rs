//! Counts requests and bytes by kind.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    Completion, Device, DeviceInfo, Extent, IoError, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags,
    ZeroFlags, bufs_len,
};

/// What has passed through a [`Count`] layer.
#[derive(Debug, Default)]
pub struct Counters {
    /// Read requests.
    pub reads: AtomicU64,
    /// Bytes asked to be read.
    pub read_bytes: AtomicU64,
    /// Write requests.
    pub writes: AtomicU64,
    /// Bytes asked to be written.
    pub written_bytes: AtomicU64,
    /// Flushes.
    pub flushes: AtomicU64,
    /// Bytes asked to be zeroed.
    pub zeroed_bytes: AtomicU64,
}

/// A layer that counts.
pub struct Count<D> {
    inner: D,
    counters: Arc<Counters>,
}

impl<D> Count<D> {
    /// Wraps a member; the counters can be read through the returned handle at any time.
    pub fn new(inner: D) -> (Self, Arc<Counters>) {
        let counters = Arc::<Counters>::default();
        (Self { inner, counters: counters.clone() }, counters)
    }
}

impl<D: Device> Device for Count<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.counters.reads.fetch_add(1, Relaxed);
        self.counters.read_bytes.fetch_add(bufs_len(&into) as u64, Relaxed);
        self.inner.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.counters.writes.fetch_add(1, Relaxed);
        self.counters.written_bytes.fetch_add(bufs_len(&from) as u64, Relaxed);
        self.inner.write(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        self.counters.flushes.fetch_add(1, Relaxed);
        self.inner.flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.counters.zeroed_bytes.fetch_add(len_bytes, Relaxed);
        self.inner.write_zeroes(offset_bytes, len_bytes, flags)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.inner.discard(offset_bytes, len_bytes)
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        self.inner.extents(offset_bytes, len_bytes)
    }
}
