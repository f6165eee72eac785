//! Delays every request by a fixed time, as a slow member would.

use std::{sync::Arc, time::Duration};

use crate::{
    Completion, Device, DeviceInfo, EnvHandle, Extent, IoError, IoFuture, ReadBufs, ReadDone, WriteBufs,
    WriteFlags, ZeroFlags,
};

/// A layer that delays. Unlike what [`Device`] asks for, a request starts when its future is polled after the
/// delay; a future dropped before that never makes its request. That is enough for callers that wait for
/// their requests.
pub struct Delay<D> {
    inner: Arc<D>,
    env: EnvHandle,
    delay: Duration,
}

impl<D> Delay<D> {
    /// Wraps a member; each request starts `delay` after the call.
    pub fn new(inner: D, env: EnvHandle, delay: Duration) -> Self {
        Self { inner: Arc::new(inner), env, delay }
    }

    fn later<T: Unpin + Send + 'static>(
        &self,
        start: impl FnOnce(&D) -> IoFuture<T> + Send + 'static,
    ) -> IoFuture<T>
    where
        D: Send + Sync + 'static,
    {
        let (inner, sleep) = (self.inner.clone(), self.env.sleep(self.delay));
        IoFuture::boxed(async move {
            sleep.await;
            start(&inner).await
        })
    }
}

impl<D: Device> Device for Delay<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.later(move |inner| inner.read(offset_bytes, into))
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.later(move |inner| inner.write(offset_bytes, from, flags))
    }

    fn flush(&self) -> Completion {
        self.later(D::flush)
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.later(move |inner| inner.write_zeroes(offset_bytes, len_bytes, flags))
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.later(move |inner| inner.discard(offset_bytes, len_bytes))
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        self.later(move |inner| inner.extents(offset_bytes, len_bytes))
    }
}
